"""Leasing ready runs: in turn over tenants, by place within a tenant, at a cost that follows what is taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import apsw

from stepfast.kernel.decisions import HeldRun, Joins
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Claim, Claimed, QueueRoom
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.troubles import UNREADABLE
from stepfast.stores.sqlite.asking import Row, fetch, fetch_damaged, moment, one, statements
from stepfast.stores.sqlite.lines import TenantLine, Tenants
from stepfast.stores.sqlite.workers import claimed_data, live_label, set_spent_aside, standing

SQL = statements("claiming")

PROMOTED_AT_ONCE = 1_000


def look(connection: apsw.Connection, request: Claim) -> Claimed | None:
    """What a worker that is alive is answered when it finds nothing; None: it may find something. One statement."""
    asked = {"worker_id": request.worker_id, "queues": json.dumps([queue.queue for queue in request.queues])}
    ((is_alive, has_ready, next_due_at, now),) = fetch(connection, SQL["look"], {**asked, **_served(request)})
    is_due = next_due_at is not None and next_due_at <= now
    return None if has_ready or is_due or not is_alive else Claimed([], next_due_at)


def claim(connection: apsw.Connection, request: Claim) -> list[RunId] | None:
    """Lease runs to a worker that is alive, in the order of the line; None: it is not."""
    now = moment(connection)
    worker = standing(connection, request.worker_id, [queue.queue for queue in request.queues], now)
    if worker is None:
        return None
    for due in worker.due_queues:
        connection.execute(SQL["promote_due"], {"queue": due, "now": now, "limit": PROMOTED_AT_ONCE})
    choose = _choose if request.suspects is None else _choose_suspects
    leased: list[RunId] = []
    for queue in request.queues:
        leased += _lease(connection, choose(connection, request, queue), request.worker_id, worker.label, now)
    return leased


def claimed(connection: apsw.Connection, leased: Sequence[RunId] | None, request: Claim) -> Claimed | None:
    """What a worker is to know after its claim; None: all that it took was taken from it, and more may be ready."""
    if leased is None:
        return Claimed([], None)
    runs = held_runs(connection, leased, request.worker_id)
    if leased and not runs:
        return None
    suspects_wait = any(_suspect_level(connection, request, queue) is not None for queue in request.queues)
    return Claimed(runs, _next_due(connection, request.queues), suspects_wait)


def claim_runs(
    connection: apsw.Connection, worker_id: WorkerId, run_ids: Sequence[RunId], codes: Collection[str]
) -> Sequence[RunId]:
    """Lease those of given runs to a worker that is alive which are free and of code that the worker has."""
    label, now = live_label(connection, worker_id), moment(connection)
    if label is None:
        return []
    free = [id_ for id_ in run_ids if one(connection, SQL["code_of_free"], {"run_id": id_, "now": now}) in codes]
    return _lease(connection, free, worker_id, label, now)


def held_runs(connection: apsw.Connection, leased: Sequence[RunId], worker_id: WorkerId) -> list[HeldRun]:
    """What a worker is to know of the runs that it has taken, without those that were taken from it since.

    They are its own once the claim is committed, so that reading them keeps no other writer waiting.
    """
    if not leased:
        return []
    try:
        return _read_held(connection, leased, worker_id)
    except UnicodeDecodeError:
        return [run for run_id in leased for run in _read_one(connection, run_id, worker_id)]


def _read_held(connection: apsw.Connection, leased: Sequence[RunId], worker_id: WorkerId) -> list[HeldRun]:
    chosen = {"runs": json.dumps(leased), "worker_id": worker_id}
    return [_held_run(row) for row in fetch(connection, SQL["held_runs"], chosen)]


def _read_one(connection: apsw.Connection, run_id: RunId, worker_id: WorkerId) -> list[HeldRun]:
    """A run that is leased by now; one that somebody has damaged is handed out as such, to be put off by its holder."""
    try:
        return _read_held(connection, [run_id], worker_id)
    except UnicodeDecodeError:
        chosen = {"runs": json.dumps([run_id]), "worker_id": worker_id}
        damaged = [_held_run(_storable(row)) for row in fetch_damaged(connection, SQL["held_runs"], chosen)]
        return [replace(run, input=UNREADABLE) for run in damaged]


def _storable(row: Row) -> Row:
    """A row whose texts can be written again, as events have some of them."""
    return tuple(
        value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if isinstance(value, str) else value
        for value in row
    )


Choose = Callable[[apsw.Connection, Claim, QueueRoom], list[RunId]]


def _choose_suspects(connection: apsw.Connection, request: Claim, queue: QueueRoom) -> list[RunId]:
    """Suspects of one level, the least suspicious first, as many as the worker can take of that level."""
    level = _suspect_level(connection, request, queue)
    if level is None or not request.suspects:
        return []
    room = min(queue.room, request.suspects[min(level, len(request.suspects)) - 1])
    line = fetch(connection, SQL["suspect_line"], {**_whose(request, queue), "crashes": level, "room": room})
    return [RunId(run_id) for (run_id,) in line]


def _suspect_level(connection: apsw.Connection, request: Claim, queue: QueueRoom) -> int | None:
    level: int | None = one(connection, SQL["suspect_level"], _whose(request, queue))
    return level


def _whose(request: Claim, queue: QueueRoom) -> dict[str, str | None]:
    return {"queue": queue.queue, **_served(request)}


def _served(request: Claim) -> dict[str, str | None]:
    tenants = None if request.tenants is None else json.dumps(list(request.tenants))
    return {"codes": json.dumps(list(request.codes)), "tenants": tenants}


def _choose(connection: apsw.Connection, request: Claim, queue: QueueRoom) -> list[RunId]:
    """Up to a burst from each line in turn, round after round, until there is no room or nothing left."""
    chosen: list[RunId] = []
    burst = max(1, request.burst)
    lines = list(_one_round(_lines(connection, request, queue, burst), burst, queue.room, chosen))
    while lines:
        lines = list(_one_round(lines, burst, queue.room, chosen))
    return chosen


def _lines(connection: apsw.Connection, request: Claim, queue: QueueRoom, burst: int) -> Iterator[TenantLine]:
    """The line of each tenant with ready runs, from the one after the last served round to that one again."""
    tenants = Tenants(connection, queue.queue, request.codes, request.tenants)
    # The first may be the only one.
    piece = max(burst, queue.room)
    for tenant, codes in chain(tenants.after(queue.after), tenants.up_to(queue.after)):
        yield TenantLine(connection, queue.queue, tenant, codes, piece)
        piece = burst


def _one_round(lines: Iterable[TenantLine], burst: int, room: int, chosen: list[RunId]) -> Iterator[TenantLine]:
    """Choose from each line in turn; answers with those lines that may have more, none when the room is used up."""
    for line in lines:
        taken = line.take(min(burst, room - len(chosen)))
        chosen.extend(taken)
        if len(chosen) >= room:
            return
        if len(taken) == burst:
            yield line


def _lease(
    connection: apsw.Connection, chosen: Sequence[RunId], worker_id: WorkerId, label: str, now: Instant
) -> Sequence[RunId]:
    """Lease those of the chosen that can be counted on from; others are set aside, and do not come back when read."""
    if chosen:
        runs = json.dumps(chosen)
        connection.execute(SQL["lease"], {"runs": runs, "worker_id": worker_id, "now": now})
        if connection.changes() < len(chosen):
            spent = set_spent_aside(connection, chosen, False, now)
            runs = json.dumps([run_id for run_id in chosen if run_id not in spent])
        connection.execute(SQL["end_delays"], {"runs": runs})
        connection.execute(SQL["tell_claimed"], {"runs": runs, "now": now, "data": claimed_data(worker_id, label)})
    return chosen


def _held_run(row: Row) -> HeldRun:
    run_id, tenant, workflow, version, kind, queue, generation, token, worker_id, run_input, wakes, hold, *rest = row
    (
        claims,
        crashes,
        last_seq,
        last_event,
        queued_at,
        deadline_at,
        tries,
        parent_id,
        parent_wait,
        *origin,
        leave,
        kept_seq,
        definition,
        epoch,
        begun,
    ) = rest
    joins = None if parent_id is None else Joins(parent_id, parent_wait)
    place = (run_id, tenant, workflow, version, kind, queue, generation, token, worker_id, run_input, wakes, bool(hold))
    numbers = (claims, crashes, last_seq, last_event, queued_at, deadline_at, tries)
    fields: Row = (*place, *numbers, joins, *origin, bool(leave), kept_seq, definition, epoch, bool(begun))
    return HeldRun(*fields)


def _next_due(connection: apsw.Connection, queues: Sequence[QueueRoom]) -> Instant | None:
    moments = [one(connection, SQL["next_due"], (queue.queue,)) for queue in queues]
    return min((Instant(due_at) for due_at in moments if due_at is not None), default=None)
