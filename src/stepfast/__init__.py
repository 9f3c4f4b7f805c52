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
        ExecutorNotFound,
        IllegalMove,
        Invalid,
        InvalidDefinition,
        JoinFailed,
        LeaseLost,
        NonDeterminism,
        NotFound,
        NotShowable,
        OutputMissing,
        PolicyConflict,
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
        Transient,
        UndoFailed,
        VerdictNotAllowed,
        WaitTimeout,
        WrongCall,
    )
    from stepfast.kernel.executor_errors import CommandFailed, HttpFailed, HttpRefused, NotAllowed
    from stepfast.kernel.outside import CallbackExpired, CallbackForeign, CallbackUsed, CallbackWrong
    from stepfast.kernel.reasons import Why
    from stepfast.kernel.retry import Retry
    from stepfast.kernel.states import RunState, StepState
    from stepfast.listening import RunEvent
    from stepfast.runs import Run
    from stepfast.starts import Start, StartAnswer
    from stepfast.worker.settings import WorkerSettings
    from stepfast.workflows.annotating import annotate
    from stepfast.workflows.app_policies import Policy
    from stepfast.workflows.bodies import Later
    from stepfast.workflows.callback_tokens import callback_token, step_key
    from stepfast.workflows.combining import each, race, timeout
    from stepfast.workflows.deterministic import continue_as, current_run
    from stepfast.workflows.executors.domains import Domain
    from stepfast.workflows.executors.executor import Executor
    from stepfast.workflows.executors.health import Health
    from stepfast.workflows.functions import workflow
    from stepfast.workflows.graphs.drafts import GraphStep, Joined
    from stepfast.workflows.graphs.graph import Graph
    from stepfast.workflows.graphs.stages import Stage, StageContext
    from stepfast.workflows.graphs.starting import Estimate
    from stepfast.workflows.handles import Child, SyncChild
    from stepfast.workflows.joins import Outcome
    from stepfast.workflows.outside import Outside, Pending
    from stepfast.workflows.review_calls import Answered, Reviewed
    from stepfast.workflows.reviewing import ReviewInfo, review
    from stepfast.workflows.steps import step
    from stepfast.workflows.telling import emit, progress
    from stepfast.workflows.templates.loading import Template, load_template
    from stepfast.workflows.templates.problems import TemplateInvalid
    from stepfast.workflows.transformations.values import Derived, Source
    from stepfast.workflows.waiting import receive, sleep

__version__ = "0.1.0"

__all__ = [
    "Answered",
    "BulkAnswer",
    "CallbackExpired",
    "CallbackForeign",
    "CallbackUsed",
    "CallbackWrong",
    "Changed",
    "Child",
    "CommandFailed",
    "Derived",
    "Domain",
    "Estimate",
    "Executor",
    "ExecutorNotFound",
    "Graph",
    "GraphStep",
    "Health",
    "HttpFailed",
    "HttpRefused",
    "IllegalMove",
    "Invalid",
    "InvalidDefinition",
    "JoinFailed",
    "Joined",
    "Later",
    "LeaseLost",
    "NonDeterminism",
    "NotAllowed",
    "NotFound",
    "NotShowable",
    "Outcome",
    "OutputMissing",
    "Outside",
    "Pending",
    "Policy",
    "PolicyConflict",
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
    "Source",
    "Stage",
    "StageContext",
    "Start",
    "StartAnswer",
    "StepFailed",
    "StepState",
    "StepTimeout",
    "Stepfast",
    "StepfastError",
    "StoreUnavailable",
    "SyncChild",
    "Template",
    "TemplateInvalid",
    "TokenExpired",
    "TokenForeign",
    "TokenUsed",
    "TokenWrong",
    "Transient",
    "UndoFailed",
    "VerdictNotAllowed",
    "WaitTimeout",
    "Why",
    "WorkerSettings",
    "WrongCall",
    "annotate",
    "callback_token",
    "continue_as",
    "current_run",
    "each",
    "emit",
    "load_template",
    "progress",
    "race",
    "receive",
    "review",
    "sleep",
    "step",
    "step_key",
    "timeout",
    "workflow",
]

_HOMES = {
    "Answered": "stepfast.workflows.review_calls",
    "BulkAnswer": "stepfast.bulk",
    "CallbackExpired": "stepfast.kernel.outside",
    "CallbackForeign": "stepfast.kernel.outside",
    "CallbackUsed": "stepfast.kernel.outside",
    "CallbackWrong": "stepfast.kernel.outside",
    "Changed": "stepfast.kernel.commands",
    "Child": "stepfast.workflows.handles",
    "CommandFailed": "stepfast.kernel.executor_errors",
    "Derived": "stepfast.workflows.transformations.values",
    "Domain": "stepfast.workflows.executors.domains",
    "Estimate": "stepfast.workflows.graphs.starting",
    "Executor": "stepfast.workflows.executors.executor",
    "Graph": "stepfast.workflows.graphs.graph",
    "GraphStep": "stepfast.workflows.graphs.drafts",
    "Health": "stepfast.workflows.executors.health",
    "HttpFailed": "stepfast.kernel.executor_errors",
    "HttpRefused": "stepfast.kernel.executor_errors",
    "Joined": "stepfast.workflows.graphs.drafts",
    "Later": "stepfast.workflows.bodies",
    "NotAllowed": "stepfast.kernel.executor_errors",
    "Outcome": "stepfast.workflows.joins",
    "Outside": "stepfast.workflows.outside",
    "Pending": "stepfast.workflows.outside",
    "Policy": "stepfast.workflows.app_policies",
    "Retry": "stepfast.kernel.retry",
    "ReviewInfo": "stepfast.workflows.reviewing",
    "Reviewed": "stepfast.workflows.review_calls",
    "Run": "stepfast.runs",
    "RunEvent": "stepfast.listening",
    "RunState": "stepfast.kernel.states",
    "Source": "stepfast.workflows.transformations.values",
    "Stage": "stepfast.workflows.graphs.stages",
    "StageContext": "stepfast.workflows.graphs.stages",
    "Start": "stepfast.starts",
    "StartAnswer": "stepfast.starts",
    "StepState": "stepfast.kernel.states",
    "Stepfast": "stepfast.app",
    "SyncChild": "stepfast.workflows.handles",
    "Template": "stepfast.workflows.templates.loading",
    "TemplateInvalid": "stepfast.workflows.templates.problems",
    "Why": "stepfast.kernel.reasons",
    "WorkerSettings": "stepfast.worker.settings",
    "annotate": "stepfast.workflows.annotating",
    "callback_token": "stepfast.workflows.callback_tokens",
    "continue_as": "stepfast.workflows.deterministic",
    "current_run": "stepfast.workflows.deterministic",
    "each": "stepfast.workflows.combining",
    "emit": "stepfast.workflows.telling",
    "load_template": "stepfast.workflows.templates.loading",
    "progress": "stepfast.workflows.telling",
    "race": "stepfast.workflows.combining",
    "receive": "stepfast.workflows.waiting",
    "review": "stepfast.workflows.reviewing",
    "sleep": "stepfast.workflows.waiting",
    "step": "stepfast.workflows.steps",
    "step_key": "stepfast.workflows.callback_tokens",
    "timeout": "stepfast.workflows.combining",
    "workflow": "stepfast.workflows.functions",
}


def __getattr__(name: str) -> Any:
    # Names are imported when they are first used, so that the command line and small scripts start at once.
    if name in ("durable", "storage"):
        return importlib.import_module(f"stepfast.{name}")
    if name not in __all__:
        raise AttributeError(f"module 'stepfast' has no attribute {name!r}")
    module = importlib.import_module(_HOMES.get(name, "stepfast.kernel.errors"))
    value = getattr(module, name)
    globals()[name] = value
    return value
