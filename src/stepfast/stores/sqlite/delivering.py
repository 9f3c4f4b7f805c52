"""Bringing something to a run: stored whatever its state, and the run woken when it waits for just that."""

from __future__ import annotations

import json
from typing import Any

import apsw

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Delivered, Delivery
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.states import TaskState
from stepfast.stores.sqlite import reading
from stepfast.stores.sqlite.asking import fetch, moment, one, statements
from stepfast.stores.sqlite.pending import last_event, write_events

SQL = statements("delivering")


def deliver(connection: apsw.Connection, delivery: Delivery) -> Delivered:
    """Put a message into a run's inbox, unless the run has ended or its key was used before."""
    view = reading.get_run(connection, delivery.tenant, delivery.run_id)
    found = fetch(connection, SQL["task_of"], {"run_id": delivery.run_id, "tenant": delivery.tenant})
    if view is None or not found:
        return Delivered(None if view is None else view.state)
    tenant, state, hold, wakes, token, generation, queue, worker_id = found[0]
    now = moment(connection)
    if not _is_repeated(connection, delivery, tenant, now):
        is_leased = state == TaskState.LEASED
        row = {**delivery._asdict(), "tenant": tenant, "n": wakes + 1, "now": now, "told": not is_leased}
        connection.execute(SQL["put"], _named(SQL["put"], row))
        if not is_leased:
            _tell(connection, delivery, (tenant, generation, token), wakes + 1, now)
        wake = state == TaskState.WAITING and not hold and bool(one(connection, SQL["is_awaited"], _awaited(delivery)))
        connection.execute(SQL["raise_wakes"], {"run_id": delivery.run_id, "wake": wake, "now": now})
    return Delivered(view.state, queue, None if worker_id is None else WorkerId(worker_id))


def _is_repeated(connection: apsw.Connection, delivery: Delivery, tenant: str, now: Instant) -> bool:
    if delivery.key is None:
        return False
    key = {"tenant": tenant, "command": delivery.kind, "key": delivery.key}
    used_for: str | None = one(connection, SQL["key_used"], key)
    if used_for is None:
        connection.execute(SQL["use_key"], {**key, "digest": delivery.digest, "run_id": delivery.run_id, "now": now})
        return False
    if used_for != delivery.digest:
        raise KeyReused(
            f"Key {delivery.key!r} of tenant {tenant!r} was used before for another {delivery.kind}. "
            f"Use a new key, or send what was sent first."
        )
    return True


def _tell(connection: apsw.Connection, delivery: Delivery, whose: tuple[str, int, int], n: int, now: Instant) -> None:
    tenant, generation, token = whose
    seq = last_event(connection, delivery.run_id) + 1
    data = json.dumps({"name": delivery.name, "n": n})
    identity = (delivery.run_id, seq, tenant, generation)
    write_events(connection, [(*identity, EventType.SIGNALLED.value, now, None, None, token, delivery.actor, data)])


def _awaited(delivery: Delivery) -> dict[str, Any]:
    return {"run_id": delivery.run_id, "kind": delivery.kind, "name": delivery.name}


def _named(text: str, row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if f":{name}" in text}
