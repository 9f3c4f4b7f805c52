"""Sinks in the SQLite file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import HeldBack, SinkLetter, SinkLetterView, SinkStep, SinkView, TakenSink
from stepfast.kernel.views import EventView
from stepfast.stores import rows
from stepfast.stores.sinks import Row, due_letter, held_of, letter_view, sink_view
from stepfast.stores.sqlite.asking import fetch, moment, statements
from stepfast.stores.sqlite.connection import Reader, Writer
from stepfast.stores.statements import narrowed, sink_statements, unprefixed

READS = {name: unprefixed(text) for name, text in sink_statements().items()}
SQL = statements("sinks")


class SqliteSinks:
    """What a store of this kind does for sinks."""

    _writer: Writer
    _views: Reader

    @abstractmethod
    async def now(self) -> Instant: ...

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

    async def replay_letters(self, name: str, positions: Sequence[int] | None, limit: int) -> int:
        """Have dead letters delivered once more; how many those are."""
        return await self._writer.run(partial(_replay, name=name, positions=positions, limit=limit))

    async def held_back(self, name: str, limit: int) -> list[HeldBack]:
        """The runs that wait, those that are due first."""
        return [held_of(row) for row in await self._read_sinks("list_held", {"sink": name, "limit": limit})]

    async def events_between(self, run_id: RunId, first_seq: int, upto: int, limit: int) -> list[EventView]:
        """The events of a run from a number on, up to a position."""
        given = {"run_id": run_id, "first_seq": first_seq, "upto": upto, "limit": limit}
        return [rows.event_view(row) for row in await self._read_sinks("events_between", given)]

    async def sinks(self) -> list[SinkView]:
        """Every sink that has ever been published to."""
        return [sink_view(row) for row in await self._read_sinks("list_sinks", {"now": await self.now()})]

    async def sink_letters(self, name: str, is_open: bool, after: int, limit: int) -> list[SinkLetterView]:
        """The dead letters of a sink behind a position."""
        given = {"sink": name, "open": 1 if is_open else None, "after": after, "limit": limit}
        return [letter_view(name, row) for row in await self._read_sinks("list_sink_letters", given)]

    async def due_letters(self, name: str, limit: int) -> list[tuple[SinkLetter, EventView]]:
        """Dead letters that somebody wants to be delivered once more, with their events."""
        return [due_letter(row) for row in await self._read_sinks("due_letters", {"sink": name, "limit": limit})]

    async def _read_sinks(self, name: str, parameters: dict[str, Any]) -> list[Row]:
        return await self._views.run(partial(_rows, name=name, parameters=parameters))


def _rows(connection: apsw.Connection, name: str, parameters: dict[str, Any]) -> list[Row]:
    given = {each for each, value in parameters.items() if value is not None}
    return list(fetch(connection, narrowed(READS[name], given), parameters))


def _take(connection: apsw.Connection, given: dict[str, Any]) -> TakenSink | None:
    given = {**given, "now": moment(connection)}
    connection.execute(SQL["make_sink"], given)
    found = fetch(connection, SQL["take_sink"], given)
    return TakenSink(given["name"], *found[0]) if found else None


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


def _replay(connection: apsw.Connection, name: str, positions: Sequence[int] | None, limit: int) -> int:
    now, marked = moment(connection), 0
    if positions is None:
        positions = [row[0] for row in fetch(connection, SQL["open_letters"], {"sink": name, "limit": limit})]
    for position in positions[:limit]:
        connection.execute(SQL["replay_letter"], (now, name, position))
        marked += connection.changes()
    return marked
