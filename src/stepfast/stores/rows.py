"""Rows of the shared statements, in their column order, as the kernel's views."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey
from stepfast.kernel.commands import Changed
from stepfast.kernel.decisions import CallId, Message, OpenWait, Record
from stepfast.kernel.errors import KeyReused, StoreUnusable
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState, StepState, WaitKind
from stepfast.kernel.views import (
    LASTING_TROUBLE,
    WAIT_LONG_DUE,
    Backlog,
    EventView,
    Family,
    Finding,
    LetterFilter,
    LetterView,
    LineView,
    Member,
    OutcomeView,
    Progress,
    QueueView,
    RunFilter,
    RunView,
    StepView,
    WorkerView,
)

Row = Sequence[Any]

# Ids are UUIDs in text, so this is above every one of them and is an id itself.
ABOVE_ALL_IDS = RunId("ffffffff-ffff-ffff-ffff-ffffffffffff")
BELOW_ALL_IDS = RunId("00000000-0000-0000-0000-000000000000")

# Keys are kept by the names of commands; these are not what people have called or typed.
TOLD_COMMANDS = {
    "assign": "`reviews assign`",
    "comment": "`reviews comment`",
    "decide": "answer to a review",
    "assign_item": "`exceptions assign`",
    "comment_item": "`exceptions comment`",
    "resolve_item": "`exceptions resolve`",
}

# One statement for each clause of the invariant of unended runs; each is `find_` and the clause.
CLAUSES = (
    "run_without_task",
    "task_of_ended_run",
    "holder_gone",
    "waiting_for_nothing",
    WAIT_LONG_DUE,
    "wait_forgotten",
)
# How many of the newest runs, and of the newest that have not ended, a clause looks at that no index can answer.
REACH = 50_000
# What a doctor asks for: the invariant, and what keeps runs from going on while it holds.
FINDINGS = (*CLAUSES, LASTING_TROUBLE)
# A claim takes up what is due within a polling interval; what is this long over nobody serves.
LONG_DUE_MS = 60_000


def filter_parameters(where: RunFilter) -> dict[str, Any]:
    """The parameters of `list_runs`; a condition that is not asked for is None."""
    return {**where._asdict(), "before": where.before or ABOVE_ALL_IDS}


def letter_parameters(where: LetterFilter) -> dict[str, Any]:
    """The parameters of `list_letters`; a condition that is not asked for is None."""
    unresolved = None if where.resolved else "only"
    return {**where._asdict(), "before": where.before or ABOVE_ALL_IDS, "unresolved": unresolved}


def finding_parameters(limit: int, runs_after: RunId | None, tasks_after: RunId | None) -> dict[str, Any]:
    """The parameters of the statements for FINDINGS; without a run to look behind, all are looked at."""
    reach = {"runs_after": runs_after or BELOW_ALL_IDS, "tasks_after": tasks_after or BELOW_ALL_IDS}
    return {"limit": limit, "long_due_ms": LONG_DUE_MS, **reach}


def run_view(row: Row) -> RunView:
    """A row of `list_runs`."""
    run_id, tenant, workflow, version, kind, state, *rest, tags = row
    view = RunView(RunId(str(run_id)), tenant, workflow, version, kind, RunState(state), *rest)
    own_tags = tuple(json.loads(tags or "[]"))
    return view._replace(worker_id=_worker_id(view.worker_id), parent_id=_run_id(view.parent_id), tags=own_tags)


def whole_run_view(row: Row) -> RunView:
    """A row of `get_run`: that of `list_runs`, and how far the run has got."""
    *columns, progress = row
    return run_view(columns)._replace(progress=_progress(progress))


def step_view(row: Row) -> StepView:
    """A row of `list_steps`."""
    seq, path, name, nth, kind, state, *rest = row
    call = CallId(path, name, nth)
    try:
        return StepView(seq, call, kind, StepState(state), *rest)
    except ValueError as problem:
        raise StoreUnusable(
            f"Record {seq} of the run, of {call.address}, says {state!r} for its state, and there is no such state: "
            "somebody has changed it. Put the row right, or a backup in its place."
        ) from problem


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
    n, kind, name, value, actor, at, told, reason, cause = row
    return Message(n, kind, name, value, actor, at, bool(told), reason, cause)


def event_view(row: Row) -> EventView:
    """A row of `list_events`."""
    position, seq, run_id, *rest = row
    return EventView(position, seq, RunId(str(run_id)), *rest)


def outcome_view(row: Row) -> OutcomeView:
    """A row of `get_outcome`."""
    run_id, generation, state, *rest = row
    return OutcomeView(RunId(str(run_id)), generation, RunState(state), *rest)


def letter_view(row: Row) -> LetterView:
    """A row of `list_letters`."""
    run_id, *rest = row
    return LetterView(RunId(str(run_id)), *rest)


def queue_view(row: Row) -> QueueView:
    """A row of `list_queues`."""
    return QueueView(*row)


def family(found: Sequence[Row]) -> Family:
    """The rows of `list_family`."""
    ready = [Member(RunId(str(run_id)), *rest) for run_id, *rest, later_at in found if later_at is None]
    return Family(ready, next((row[-1] for row in found if row[-1] is not None), None))


def line_view(row: Row) -> LineView:
    """A row of `list_lines`."""
    return LineView(*row)


def run_id_alone(row: Row) -> RunId:
    """A row of one run id."""
    return RunId(str(row[0]))


def backlog(lines: list[LineView], counted: Row) -> Backlog:
    """The lines, with the row of `count_suspects`."""
    suspects, has_open = counted
    return Backlog(lines, suspects, bool(has_open))


def finding(clause: str, row: Row) -> Finding:
    """A row of the statement for a clause."""
    run_id, tenant, detail = row
    if clause == LASTING_TROUBLE:
        told = json.loads(detail)
        detail = f"handed back {told['troubles']} times in a row: {told['reason']}"
    return Finding(clause, RunId(str(run_id)), tenant, detail)


def worker_view(row: Row) -> WorkerView:
    """A row of `list_workers`; queues and codes are JSON lists in text."""
    worker_id, label, host, pid, queues, codes, *rest, lacks = row
    place = (WorkerId(str(worker_id)), label, host, pid, tuple(json.loads(queues)), tuple(json.loads(codes)))
    fields: Row = (*place, *rest, json.loads(lacks))
    return WorkerView(*fields)


def blob_filter_parameters(where: BlobFilter) -> dict[str, Any]:
    """The parameters of `list_blobs`; a condition that is not asked for is None."""
    after = where.after or BlobKey("", BELOW_ALL_IDS, "")
    begin = {"after_run": after.run_id, "after_tenant": after.tenant, "after_name": after.name}
    return {"tenant": where.tenant, "run_id": where.run_id, "limit": where.limit, **begin}


def blob_info(row: Row) -> BlobInfo:
    """A row of `list_blobs`."""
    tenant, run_id, name, size, at = row
    return BlobInfo(BlobKey(tenant, RunId(str(run_id)), name), size, at)


def answer_text(changed: Changed) -> str:
    """What is kept of the answer to a command that has a key."""
    return json.dumps(asdict(replace(changed, told=())))


def repeated_answer(text: str) -> Changed:
    """The kept answer, for a command that comes again."""
    kept = json.loads(text)
    return Changed(**kept | {"state": RunState(kept["state"]), "repeated": True, "told": ()})


def key_reused(tenant: str, key: str | None, command: str) -> KeyReused:
    """The refusal of a command whose key came with another one before."""
    told = TOLD_COMMANDS.get(command, command)
    return KeyReused(
        f"Key {key!r} of tenant {tenant!r} was used before for another {told}. "
        "Use a new key, or send what was sent first."
    )


def _progress(text: str | None) -> Progress | None:
    """What a run said; a text that is no such thing, put there by other means, says nothing."""
    try:
        said = json.loads(text or "null")
        return Progress(said["done"], said["total"], said["note"])
    except (ValueError, TypeError, KeyError):
        return None


def _run_id(value: object) -> RunId | None:
    return None if value is None else RunId(str(value))


def _worker_id(value: object) -> WorkerId | None:
    return None if value is None else WorkerId(str(value))
