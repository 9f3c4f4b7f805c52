"""Sinks in the SQLite file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from stepfast.kernel.events import EventType
from stepfast.kernel.sinks import SinkRemoval, SinkStep, TakenSink
from stepfast.stores.sinks import SinkReads
from stepfast.stores.sqlite.asking import fetch, moment, statements
from stepfast.stores.sqlite.connection import Writer
from stepfast.stores.sqlite.pending import write_events

SQL = statements("sinks")


class SqliteSinks(SinkReads):
    """What a store of this kind does for sinks."""

    _writer: Writer

    async def take_sink(self, name: str, publisher: str, lease_ms: int, from_start: bool) -> TakenSink | None:
        """Lease a sink; None while another publisher has it."""
        given = {"name": name, "publisher": publisher, "lease_ms": lease_ms, "from_start": int(from_start)}
        return await self._writer.run(partial(_take, given=given))

    async def advance_sink(self, taken: TakenSink, step: SinkStep, lease_ms: int) -> bool:
        """Store what was done; False when another publisher has taken the sink meanwhile."""
        return await self._writer.run(partial(_advance, taken=taken, step=step, lease_ms=lease_ms))

    async def release_sink(self, taken: TakenSink) -> None:
        """Let another publisher take the sink at once."""
        await self._writer.run(partial(_release, which={"name": taken.name, "token": taken.token}))

    async def remove_sink(self, removal: SinkRemoval) -> str | None:
        """Forget a sink; the publisher that has it, if one has."""
        return await self._writer.run(partial(_remove, removal=removal))

    async def replay_letters(self, name: str, positions: Sequence[int] | None, limit: int) -> int:
        """Have dead letters delivered once more; how many those are."""
        return await self._writer.run(partial(_replay, name=name, positions=positions, limit=limit))


def _take(connection: apsw.Connection, given: dict[str, Any]) -> TakenSink | None:
    given = {**given, "now": moment(connection)}
    connection.execute(SQL["make_sink"], given)
    found = fetch(connection, SQL["take_sink"], given)
    if not found:
        return None
    token, cursor, tries, due_at, replays = found[0]
    return TakenSink(given["name"], token, cursor, tries, due_at, bool(replays))


def _advance(connection: apsw.Connection, taken: TakenSink, step: SinkStep, lease_ms: int) -> bool:
    name, now = taken.name, moment(connection)
    given = {"name": name, "token": taken.token, "until": now + lease_ms, **step._asdict()}
    connection.execute(SQL["advance_sink"], given)
    if not connection.changes():
        return False
    connection.executemany(SQL["hold_back"], [(name, *held) for held in step.held])
    connection.executemany(SQL["free"], [(name, run_id) for run_id in step.freed])
    connection.executemany(SQL["put_letter"], [(name, *letter, now) for letter in step.letters])
    connection.executemany(SQL["resolve_letter"], [(now, name, position) for position in step.resolved])
    return True


def _release(connection: apsw.Connection, which: dict[str, Any]) -> None:
    connection.execute(SQL["release_sink"], which)


def _remove(connection: apsw.Connection, removal: SinkRemoval) -> str | None:
    now = moment(connection)
    found = fetch(connection, SQL["get_sink"], {"name": removal.name, "now": now})
    if not found:
        return None
    publisher, cursor, letters = found[0]
    if publisher is not None:
        return str(publisher)
    for name in ("drop_held", "drop_letters", "drop_sink"):
        connection.execute(SQL[name], (removal.name,))
    told = (EventType.SINK_REMOVED.value, now, None, None, 0, removal.actor, removal.told(cursor, letters))
    write_events(connection, [(removal.removal_id, 1, "", 1, *told)])
    return None


def _replay(connection: apsw.Connection, name: str, positions: Sequence[int] | None, limit: int) -> int:
    now, marked = moment(connection), 0
    if positions is None:
        positions = [row[0] for row in fetch(connection, SQL["open_letters"], {"sink": name, "limit": limit})]
    for position in positions:
        if marked == limit:
            break
        connection.execute(SQL["replay_letter"], (now, name, position))
        marked += connection.changes()
    return marked
