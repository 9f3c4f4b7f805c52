"""Commands in their transaction: runs are locked and read, the kernel decides, and what it decides is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stepfast.kernel import control
from stepfast.kernel.commands import Changed, LockedRun, Request, StepMark
from stepfast.kernel.decisions import CallId, Joins, Message
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NotFound, StepfastError
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.items import LockedItem
from stepfast.kernel.judging import is_stranger
from stepfast.kernel.outside import LockedCall
from stepfast.kernel.reviews import LockedReview
from stepfast.kernel.rules import COMMAND_KINDS
from stepfast.kernel.states import RunState, StepState, TaskState
from stepfast.stores import rows
from stepfast.stores.postgres.changing import SeenRun, Writing, change_call
from stepfast.stores.postgres.delivering import MESSAGES, by_run
from stepfast.stores.postgres.driver import Connection, Row
from stepfast.stores.postgres.keys import Keys
from stepfast.stores.postgres.reviews import read_calls, read_items, read_reviews, write_beside

LOCK = "select stepfast.lock_runs($1::uuid[])"
MOMENT = "select stepfast.now_ms()"
LOOK = "select * from stepfast.locked_runs($1::uuid[], $2::bigint)"
MARKS = "select * from stepfast.step_marks($1::uuid[])"

Answer = Changed | StepfastError
Numbered = dict[int, Request]
Runs = dict[RunId, SeenRun]


async def carry_out(connection: Connection, requests: Sequence[Request]) -> list[Answer]:
    """Carry out commands in an open transaction, answering each in order.

    All that do not touch each other are read, decided and written together; what concerns a run that one before it has
    changed, or its family, takes the next turn.
    """
    if all(request.dry_run for request in requests):
        # Roles that only read may ask too, and none of them may lock.
        ((now,),) = await connection.fetch(MOMENT)
    else:
        ((now,),) = await connection.fetch(LOCK, _run_ids(requests))
    keys = await Keys.read(connection, requests)
    answers: dict[int, Answer] = {}
    pending = dict(enumerate(requests))
    while pending:
        runs = await _look(connection, pending.values(), now)
        turn = _next_turn(pending, runs)
        answers |= await _take(connection, turn, runs, keys, now)
        pending = {number: request for number, request in pending.items() if number not in turn}
    await keys.write(connection)
    return [answers[number] for number in range(len(requests))]


async def _take(connection: Connection, turn: Numbered, runs: Runs, keys: Keys, now: Instant) -> dict[int, Answer]:
    answers: dict[int, Answer] = {}
    writings: list[Writing] = []
    for number, request in turn.items():
        verdict = _judge(request, runs.get(request.run_id), keys, now)
        if not isinstance(verdict, Writing):
            answers[number] = verdict
            continue
        answers[number] = answer = verdict.change.refusal or verdict.answer(now)
        if request.dry_run:
            continue
        writings.append(verdict)
        if isinstance(answer, Changed):
            keys.use(verdict.seen.run.tenant, request, answer)
    if writings:
        statement, columns = change_call(writings, now)
        await connection.fetch(statement, *columns)
        for seen, request, change in writings:
            await write_beside(connection, seen.run.run_id, request.actor, change, now)
    return answers


def _judge(request: Request, seen: SeenRun | None, keys: Keys, now: Instant) -> Writing | Answer:
    if seen is None or request.tenant not in (None, seen.run.tenant):
        return NotFound(f"Run {request.run_id} not found. List runs with `stepfast runs list`.")
    earlier = None if is_stranger(seen.run, request) else keys.earlier(seen.run.tenant, request)
    if earlier is not None:
        return earlier
    try:
        return Writing(seen, request, control.decide(seen.run, request, now))
    except StepfastError as refusal:
        return refusal


def _next_turn(pending: Numbered, runs: Runs) -> Numbered:
    """The first requests, up to one that must see what another of them did: to its run, its parent or its child."""
    turn: Numbered = {}
    changed: set[RunId] = set()
    parents: set[RunId] = set()
    for number, request in pending.items():
        seen = runs.get(request.run_id)
        joins = seen.run.joins if seen else None
        if request.run_id in changed or request.run_id in parents or (joins and joins.parent_id in changed):
            break
        turn[number] = request
        changed.add(request.run_id)
        parents.update({joins.parent_id} if joins else ())
    return turn


async def _look(connection: Connection, requests: Collection[Request], now: Instant) -> Runs:
    """The runs as the requests find them, under their locks."""
    found = await connection.fetch(LOOK, _run_ids(requests), now)
    runs = {seen.run.run_id: seen for seen in map(_seen_run, found)}
    untold = [row[0] for row in found if row[-1]]
    marked = _run_ids(request for request in requests if request.command.needs_steps)
    messages = by_run(await connection.fetch(MESSAGES, untold), rows.message) if untold else {}
    marks = by_run(await connection.fetch(MARKS, marked), _mark) if marked else {}
    reviews, items = await read_reviews(connection, requests), await read_items(connection, requests)
    calls = await read_calls(connection, requests)
    return {
        run_id: _completed(
            *(seen, marks.get(run_id, ()), messages.get(run_id, ())),
            *(reviews.get(run_id), items.get(run_id), calls.get(run_id)),
        )
        for run_id, seen in runs.items()
    }


def _completed(
    seen: SeenRun,
    marks: Sequence[StepMark],
    messages: Iterable[Message],
    review: LockedReview | None,
    item: LockedItem | None,
    call: LockedCall | None,
) -> SeenRun:
    untold = [message for message in messages if message.kind in COMMAND_KINDS and not message.told]
    return seen._replace(run=seen.run._replace(steps=marks, review=review, item=item, call=call), untold=untold)


def _run_ids(requests: Iterable[Request]) -> list[RunId]:
    return list(dict.fromkeys(request.run_id for request in requests))


def _seen_run(row: Row) -> SeenRun:
    """A row of `LOOK`."""
    *facts, lacks, _ = row
    run_id, tenant, workflow, version, kind, code, text, generation, state, task, hold, is_put_off, *rest = facts
    error, parent_id, parent_wait, is_awaited, has_letter, deadline_at, has_begun, *place, leave, definition = rest
    run = LockedRun(
        RunId(run_id),
        tenant,
        workflow,
        version,
        kind,
        code,
        text,
        generation,
        RunState(state),
        None if task is None else TaskState(task),
        hold,
        is_put_off,
        error,
        None if parent_id is None else Joins(RunId(parent_id), parent_wait),
        is_awaited,
        has_letter,
        deadline_at=deadline_at,
        has_begun=has_begun,
        leave=leave,
        definition=definition,
        lacks_code=lacks,
    )
    token, worker_id, queue, last_event = place
    return SeenRun(run, token, None if worker_id is None else WorkerId(worker_id), queue, last_event)


def _mark(row: Row) -> StepMark:
    """A row of `MARKS`, behind its run."""
    seq, path, name, nth, state, kind = row
    return StepMark(seq, CallId(path, name, nth), StepState(state), kind)
