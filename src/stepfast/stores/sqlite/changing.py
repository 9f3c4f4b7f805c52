"""Commands: each run is found, judged by the kernel, and the change written, all in one transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import apsw

from stepfast.kernel.commands import Change, Changed, LockedRun, Reopen, Request, StepMark
from stepfast.kernel.control import decide
from stepfast.kernel.decisions import CallId, Decision, Fence, Joins
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NotFound, RowsRefused, StepfastError
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.items import LockedItem
from stepfast.kernel.judging import is_stranger
from stepfast.kernel.outside import LockedCall
from stepfast.kernel.reviews import LockedReview
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import RunState, StepState, TaskState
from stepfast.stores import items, reviewing, rows
from stepfast.stores.sqlite.asking import Row, fetch, fetch_damaged, moment, statements
from stepfast.stores.sqlite.pending import last_event, write_events
from stepfast.stores.sqlite.problems import REFUSED
from stepfast.stores.sqlite.saving import prepare, save
from stepfast.stores.sqlite.starting import PRIORITY_MS
from stepfast.stores.statements import exception_statements, review_statements, unprefixed

SQL = statements("changing")
SAVE_SQL = statements("saving")
REVIEW_SQL = {name: unprefixed(text) for name, text in (review_statements() | exception_statements()).items()}


class Found(NamedTuple):
    """A run as the kernel judges it, and what its rows are written by."""

    run: LockedRun
    queue: str
    token: int
    wakes: int
    worker_id: WorkerId | None

    def fence_after(self, change: Change) -> tuple[int, int]:
        """The generation and the token that a change is told under: whoever ends or reopens a run raises its token."""
        is_raised = change.outcome is not None or change.reopen is not None
        return self.run.generation + (change.reopen is not None), self.token + is_raised


def change(connection: apsw.Connection, requests: Sequence[Request]) -> list[Changed | StepfastError]:
    """Carry out commands one after the other, so that each sees what those before it did."""
    now = moment(connection)
    return [_answer(connection, request, now) for request in requests]


def _answer(connection: apsw.Connection, request: Request, now: Instant) -> Changed | StepfastError:
    try:
        # A transaction within the transaction: a command that cannot be stored leaves nothing behind.
        with connection:
            changed = _carry_out(connection, request, now)
    except StepfastError as refusal:
        return refusal
    except REFUSED as problem:
        return RowsRefused(
            f"The {request.command.name} of run {request.run_id} cannot be stored: {problem}. Nothing has changed; "
            "say it with other text."
        )
    return changed


def _carry_out(connection: apsw.Connection, request: Request, now: Instant) -> Changed | StepfastError:
    found = _find(connection, request, now)
    earlier = None if is_stranger(found.run, request) else _earlier(connection, request, found.run.tenant)
    if earlier is not None:
        return earlier
    decided = decide(found.run, request, now)
    changed = _changed(found, decided, now)
    if request.dry_run:
        return decided.refusal or replace(changed, told=())
    _write(connection, found, request, decided, now)
    if decided.refusal is not None:
        return decided.refusal
    if request.key is not None:
        use = (found.run.tenant, request.command.name, request.key, request.digest, request.run_id)
        connection.execute(SQL["keep_answer"], (*use, rows.answer_text(changed), now))
    return changed


def _find(connection: apsw.Connection, request: Request, now: Instant) -> Found:
    asked = {"run_id": request.run_id, "tenant": request.tenant, "now": now}
    try:
        found = fetch(connection, SQL["find_run"], asked)
    except UnicodeDecodeError:
        # It can be cancelled all the same; what would write such text again is refused.
        found = fetch_damaged(connection, SQL["find_run"], asked)
    if not found:
        raise NotFound(f"Run {request.run_id} not found. List runs with `stepfast runs list`.")
    steps = _marks(connection, request.run_id) if request.command.needs_steps else ()
    whole = _found(found[0], steps)
    review, item, call = _review(connection, request), _item(connection, request), _call(connection, request)
    return whole._replace(run=whole.run._replace(review=review, item=item, call=call))


def _found(row: Row, steps: Sequence[StepMark]) -> Found:
    run_id, tenant, workflow, version, kind, code, run_input, generation, state, task, hold, is_put_off, *rest = row
    error, parent_id, parent_wait, is_awaited, has_letter, deadline_at, claims, leave, definition, lacks, *holder = rest
    identity = (run_id, tenant, workflow, version, kind, code, run_input, generation, RunState(state))
    standing = (None if task is None else TaskState(task), bool(hold), bool(is_put_off), error)
    joins = None if parent_id is None else Joins(parent_id, parent_wait)
    ties = (joins, bool(is_awaited), bool(has_letter))
    run = LockedRun(
        *(*identity, *standing, *ties, steps, deadline_at, claims > 0, bool(leave), definition), lacks_code=bool(lacks)
    )
    return Found(run, *holder)


def _review(connection: apsw.Connection, request: Request) -> LockedReview | None:
    which = {"run_id": request.run_id, "wait_id": reviewing.wait_of(request), "hash": reviewing.token_of(request)}
    found = [] if which["wait_id"] is None else fetch(connection, REVIEW_SQL["locked_review"], which)
    if not found:
        return None
    given, tokens = (fetch(connection, REVIEW_SQL[name], which) for name in ("given_verdicts", "issued_token"))
    return reviewing.locked_review(found[0], given, tokens[0] if tokens else None)


def _item(connection: apsw.Connection, request: Request) -> LockedItem | None:
    cause = items.cause_of(request)
    if cause is None:
        return None
    found = fetch(connection, REVIEW_SQL["locked_item"], {"run_id": request.run_id, "cause": cause})
    return items.locked_item(found[0]) if found else None


def _call(connection: apsw.Connection, request: Request) -> LockedCall | None:
    which = reviewing.call_of(request)
    return None if which is None else reviewing.locked_call(fetch(connection, REVIEW_SQL["locked_call"], which)[0])


def _marks(connection: apsw.Connection, run_id: RunId) -> list[StepMark]:
    found = fetch(connection, SQL["list_marks"], (run_id,))
    return [
        StepMark(seq, CallId(path, name, nth), StepState(state), kind) for seq, path, name, nth, state, kind in found
    ]


def _earlier(connection: apsw.Connection, request: Request, tenant: str) -> Changed | None:
    """The answer to the same command with the same key, if it came before."""
    if request.key is None or request.dry_run:
        return None
    found = fetch(connection, SQL["find_answer"], (tenant, request.command.name, request.key))
    if not found:
        return None
    digest, answer = found[0]
    if digest != request.digest:
        raise rows.key_reused(tenant, request.key, request.command.name)
    return rows.repeated_answer(answer)


def _write(connection: apsw.Connection, found: Found, request: Request, decided: Change, now: Instant) -> None:
    run = found.run
    generation, token = found.fence_after(decided)
    if decided.events:
        _tell(connection, run, (*_untold(connection, run.run_id), *decided.events), generation, token)
    for name, parameters in reviewing.writes_of(run.run_id, request.actor, decided, now):
        connection.execute(REVIEW_SQL[name], parameters)
    if decided.outcome is not None:
        _end(connection, found, decided)
    if decided.resolution is not None:
        letter = (now, decided.resolution, request.actor, run.run_id, run.generation)
        connection.execute(SQL["resolve_letter"], letter)
    if decided.reopen is not None:
        _reopen(connection, run, request, decided.reopen, (generation, token), now)
    _rewrite(connection, run, decided, (generation, token))
    if decided.hold is not None:
        held = {"run_id": run.run_id, "hold": decided.hold, "ready": decided.ready, "now": now}
        connection.execute(SQL["hold"], held)


def _changed(found: Found, decided: Change, now: Instant) -> Changed:
    generation, _ = found.fence_after(decided)
    parent_id = None if found.run.joins is None else found.run.joins.parent_id
    place = (found.queue, now, found.worker_id, parent_id)
    return Changed(found.run.run_id, decided.state, generation, *place, told=decided.events)


def _untold(connection: apsw.Connection, run_id: RunId) -> list[Event]:
    """Events that a holder owes and cannot write any more: it was told to pause, and has lost the run since."""
    taken = sorted(fetch(connection, SQL["take_untold"], (run_id, json.dumps(sorted(COMMAND_KINDS)))))
    return [
        Event(EventType(kind), at, name or None, actor=actor, data=data) for _, kind, name, at, actor, data in taken
    ]


def _tell(connection: apsw.Connection, run: LockedRun, events: Sequence[Event], generation: int, token: int) -> None:
    first = last_event(connection, run.run_id) + 1
    identities = [(run.run_id, first + number, run.tenant, generation) for number in range(len(events))]
    facts = [(str(event.type), event.at, event.step, event.attempt, token, event.actor, event.data) for event in events]
    write_events(connection, [(*identity, *fact) for identity, fact in zip(identities, facts, strict=True)])


def _end(connection: apsw.Connection, found: Found, decided: Change) -> None:
    """The end of a run like any other, by whoever has just taken it from its holder."""
    connection.execute(SQL["raise_token"], (found.run.run_id,))
    decision = Decision(
        Fence(found.run.run_id, found.token + 1, found.worker_id),
        found.run.tenant,
        found.run.generation,
        outcome=decided.outcome,
        dead_letter=decided.dead_letter,
        first_event=last_event(connection, found.run.run_id) + 1,
    )
    save(connection, [prepare(decision)], False)


def _reopen(
    connection: apsw.Connection, run: LockedRun, request: Request, reopen: Reopen, at: tuple[int, int], now: Instant
) -> None:
    generation, token = at
    life = (reopen.version, reopen.code, reopen.definition, reopen.input, reopen.cause)
    opened = (run.run_id, generation, run.tenant, *life)
    connection.execute(SAVE_SQL["open_generation"], (*opened, request.actor, request.reason, now))
    connection.execute(SAVE_SQL["supersede"], (generation, run.run_id, json.dumps(reopen.superseded)))
    task = {"run_id": run.run_id, "code": reopen.code, "generation": generation, "token": token, "now": now}
    connection.execute(SQL["reopen"], {**task, "priority_ms": PRIORITY_MS})


def _rewrite(connection: apsw.Connection, run: LockedRun, decided: Change, at: tuple[int, int]) -> None:
    """What a person takes out of the records of a run that nobody holds, and puts into them."""
    generation, token = at
    if decided.superseded:
        connection.execute(SAVE_SQL["supersede"], (generation, run.run_id, json.dumps(decided.superseded)))
    for wait_id in decided.closed:
        connection.execute(SAVE_SQL["close_wait"], (run.run_id, wait_id))
    for record in decided.records:
        ((last,),) = fetch(connection, SQL["last_step"], (run.run_id,))
        identity = (run.run_id, last + 1, run.tenant, generation, *record.call)
        connection.execute(SAVE_SQL["insert_step"], (*identity, *record[1:-1], token))
