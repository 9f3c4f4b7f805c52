"""Sinks in the PostgreSQL database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import HeldBack, SinkLetter, SinkLetterView, SinkStep, SinkView, TakenSink
from stepfast.kernel.views import EventView
from stepfast.stores import rows
from stepfast.stores.postgres.driver import Row
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.sinks import due_letter, held_of, letter_view, sink_view
from stepfast.stores.statements import Numbered, narrowed, numbered, sink_statements

TAKE = "select token, cursor, tries, due_at from stepfast.take_sink($1::text, $2::text, $3::bigint, $4::boolean)"
ADVANCE = """
select stepfast.advance_sink(
    $1::text, $2::integer, $3::bigint, $4::bigint, $5::integer, $6::bigint, $7::text,
    $8::uuid[], $9::integer[], $10::integer[], $11::bigint[], $12::text[],
    $13::uuid[],
    $14::bigint[], $15::uuid[], $16::integer[], $17::text[], $18::text[], $19::integer[], $20::text[],
    $21::bigint[]
)
"""
RELEASE = "update stepfast.sink set leased_until = 0, publisher = null where name = $1::text and token = $2::integer"
REPLAY = "select stepfast.replay_letters($1::text, $2::bigint[], $3::integer)"


class PostgresSinks:
    """What a store of this kind does for sinks."""

    _cold: Pool

    @abstractmethod
    async def now(self) -> Instant: ...

    async def take_sink(self, name: str, publisher: str, lease_ms: int, from_start: bool) -> TakenSink | None:
        """Lease a sink; None while another publisher has it."""
        found = await self._cold.fetch(TAKE, [name, publisher, lease_ms, from_start])
        return TakenSink(name, *found[0]) if found else None

    async def advance_sink(self, taken: TakenSink, step: SinkStep, lease_ms: int) -> bool:
        """Store what was done; False when another publisher has taken the sink meanwhile."""
        progress = [taken.name, taken.token, lease_ms, step.cursor, step.tries, step.due_at, step.error]
        held, letters = _columns(step.held, HeldBack), _columns(step.letters, SinkLetter)
        (row,) = await self._cold.fetch(ADVANCE, [*progress, *held, [*step.freed], *letters, [*step.resolved]])
        return bool(row[0])

    async def release_sink(self, taken: TakenSink) -> None:
        """Let another publisher take the sink at once."""
        await self._cold.fetch(RELEASE, [taken.name, taken.token])

    async def replay_letters(self, name: str, positions: Sequence[int] | None, limit: int) -> int:
        """Have dead letters delivered once more; how many those are."""
        (row,) = await self._cold.fetch(REPLAY, [name, None if positions is None else [*positions], limit])
        return int(row[0])

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

    async def _read_sinks(self, name: str, parameters: dict[str, Any]) -> Sequence[Row]:
        statement = _statement(name, frozenset(each for each, value in parameters.items() if value is not None))
        return await self._cold.fetch(statement.text, [parameters[each] for each in statement.names])


def _columns(values: Sequence[NamedTuple], kind: type[NamedTuple]) -> list[list[Any]]:
    return [list(column) for column in zip(*values, strict=True)] or [[] for _ in kind._fields]


@cache
def _statement(name: str, given: frozenset[str]) -> Numbered:
    return numbered(narrowed(sink_statements()[name], given))
