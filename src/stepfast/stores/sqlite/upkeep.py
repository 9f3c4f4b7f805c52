"""What is done about workers that are gone, and about the runs they held."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import apsw

from stepfast.kernel.decisions import DeadLetter, Decision, Fence, Joins, Outcome
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import DeadRun, Upkeep, UpkeepReport
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.rules import failing
from stepfast.kernel.states import RunState
from stepfast.stores.sqlite.asking import fetch, moment, one, statements
from stepfast.stores.sqlite.pending import last_event
from stepfast.stores.sqlite.problems import REFUSED
from stepfast.stores.sqlite.saving import prepare, save
from stepfast.stores.sqlite.workers import set_spent_aside, wake_for_those_who_stay

SQL = statements("workers")


class Orphan(NamedTuple):
    """A run whose holder is dead; `strike` says that the holder held nothing else, `is_spent` that none counts on."""

    worker_id: WorkerId
    strike: bool
    run_id: RunId
    tenant: str
    generation: int
    token: int
    crashes: int
    strikes: int
    workflow: str
    version: int
    parent_id: RunId | None
    parent_wait: int | None
    leave: bool
    is_spent: bool

    @property
    def strikes_now(self) -> int:
        """With this death, if it counts."""
        return self.strikes + self.strike


class Sight(NamedTuple):
    """What a look says before a pass; `kept` is whether it has counted as a heartbeat."""

    silent_at: Instant | None
    definitions: int
    has_work: bool
    kept: bool

    @property
    def report(self) -> UpkeepReport:
        """What a pass would tell that finds nothing to do."""
        return UpkeepReport([], [], [], [], [], self.silent_at, self.definitions, kept=self.kept)


def look(connection: apsw.Connection) -> Sight:
    """Whether a pass would find anything to do: one statement that locks nothing, for all that an idle worker makes."""
    return _sight(one(connection, SQL["look"]), kept=False)


def keep(connection: apsw.Connection, worker_id: WorkerId) -> Sight | None:
    """Keep the lease of a worker, and look; None: its last heartbeat is young, or its lease is over."""
    answer = fetch(connection, f"{SQL['keep_alone']}\nreturning ({SQL['look']})", {"worker_id": worker_id})
    return _sight(answer[0][0], kept=True) if answer else None


def _sight(found: str, kept: bool) -> Sight:
    silent_at, now, definitions, has_left = json.loads(found)
    is_silent = silent_at is not None and silent_at < now
    return Sight(silent_at, definitions, is_silent or bool(has_left), kept)


def upkeep(connection: apsw.Connection, request: Upkeep) -> UpkeepReport:
    """One pass: bury who has not been heard of, see to what the dead have left, and tell what is left to do."""
    now = moment(connection)
    report = UpkeepReport(_bury(connection, now) if request.may_bury else [], [], [], [], [])
    for orphan in list(_orphans(connection, request.limit)):
        if orphan.is_spent:
            set_spent_aside(connection, [orphan.run_id], True, now)
        elif orphan.strikes_now >= request.max_crashes:
            if _is_failed(connection, orphan, request.verdict, now):
                report.failed.append(orphan.run_id)
        else:
            _give_back(connection, orphan, now)
            report.returned.append(orphan.run_id)
    report.overdue.extend(_overdue(connection, request.limit, now))
    report.unjoined.extend(_unjoined(connection, request.limit))
    silent_at, definitions = one(connection, SQL["silent_at"], {}), one(connection, SQL["newest_definition"])
    is_silent = silent_at is not None and silent_at < now
    silent_holds = is_silent and bool(one(connection, SQL["silent_holds"], {"now": now}))
    kept = one(connection, SQL["keep"], {"now": now, "worker_id": request.worker_id}) is not None
    return report._replace(silent_at=silent_at, definitions=definitions, silent_holds=silent_holds, kept=kept)


def _bury(connection: apsw.Connection, now: Instant) -> list[WorkerId]:
    buried = [WorkerId(worker_id) for (worker_id,) in fetch(connection, SQL["bury"], {"now": now})]
    if buried:
        wake_for_those_who_stay(connection, buried, now)
    return buried


def _overdue(connection: apsw.Connection, limit: int, now: Instant) -> list[RunId]:
    return [RunId(run_id) for (run_id,) in fetch(connection, SQL["overdue"], {"limit": limit, "now": now})]


def _unjoined(connection: apsw.Connection, limit: int) -> list[RunId]:
    """Children to be cancelled; a group that has none left is not looked at again."""
    children = [RunId(run_id) for (run_id,) in fetch(connection, SQL["unjoined_children"], {"limit": limit})]
    connection.execute(SQL["forget_unjoined"], {"limit": limit})
    return children


def _orphans(connection: apsw.Connection, limit: int) -> Iterator[Orphan]:
    """Runs of dead holders up to the limit, or one more.

    One that the limit leaves alone would look in the next pass as if its worker had held nothing else.
    """
    for (worker_id,) in fetch(connection, SQL["dead_holders"]):
        rows = fetch(connection, SQL["orphans"], (worker_id, limit + 2))
        taken = rows[:limit] if len(rows) == limit + 2 else rows
        yield from (Orphan(worker_id, len(rows) == 1, *row) for row in taken)
        limit -= len(taken)
        if limit <= 0:
            return


def _give_back(connection: apsw.Connection, orphan: Orphan, now: Instant) -> None:
    """Put a run back in the line, with the crash counted."""
    decision = _decision(connection, orphan)
    decision.events = (_reaped(orphan, now),)
    save(connection, [prepare(decision)], False)
    connection.execute(SQL["return_orphan"], (now, orphan.run_id))


def _is_failed(connection: apsw.Connection, orphan: Orphan, verdict: DeadRun, now: Instant) -> bool:
    """End a run if its rows allow it; one whose rows are spoilt is set aside for `doctor`, and holds up no other."""
    try:
        with connection:
            _fail(connection, orphan, verdict, now)
    except REFUSED:
        connection.execute(SQL["set_aside"], (now, orphan.run_id))
        return False
    return True


def _fail(connection: apsw.Connection, orphan: Orphan, verdict: DeadRun, now: Instant) -> None:
    """End a run whose crash budget is spent; one that is its own becomes a dead letter."""
    decision = _decision(connection, orphan)
    parent_id, parent_wait = orphan.parent_id, orphan.parent_wait
    joins = None if parent_id is None or parent_wait is None else Joins(parent_id, parent_wait)
    events, is_letter = failing(joins is None or orphan.leave, verdict.error_type, verdict.message, now)
    decision.events = (_reaped(orphan, now), *events)
    if is_letter:
        decision.dead_letter = DeadLetter(orphan.workflow, orphan.version, verdict.error_type, verdict.message, None)
    decision.outcome = Outcome(RunState.FAILED, None, verdict.error, now, joins)
    save(connection, [prepare(decision)], False)


def _decision(connection: apsw.Connection, orphan: Orphan) -> Decision:
    """A decision by whoever has just raised the run's token; its first event follows the last of the dead holder."""
    connection.execute(SQL["count_crash"], (orphan.strikes_now, orphan.run_id))
    fence = Fence(orphan.run_id, orphan.token + 1, orphan.worker_id)
    first_event = last_event(connection, orphan.run_id) + 1
    return Decision(fence, orphan.tenant, orphan.generation, first_event=first_event)


def _reaped(orphan: Orphan, now: Instant) -> Event:
    data = json.dumps({"worker": orphan.worker_id, "crashes": orphan.crashes + 1})
    return Event(EventType.REAPED, now, data=data)
