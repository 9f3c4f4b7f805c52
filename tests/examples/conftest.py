"""Fixtures for the tests of examples."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepfast.workflows import registry, steps
from stepfast.workflows.executors import domains
from stepfast.workflows.executors import registry as executor_registry
from stepfast.workflows.registry import Defined
from tests.examples.support import Imported, copied


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Imported]:
    """Imports a module of an example, named like `invoice_approval.invoice`, in a folder of its own."""
    # Steps are known to the whole process, and other tests have some of the same names.
    own: Defined[Any] = Defined()
    for home in (steps, domains, registry, executor_registry):
        monkeypatch.setattr(home, "DEFINED_STEPS", own)

    def load(named: str):
        example, module = named.split(".")
        folder = copied(example, tmp_path)
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        return importlib.import_module(module)

    before = set(sys.modules)
    yield load
    for name in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
