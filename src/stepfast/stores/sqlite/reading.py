"""What is read back: by the shared cold statements, one connection's snapshot at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import apsw

from stepfast.kernel.decisions import History
from stepfast.kernel.exchange import Look
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import (
    Backlog,
    EventView,
    Family,
    Findings,
    LetterFilter,
    LetterView,
    OutcomeView,
    QueueView,
    RunFilter,
    RunView,
    StepView,
    WorkerView,
)
from stepfast.stores import rows
from stepfast.stores.sqlite.asking import fetch, fetch_damaged
from stepfast.stores.statements import narrowed, shared_statements, unprefixed
from stepfast.stores.trail import GAPS

T = TypeVar("T")

SQL = {name: unprefixed(text) for name, text in shared_statements().items()}
# What people look at: what was changed is shown as it stands now, so that one damaged row hides no other, and whoever
# verifies the trail can say what it is.
SHOWN = frozenset(
    {
        *("get_run", "list_runs", "list_steps"),
        *("list_events", "list_trail", "find_events", "find_events_of_run", "events_between", "due_letters"),
        *("list_seals", "last_seal", "list_leaves", *GAPS, "pruned_of_seal", "pruned_runs"),
    }
)


def get_run(connection: apsw.Connection, tenant: str | None, run_id: RunId) -> RunView | None:
    found = read(connection, "get_run", {"tenant": tenant, "run_id": run_id}, rows.whole_run_view)
    return found[0] if found else None


def list_runs(connection: apsw.Connection, where: RunFilter) -> list[RunView]:
    return read(connection, "list_runs", rows.filter_parameters(where), rows.run_view)


def list_steps(connection: apsw.Connection, run_id: RunId) -> list[StepView]:
    return read(connection, "list_steps", {"run_id": run_id}, rows.step_view)


def list_events(connection: apsw.Connection, run_id: RunId, after: int, limit: int) -> list[EventView]:
    return read(connection, "list_events", {"run_id": run_id, "after": after, "limit": limit}, rows.event_view)


def list_workers(connection: apsw.Connection) -> list[WorkerView]:
    return read(connection, "list_workers", {}, rows.worker_view)


def list_letters(connection: apsw.Connection, where: LetterFilter) -> list[LetterView]:
    return read(connection, "list_letters", rows.letter_parameters(where), rows.letter_view)


def list_queues(connection: apsw.Connection) -> list[QueueView]:
    return read(connection, "list_queues", {}, rows.queue_view)


def get_family(connection: apsw.Connection, run_id: RunId, limit: int) -> Family:
    return rows.family(read(connection, "list_family", {"run_id": run_id, "limit": limit}, tuple))


def get_backlog(connection: apsw.Connection, limit: int) -> Backlog:
    with connection:
        lines = read(connection, "list_lines", {"limit": limit}, rows.line_view)
        (counted,) = read(connection, "count_suspects", {"limit": limit}, tuple)
    return rows.backlog(lines, counted)


def find_all(connection: apsw.Connection, limit: int) -> Findings:
    with connection:
        runs_after, tasks_after = _reached(connection, "reach_of_runs"), _reached(connection, "reach_of_tasks")
        parameters = rows.finding_parameters(limit, runs_after, tasks_after)
        found = [
            read(connection, f"find_{clause}", parameters, partial(rows.finding, clause)) for clause in rows.FINDINGS
        ]
    return Findings(chain.from_iterable(found), is_whole=not (runs_after or tasks_after))


def _reached(connection: apsw.Connection, name: str) -> RunId | None:
    return next(iter(read(connection, name, {"reach": rows.REACH}, rows.run_id_alone)), None)


def get_histories(connection: apsw.Connection, run_ids: Sequence[RunId]) -> dict[RunId, History]:
    try:
        return {run_id: _history(connection, {"run_id": run_id}) for run_id in run_ids}
    except UnicodeDecodeError as problem:
        # Damage to one run, and not to the store as a whole: whoever asked for many finds out which.
        raise ValueError(f"its rows hold text that is no UTF-8, as somebody has changed them ({problem})") from problem


def _history(connection: apsw.Connection, run: dict[str, Any]) -> History:
    return History(
        read(connection, "list_records", run, rows.record),
        read(connection, "list_waits", run, rows.open_wait),
        read(connection, "list_inbox", run, rows.message),
    )


def look(connection: apsw.Connection, run_id: RunId) -> Look | None:
    run = {"run_id": run_id}
    with connection:
        found = read(connection, "get_wakes", run, tuple)
        waits, inbox = (
            read(connection, "list_waits", run, rows.open_wait),
            read(connection, "list_inbox", run, rows.message),
        )
    if not found:
        return None
    token, wakes, hold, deadline_at = found[0]
    return Look(token, wakes, bool(hold), waits, inbox, deadline_at)


def get_outcomes(connection: apsw.Connection, run_ids: Sequence[RunId]) -> dict[RunId, OutcomeView]:
    found = [read(connection, "get_outcome", {"run_id": run_id}, rows.outcome_view) for run_id in run_ids]
    return {outcome.run_id: outcome for outcomes in found for outcome in outcomes}


def read(
    connection: apsw.Connection, name: str, bindings: dict[str, Any], view: Callable[[Sequence[Any]], T]
) -> list[T]:
    """The rows of a shared statement, each as its view."""
    text = narrowed(SQL[name], {parameter for parameter, value in bindings.items() if value is not None})
    try:
        found = fetch(connection, text, bindings)
    except UnicodeDecodeError:
        if name not in SHOWN:
            raise
        found = fetch_damaged(connection, text, bindings)
    return [view(row) for row in found]
