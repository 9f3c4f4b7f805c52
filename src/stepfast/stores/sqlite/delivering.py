"""Bringing something to a run: stored whatever its state, and the run woken when it waits for just that."""

from __future__ import annotations

from typing import Any

import apsw

from stepfast.kernel.durations import Instant
from stepfast.kernel.event_data import signal_data
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Delivered, Delivery
from stepfast.kernel.states import RunState, TaskState
from stepfast.stores import rows
from stepfast.stores.sqlite import reading
from stepfast.stores.sqlite.asking import Row, fetch, moment, one, statements
from stepfast.stores.sqlite.pending import last_event, write_events

SQL = statements("delivering")


def deliver(connection: apsw.Connection, delivery: Delivery) -> Delivered:
    """Put a message into a run's inbox, unless the run has ended or its key was used before."""
    view = reading.get_run(connection, delivery.tenant, delivery.run_id)
    if view is None:
        return Delivered(None)
    found = fetch(connection, SQL["task_of"], {"run_id": delivery.run_id})
    queue, holder = (view.queue, view.worker_id) if found else ("", None)
    earlier = _earlier(connection, delivery, view.tenant)
    if earlier is not None or not found:
        return Delivered(earlier or view.state, queue, holder)
    now = moment(connection)
    if delivery.key is not None:
        use = {**_key(delivery, view.tenant), "digest": delivery.digest, "run_id": delivery.run_id}
        connection.execute(SQL["use_key"], {**use, "answer": view.state.value, "now": now})
    _put(connection, delivery, view.tenant, found[0], now)
    return Delivered(view.state, queue, holder)


def _put(connection: apsw.Connection, delivery: Delivery, tenant: str, task: Row, now: Instant) -> None:
    """Store the message, and wake the run if it waits for just that."""
    state, hold, wakes, token, generation = task
    is_leased = state == TaskState.LEASED
    row = {**delivery._asdict(), "tenant": tenant, "n": wakes + 1, "now": now, "told": not is_leased}
    connection.execute(SQL["put"], _named(SQL["put"], row))
    if not is_leased:
        _tell(connection, delivery, (tenant, generation, token), wakes + 1, now)
    wake = state == TaskState.WAITING and not hold and bool(one(connection, SQL["is_awaited"], _awaited(delivery)))
    connection.execute(SQL["raise_wakes"], {"run_id": delivery.run_id, "wake": wake, "now": now})


def _earlier(connection: apsw.Connection, delivery: Delivery, tenant: str) -> RunState | None:
    """The answer to the same delivery with the same key, if it came before."""
    found = [] if delivery.key is None else fetch(connection, SQL["key_used"], _key(delivery, tenant))
    if not found:
        return None
    digest, answer = found[0]
    if digest != delivery.digest:
        raise rows.key_reused(tenant, delivery.key, delivery.kind)
    return RunState(answer)


def _key(delivery: Delivery, tenant: str) -> dict[str, str | None]:
    return {"tenant": tenant, "command": delivery.kind, "key": delivery.key}


def _tell(connection: apsw.Connection, delivery: Delivery, whose: tuple[str, int, int], n: int, now: Instant) -> None:
    tenant, generation, token = whose
    seq = last_event(connection, delivery.run_id) + 1
    data = signal_data(delivery.name, n, delivery.reason, delivery.key)
    identity = (delivery.run_id, seq, tenant, generation)
    write_events(connection, [(*identity, EventType.SIGNALLED.value, now, None, None, token, delivery.actor, data)])


def _awaited(delivery: Delivery) -> dict[str, Any]:
    return {"run_id": delivery.run_id, "kind": delivery.kind, "name": delivery.name}


def _named(text: str, row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if f":{name}" in text}
