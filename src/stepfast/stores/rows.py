"""Rows of the shared statements, in their column order, as the kernel's views."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from stepfast.kernel.decisions import CallId, Message, OpenWait, Record
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState, StepState, WaitKind
from stepfast.kernel.views import EventView, OutcomeView, RunFilter, RunView, StepView, WorkerView

Row = Sequence[Any]

# Ids are UUIDs in text, so this is above every one of them and is an id itself.
ABOVE_ALL_IDS = RunId("ffffffff-ffff-ffff-ffff-ffffffffffff")


def filter_parameters(where: RunFilter) -> dict[str, Any]:
    """The parameters of `list_runs`; a condition that is not asked for is None."""
    return {**where._asdict(), "before": where.before or ABOVE_ALL_IDS}


def run_view(row: Row) -> RunView:
    """A row of `get_run` or `list_runs`."""
    run_id, tenant, workflow, version, kind, state, *rest = row
    view = RunView(RunId(str(run_id)), tenant, workflow, version, kind, RunState(state), *rest)
    return view._replace(worker_id=_worker_id(view.worker_id), parent_id=_run_id(view.parent_id))


def step_view(row: Row) -> StepView:
    """A row of `list_steps`."""
    seq, path, name, nth, kind, state, *rest = row
    return StepView(seq, CallId(path, name, nth), kind, StepState(state), *rest)


def record(row: Row) -> Record:
    """A row of `list_records`."""
    path, name, nth, kind, state, *rest = row
    return Record(CallId(path, name, nth), kind, StepState(state), *rest)


def open_wait(row: Row) -> OpenWait:
    """A row of `list_waits`."""
    wait_id, kind, *rest = row
    return OpenWait(wait_id, WaitKind(kind), *rest)


def message(row: Row) -> Message:
    """A row of `list_inbox`."""
    n, kind, name, value, actor, at, told = row
    return Message(n, kind, name, value, actor, at, bool(told))


def event_view(row: Row) -> EventView:
    """A row of `list_events`."""
    position, seq, run_id, *rest = row
    return EventView(position, seq, RunId(str(run_id)), *rest)


def outcome_view(row: Row) -> OutcomeView:
    """A row of `get_outcome`."""
    run_id, generation, state, *rest = row
    return OutcomeView(RunId(str(run_id)), generation, RunState(state), *rest)


def worker_view(row: Row) -> WorkerView:
    """A row of `list_workers`; queues and codes are JSON lists in text."""
    worker_id, label, host, pid, queues, codes, *rest = row
    return WorkerView(
        WorkerId(str(worker_id)), label, host, pid, tuple(json.loads(queues)), tuple(json.loads(codes)), *rest
    )


def _run_id(value: object) -> RunId | None:
    return None if value is None else RunId(str(value))


def _worker_id(value: object) -> WorkerId | None:
    return None if value is None else WorkerId(str(value))
