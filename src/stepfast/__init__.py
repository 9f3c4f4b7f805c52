"""Stepfast: durable workflows in plain Python."""

from __future__ import annotations

import importlib

# By its name type checkers take it for theirs. Importing it would come before a worker can listen to signals.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stepfast.app import Stepfast
    from stepfast.bulk import BulkAnswer
    from stepfast.kernel.commands import Changed
    from stepfast.kernel.errors import (
        IllegalMove,
        Invalid,
        LeaseLost,
        NonDeterminism,
        NotFound,
        NotShowable,
        Rejected,
        RoleNotAllowed,
        RunCancelled,
        RunFailed,
        StepFailed,
        StepfastError,
        StepTimeout,
        StoreUnavailable,
        TokenExpired,
        TokenForeign,
        TokenUsed,
        TokenWrong,
        VerdictNotAllowed,
        WaitTimeout,
        WrongCall,
    )
    from stepfast.kernel.reasons import Why
    from stepfast.kernel.retry import Retry
    from stepfast.kernel.states import RunState, StepState
    from stepfast.listening import RunEvent
    from stepfast.runs import Run
    from stepfast.starts import Start, StartAnswer
    from stepfast.worker.settings import WorkerSettings
    from stepfast.workflows.bodies import Later
    from stepfast.workflows.combining import each, race, timeout
    from stepfast.workflows.deterministic import continue_as, current_run
    from stepfast.workflows.functions import workflow
    from stepfast.workflows.handles import Child, SyncChild
    from stepfast.workflows.joins import Outcome
    from stepfast.workflows.review_calls import Answered, Reviewed
    from stepfast.workflows.reviewing import ReviewInfo, review
    from stepfast.workflows.steps import step
    from stepfast.workflows.telling import emit, progress
    from stepfast.workflows.waiting import receive, sleep

__version__ = "0.1.0"

__all__ = [
    "Answered",
    "BulkAnswer",
    "Changed",
    "Child",
    "IllegalMove",
    "Invalid",
    "Later",
    "LeaseLost",
    "NonDeterminism",
    "NotFound",
    "NotShowable",
    "Outcome",
    "Rejected",
    "Retry",
    "ReviewInfo",
    "Reviewed",
    "RoleNotAllowed",
    "Run",
    "RunCancelled",
    "RunEvent",
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
    "SyncChild",
    "TokenExpired",
    "TokenForeign",
    "TokenUsed",
    "TokenWrong",
    "VerdictNotAllowed",
    "WaitTimeout",
    "Why",
    "WorkerSettings",
    "WrongCall",
    "continue_as",
    "current_run",
    "each",
    "emit",
    "progress",
    "race",
    "receive",
    "review",
    "sleep",
    "step",
    "timeout",
    "workflow",
]

_HOMES = {
    "Answered": "stepfast.workflows.review_calls",
    "BulkAnswer": "stepfast.bulk",
    "Changed": "stepfast.kernel.commands",
    "Child": "stepfast.workflows.handles",
    "Later": "stepfast.workflows.bodies",
    "Outcome": "stepfast.workflows.joins",
    "Retry": "stepfast.kernel.retry",
    "ReviewInfo": "stepfast.workflows.reviewing",
    "Reviewed": "stepfast.workflows.review_calls",
    "Run": "stepfast.runs",
    "RunEvent": "stepfast.listening",
    "RunState": "stepfast.kernel.states",
    "Start": "stepfast.starts",
    "StartAnswer": "stepfast.starts",
    "StepState": "stepfast.kernel.states",
    "Stepfast": "stepfast.app",
    "SyncChild": "stepfast.workflows.handles",
    "Why": "stepfast.kernel.reasons",
    "WorkerSettings": "stepfast.worker.settings",
    "continue_as": "stepfast.workflows.deterministic",
    "current_run": "stepfast.workflows.deterministic",
    "each": "stepfast.workflows.combining",
    "emit": "stepfast.workflows.telling",
    "progress": "stepfast.workflows.telling",
    "race": "stepfast.workflows.combining",
    "receive": "stepfast.workflows.waiting",
    "review": "stepfast.workflows.reviewing",
    "sleep": "stepfast.workflows.waiting",
    "step": "stepfast.workflows.steps",
    "timeout": "stepfast.workflows.combining",
    "workflow": "stepfast.workflows.functions",
}


def __getattr__(name: str) -> Any:
    # Names are imported when they are first used, so that the command line and small scripts start at once.
    if name == "durable":
        return importlib.import_module("stepfast.durable")
    if name not in __all__:
        raise AttributeError(f"module 'stepfast' has no attribute {name!r}")
    module = importlib.import_module(_HOMES.get(name, "stepfast.kernel.errors"))
    value = getattr(module, name)
    globals()[name] = value
    return value
