"""What upkeep says of runs that killed their workers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stepfast.testing import VirtualClock
from stepfast.worker.upkeep import UpkeepLoop


@pytest.mark.parametrize(("crashes", "often"), [(1, "1 time"), (3, "3 times")])
def test_a_run_that_fails_for_its_crashes_says_how_often_its_worker_died(crashes, often):
    store: Any = SimpleNamespace(change=None)
    verdict = UpkeepLoop(store, VirtualClock(), 1_000, crashes)._request().verdict
    assert f"Its worker died {often} while it executed nothing but this run. See E-RUN-002: find" in str(verdict)
