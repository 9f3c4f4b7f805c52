"""Sinks in the PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stepfast.kernel.sinks import HeldBack, SinkLetter, SinkRemoval, SinkStep, TakenSink
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.sinks import SinkReads

TAKE = """
select token, cursor, tries, due_at, replays
  from stepfast.take_sink($1::text, $2::text, $3::bigint, $4::boolean)
"""
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
REMOVE = "select stepfast.remove_sink($1::uuid, $2::text, $3::text, $4::text)"
REPLAY = "select stepfast.replay_letters($1::text, $2::bigint[], $3::integer)"


class PostgresSinks(SinkReads):
    """What a store of this kind does for sinks."""

    _cold: Pool

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

    async def remove_sink(self, removal: SinkRemoval) -> str | None:
        """Forget a sink; the publisher that has it, if one has."""
        (row,) = await self._cold.fetch(REMOVE, [*removal])
        return None if row[0] is None else str(row[0])

    async def replay_letters(self, name: str, positions: Sequence[int] | None, limit: int) -> int:
        """Have dead letters delivered once more; how many those are."""
        (row,) = await self._cold.fetch(REPLAY, [name, None if positions is None else [*positions], limit])
        return int(row[0])


def _columns(values: Sequence[NamedTuple], kind: type[NamedTuple]) -> list[list[Any]]:
    return [list(column) for column in zip(*values, strict=True)] or [[] for _ in kind._fields]
