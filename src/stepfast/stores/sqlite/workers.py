"""Workers as the store knows them: announced, heard of, gone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Beat, Enrolled, Enrolment, Holding, Turns
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.stores.sqlite.asking import Row, fetch, moment, one, statements
from stepfast.stores.sqlite.pending import last_event, write_events

SQL = statements("workers")
SAVE_SQL = statements("saving")


class Standing(NamedTuple):
    """A worker that is alive, as a claim sees it."""

    label: str
    due_queues: Sequence[str]


def enrol(connection: apsw.Connection, worker: Enrolment) -> Enrolled:
    """Announce a worker; an id that was buried stays dead, as its runs may not have gone back yet."""
    now = moment(connection)
    lists = {"queues": json.dumps(list(worker.queues)), "codes": json.dumps(list(worker.codes))}
    lacks = json.dumps(dict(worker.lacks))
    connection.execute(SQL["enrol"], {**worker._asdict(), **lists, "lacks": lacks, "now": now})
    connection.execute(SQL["forget_dead"], {"now": now})
    connection.execute(SQL["forget_turns"], {"queues": lists["queues"], "now": now})
    _wake_those_that_wait_for_code(connection, lists["codes"], now)
    turns = fetch(connection, SQL["turns"], {"queues": lists["queues"], "crew": worker.crew})
    return Enrolled(now, dict(turns))


def _wake_those_that_wait_for_code(connection: apsw.Connection, codes: str, now: Instant) -> None:
    """Runs whose records did not fit the code they met: whoever comes, or stays, may have what they need."""
    waiting = fetch(connection, SQL["waiting_for_code"], (codes,))
    write_events(connection, [_taken_up(connection, row, now) for row in waiting])
    connection.executemany(SQL["end_code_wait"], [(run_id,) for run_id, *_ in waiting])
    connection.executemany(SQL["wake"], [(now, run_id) for run_id, *_ in waiting])


def wake_for_those_who_stay(connection: apsw.Connection, gone: Sequence[WorkerId], now: Instant) -> None:
    """Runs that wait for code may have met that of those who are gone, and fit that of those who stay.

    In a deploy the old ones go when the new ones have announced themselves.
    """
    _wake_those_that_wait_for_code(connection, one(connection, SQL["codes_that_stay"], (json.dumps(gone),)), now)


def _taken_up(connection: apsw.Connection, row: Row, now: Instant) -> Row:
    """The event of the exception item that such a run was."""
    run_id, tenant, generation, token = row
    told = {"cause": f"blocked:{generation}", "kind": "blocked", "resolution": "taken up"}
    identity = (run_id, last_event(connection, run_id) + 1, tenant, generation)
    return (*identity, EventType.EXCEPTION_RESOLVED.value, now, None, None, token, None, json.dumps(told))


def beat(connection: apsw.Connection, worker_id: WorkerId) -> Beat | None:
    """Note that a worker lives, and list what it holds; None: it was buried."""
    answer = fetch(connection, f"{SQL['beat']}\nreturning seen_at, ({SQL['holdings']})", {"worker_id": worker_id})
    return Beat(answer[0][0], True, _holdings(answer[0][1])) if answer else None


def unheard(connection: apsw.Connection, worker_id: WorkerId) -> Beat:
    """What a worker hears that is dead: that, and what it held."""
    return Beat(moment(connection), False, _holdings(one(connection, SQL["holdings"], {"worker_id": worker_id})))


def _holdings(listed: str) -> list[Holding]:
    return [Holding(run_id, token, wakes, bool(hold)) for run_id, token, wakes, hold in json.loads(listed)]


def retire(connection: apsw.Connection, worker_id: WorkerId, turns: Turns | None) -> list[RunId]:
    """Mark a worker dead and give all it holds back to the line; no crash is counted."""
    now = moment(connection)
    if fetch(connection, SQL["mark_dead"], {"now": now, "worker_id": worker_id}):
        wake_for_those_who_stay(connection, [worker_id], now)
    held = _held(connection, worker_id, now)
    _hand_back(connection, held, {"reason": "its worker left", "worker": worker_id}, now)
    if turns is not None:
        rows = [(queue, turns.crew, tenant, now) for queue, tenant in turns.served.items()]
        connection.executemany(SQL["note_turn"], rows)
    return [RunId(run_id) for run_id, *_ in held]


def give_back(connection: apsw.Connection, worker_id: WorkerId, run_ids: Sequence[RunId]) -> None:
    """Give runs that a worker holds without knowing it back to the line."""
    lost, now = set(run_ids), moment(connection)
    held = [row for row in _held(connection, worker_id, now) if row[0] in lost]
    _hand_back(connection, held, {"reason": "its worker did not know of it", "worker": worker_id}, now)


def _held(connection: apsw.Connection, worker_id: WorkerId, now: Instant) -> list[Row]:
    """What a worker holds, without runs that can only be set aside."""
    held = fetch(connection, SQL["retired"], (worker_id,))
    spent = set_spent_aside(connection, [run_id for run_id, *_ in held], True, now)
    return [row for row in held if row[0] not in spent]


def set_spent_aside(connection: apsw.Connection, runs: Sequence[RunId], leased: bool, now: Instant) -> set[RunId]:
    """Set those runs aside whose numbers nobody can count on from: they hold up no other."""
    asked = {"runs": json.dumps(runs), "leased": leased, "now": now}
    return {RunId(run_id) for (run_id,) in fetch(connection, SQL["set_spent_aside"], asked)}


def _hand_back(connection: apsw.Connection, held: Sequence[Row], why: dict[str, str], now: Instant) -> None:
    write_events(connection, [_handed_back(connection, row, json.dumps(why), now) for row in held])
    connection.executemany(SAVE_SQL["hand_back"], [(now, run_id) for run_id, *_ in held])


def _handed_back(connection: apsw.Connection, row: Row, data: str, now: Instant) -> Row:
    """The event carries the raised token: under the old one it could pass for a late write of the worker itself."""
    run_id, tenant, generation, token = row
    identity = (run_id, last_event(connection, run_id) + 1, tenant, generation)
    return (*identity, EventType.HANDED_BACK.value, now, None, None, token + 1, None, data)


def standing(connection: apsw.Connection, worker_id: WorkerId, queues: Sequence[str], now: Instant) -> Standing | None:
    """The label of a worker that is alive, and in which of its queues a waiting run is due; None: it is dead."""
    asked = {"worker_id": worker_id, "queues": json.dumps(queues), "now": now}
    found = fetch(connection, SQL["standing"], asked)
    return Standing(found[0][0], json.loads(found[0][1])) if found else None


def live_label(connection: apsw.Connection, worker_id: WorkerId) -> str | None:
    """The label of a worker that is alive; None for one that is dead or unknown."""
    label: str | None = one(connection, SQL["live_label"], (worker_id,))
    return label


def claimed_data(worker_id: WorkerId, label: str | None) -> str:
    """What the event `claimed` says."""
    return json.dumps({"worker": worker_id, "label": label} if label else {"worker": worker_id})
