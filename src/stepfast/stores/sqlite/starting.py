"""New runs: their rows, their keys, and whether they are born leased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from stepfast.kernel.decisions import NewRun, Started
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused
from stepfast.kernel.event_data import queued_data
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.origins import queued_cause
from stepfast.kernel.states import TaskState
from stepfast.stores.sqlite.asking import Row, fetch, moment, one, statements
from stepfast.stores.sqlite.pending import Pending, write_events
from stepfast.stores.sqlite.workers import claimed_data, live_label

SQL = statements("starting")

# How much earlier a level of priority puts a run in the line of its tenant.
PRIORITY_MS = 3_600_000


class KeyUse(NamedTuple):
    """What a key was first used for."""

    run_id: RunId
    digest: str
    at: Instant


class Newcomers:
    """The runs that one transaction brings into being."""

    def __init__(self, connection: apsw.Connection, now: Instant, holder: WorkerId | None = None) -> None:
        self._connection = connection
        self._now = now
        self._label = live_label(connection, holder) if holder is not None else None
        self._holder = holder if self._label is not None else None
        self._idle: dict[str, bool] = {}
        self._keys: dict[tuple[str, str], KeyUse] = {}
        self._pending = Pending(SQL)
        self._events: list[Row] = []

    def add(self, run: NewRun) -> Started:
        """Prepare a run's rows, unless its key names an earlier one."""
        earlier = self._earlier(run)
        if earlier is not None:
            return Started(earlier.run_id, False, None, earlier.at)
        holder = self._holder_of(run)
        self._add_record(run)
        self._add_task(run, holder)
        self._add_events(run, holder)
        return Started(run.run_id, True, None if holder is None else 1, self._now)

    def write(self) -> None:
        """Write what was prepared."""
        self._pending.write(self._connection)
        write_events(self._connection, self._events)

    def _earlier(self, run: NewRun) -> KeyUse | None:
        if run.key is None:
            return None
        use = self._keys.get((run.tenant, run.key)) or self._stored_use(run.tenant, run.key)
        if use is None:
            self._keys[run.tenant, run.key] = KeyUse(run.run_id, run.digest, self._now)
            self._pending.rows["insert_key"].append((run.tenant, run.key, run.digest, run.run_id, self._now))
        elif use.digest != run.digest:
            raise KeyReused(
                f"Key {run.key!r} of tenant {run.tenant!r} belongs to run {use.run_id}, which was started with another "
                "body. Send the body of that run again, or use another key."
            )
        return use

    def _stored_use(self, tenant: str, key: str) -> KeyUse | None:
        found = fetch(self._connection, SQL["find_key"], (tenant, key))
        return KeyUse(*found[0]) if found else None

    def _holder_of(self, run: NewRun) -> WorkerId | None:
        if self._holder is None or run.delay_ms > 0:
            return None
        if run.queue not in self._idle:
            self._idle[run.queue] = not one(self._connection, SQL["queue_has_ready"], (run.queue,))
        return self._holder if self._idle[run.queue] else None

    def _add_record(self, run: NewRun) -> None:
        parent = run.joins or (None, None)
        row = (run.run_id, run.tenant, run.workflow, run.version, run.kind, run.queue, run.code, run.priority, run.key)
        origin = (run.actor, run.correlation_id, run.causation_id, run.thread_id, run.subject, run.metadata, self._now)
        terms = (run.leave, run.timeout_ms, run.definition)
        self._pending.rows["insert_run"].append((*row, run.input, *parent, *terms, *origin))
        if run.tags:
            self._pending.rows["insert_tag"].extend((run.run_id, tag, run.tenant) for tag in run.tags)

    def _add_task(self, run: NewRun, holder: WorkerId | None) -> None:
        due_at = self._now + run.delay_ms
        deadline_at = None if run.timeout_ms is None else due_at + run.timeout_ms
        row = (run.run_id, run.queue, run.tenant, run.code, due_at - run.priority * PRIORITY_MS)
        born = 0 if holder is None else 1
        state = TaskState.READY if holder is None else TaskState.LEASED
        if run.delay_ms > 0:
            state = TaskState.WAITING
            self._pending.rows["insert_delay"].append((run.run_id, run.tenant, self._now, due_at))
        alarm = due_at if state is TaskState.WAITING else None
        self._pending.rows["insert_task"].append(
            (*row, state.value, alarm, deadline_at, holder, born, born, run.lane, self._now)
        )

    def _add_events(self, run: NewRun, holder: WorkerId | None) -> None:
        queued = (run.run_id, run.tenant, self._now, run.actor, queued_cause(run), queued_data(run))
        self._pending.rows["insert_queued"].append(queued)
        if holder is not None:
            claimed = (EventType.CLAIMED.value, self._now, None, None, 1, None, claimed_data(holder, self._label))
            self._events.append((run.run_id, 2, run.tenant, 1, *claimed))


def start(connection: apsw.Connection, runs: Sequence[NewRun], holder: WorkerId | None) -> list[Started]:
    """Store new runs; the answers are in their order."""
    newcomers = Newcomers(connection, moment(connection), holder)
    answers = [newcomers.add(run) for run in runs]
    newcomers.write()
    return answers
