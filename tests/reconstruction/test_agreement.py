"""At every moment a run's state, rebuilt from its events alone, is the one that its rows show."""

from __future__ import annotations

import os

import pytest

from stepfast.testing import engine
from tests.reconstruction.lives import EXECUTORS, WORKFLOWS, live
from tests.reconstruction.watching import Watch

SEEDS = range(1_000 if os.environ.get("STEPFAST_LONG") else 25)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
async def test_rows_never_say_what_events_rule_out(database, seed):
    watch = Watch()
    async with engine(database=database, workflows=WORKFLOWS, executors=EXECUTORS, around=watch.around) as opened:
        await live(opened, seed)
    assert watch.found == []
