"""The trail in the PostgreSQL database, read by positions while others write."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from stepfast.kernel.seals import Leaf, Seal
from stepfast.kernel.trail import Doubt, Gap, TrailPage, settle
from stepfast.kernel.views import EventView
from stepfast.stores import rows
from stepfast.stores.postgres.driver import Row
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.statements import Numbered, narrowed, numbered, trail_statements
from stepfast.stores.trail import GAPS, gap_of, leaf_of, seal_of

# Whoever writes an event holds this lock from before it takes a position until its commit can be seen by all.
WRITERS = """
select l.virtualtransaction
  from pg_locks l
 where l.locktype = 'relation'
   and l.database = (select d.oid from pg_database d where d.datname = current_database())
   and l.relation = 'stepfast.event'::regclass
   and l.mode = 'RowExclusiveLock'
"""

PUT_SEAL = """
select stepfast.put_seal(
    $1::integer, $2::bigint, $3::bigint, $4::integer, $5::integer, $6::text, $7::text, $8::bigint, $9::text, $10::text,
    $11::uuid[], $12::text[], $13::integer[], $14::integer[], $15::text[]
)
"""


class PostgresTrail:
    """What a store of this kind does for the trail."""

    _cold: Pool

    async def trail(self, after: int, limit: int, doubt: Doubt | None = None) -> TrailPage:
        """Events behind a position, as far as nothing can come between them any more."""
        if doubt is not None and doubt.writers & await self._writers():
            return TrailPage([], after, doubt)
        found = await self._trail_events(after, None, limit)
        sure_to = after if doubt is None else doubt.last
        count, reached = settle(after, [event.position for event in found], sure_to, len(found) < limit)
        if count == len(found):
            return TrailPage(found, reached)
        # Asked for behind the rows: whoever had taken a position below the last of them is either there, or done.
        return TrailPage(found[:count], reached, Doubt(found[-1].position, await self._writers()))

    async def sealed_events(self, after: int, last: int, limit: int) -> list[EventView]:
        """The events that stand between two positions now."""
        return await self._trail_events(after, last, limit)

    async def gaps(self, after: int, limit: int) -> list[Gap]:
        """Runs whose numbers have a gap."""
        given = {"after": after, "limit": limit}
        found = [gap_of(row) for name in GAPS for row in await self._read_trail(name, given)]
        return found[:limit]

    async def count_behind(self, after: int) -> int:
        """How many events stand behind a position."""
        ((count,),) = await self._read_trail("count_behind", {"after": after})
        return int(count)

    async def last_seal(self) -> Seal | None:
        """The newest seal."""
        return next(iter([seal_of(row) for row in await self._read_trail("last_seal", {})]), None)

    async def seals(self, after: int, limit: int) -> list[Seal]:
        """Seals with higher numbers, in order."""
        return [seal_of(row) for row in await self._read_trail("list_seals", {"after": after, "limit": limit})]

    async def leaves(self, number: int) -> list[Leaf]:
        """The leaves of a seal, in their order."""
        return [leaf_of(row) for row in await self._read_trail("list_leaves", {"number": number})]

    async def put_seal(self, seal: Seal, leaves: Sequence[Leaf]) -> bool:
        """Store a seal with its leaves; False when one of its number is there already."""
        columns = [list(column) for column in zip(*leaves, strict=True)] or [[]] * len(Leaf._fields)
        (row,) = await self._cold.fetch(PUT_SEAL, [*seal.body, seal.key, seal.signature, *columns])
        return bool(row[0])

    async def _trail_events(self, after: int, last: int | None, limit: int) -> list[EventView]:
        found = await self._read_trail("list_trail", {"after": after, "last": last, "limit": limit})
        return [rows.event_view(row) for row in found]

    async def _writers(self) -> frozenset[str]:
        return frozenset(row[0] for row in await self._cold.fetch(WRITERS, []))

    async def _read_trail(self, name: str, parameters: dict[str, Any]) -> Sequence[Row]:
        statement = _statement(name, frozenset(each for each, value in parameters.items() if value is not None))
        return await self._cold.fetch(statement.text, [parameters[each] for each in statement.names])


@cache
def _statement(name: str, given: frozenset[str]) -> Numbered:
    return numbered(narrowed(trail_statements()[name], given))
