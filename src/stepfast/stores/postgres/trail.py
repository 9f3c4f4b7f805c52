"""The trail in the PostgreSQL database, read by positions while others write."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.kernel.seals import Leaf, Seal
from stepfast.kernel.trail import Doubt, TrailPage, settle
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.trail import TrailReads

WRITERS = "select w.virtualtransaction from stepfast.event_writer w"

PUT_SEAL = """
select stepfast.put_seal(
    $1::integer, $2::bigint, $3::bigint, $4::integer, $5::integer, $6::text, $7::text, $8::bigint, $9::text, $10::text,
    $11::uuid[], $12::text[], $13::integer[], $14::integer[], $15::text[]
)
"""


class PostgresTrail(TrailReads):
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

    async def put_seal(self, seal: Seal, leaves: Sequence[Leaf]) -> bool:
        """Store a seal with its leaves; False when one of its number is there already."""
        columns = [list(column) for column in zip(*leaves, strict=True)] or [[]] * len(Leaf._fields)
        (row,) = await self._cold.fetch(PUT_SEAL, [*seal.body, seal.key, seal.signature, *columns])
        return bool(row[0])

    async def _writers(self) -> frozenset[str]:
        return frozenset(row[0] for row in await self._cold.fetch(WRITERS, []))
