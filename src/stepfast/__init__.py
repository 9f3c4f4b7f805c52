"""Stepfast: durable workflows in plain Python."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepfast.app import Stepfast
    from stepfast.kernel.errors import (
        IllegalMove,
        Invalid,
        LeaseLost,
        NonDeterminism,
        NotFound,
        RunCancelled,
        RunFailed,
        StepFailed,
        StepfastError,
        StepTimeout,
        StoreUnavailable,
        WaitTimeout,
        WrongCall,
    )
    from stepfast.kernel.retry import Retry
    from stepfast.kernel.states import RunState, StepState
    from stepfast.runs import Run
    from stepfast.starts import Start, StartAnswer
    from stepfast.worker.settings import WorkerSettings
    from stepfast.workflows.functions import workflow
    from stepfast.workflows.steps import step
    from stepfast.workflows.waiting import receive, sleep

__version__ = "0.1.0"

__all__ = [
    "IllegalMove",
    "Invalid",
    "LeaseLost",
    "NonDeterminism",
    "NotFound",
    "Retry",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunState",
    "Start",
    "StartAnswer",
    "StepFailed",
    "StepState",
    "StepTimeout",
    "Stepfast",
    "StepfastError",
    "StoreUnavailable",
    "WaitTimeout",
    "WorkerSettings",
    "WrongCall",
    "receive",
    "sleep",
    "step",
    "workflow",
]

_HOMES = {
    "Retry": "stepfast.kernel.retry",
    "Run": "stepfast.runs",
    "RunState": "stepfast.kernel.states",
    "Start": "stepfast.starts",
    "StartAnswer": "stepfast.starts",
    "StepState": "stepfast.kernel.states",
    "Stepfast": "stepfast.app",
    "WorkerSettings": "stepfast.worker.settings",
    "receive": "stepfast.workflows.waiting",
    "sleep": "stepfast.workflows.waiting",
    "step": "stepfast.workflows.steps",
    "workflow": "stepfast.workflows.functions",
}


def __getattr__(name: str) -> Any:
    # Names are imported when they are first used, so that the command line and small scripts start at once.
    if name not in __all__:
        raise AttributeError(f"module 'stepfast' has no attribute {name!r}")
    module = importlib.import_module(_HOMES.get(name, "stepfast.kernel.errors"))
    value = getattr(module, name)
    globals()[name] = value
    return value
