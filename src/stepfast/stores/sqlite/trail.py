"""The trail in the SQLite file, where commits come in the order of their positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from stepfast.kernel.seals import Leaf, Seal
from stepfast.kernel.trail import Doubt, Gap, TrailPage
from stepfast.kernel.views import EventView
from stepfast.stores import rows
from stepfast.stores.sqlite.asking import fetch
from stepfast.stores.sqlite.connection import Reader, Writer
from stepfast.stores.statements import narrowed, trail_statements, unprefixed
from stepfast.stores.trail import GAPS, Row, gap_of, leaf_of, seal_of

SQL = {name: unprefixed(text) for name, text in trail_statements().items()}

INSERT_SEAL = """
insert into seal (number, after, upto, events, leaves, root, previous, sealed_at, key, signature)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    on conflict do nothing
"""
INSERT_LEAF = "insert into leaf (number, n, run_id, tenant, first_seq, last_seq, digest) values (?, ?, ?, ?, ?, ?, ?)"


class SqliteTrail:
    """What a store of this kind does for the trail."""

    _writer: Writer
    _views: Reader

    async def trail(self, after: int, limit: int, doubt: Doubt | None = None) -> TrailPage:
        """Events behind a position: whatever is to be seen is all there will be."""
        found = await self._trail_events(after, None, limit)
        return TrailPage(found, found[-1].position if found else after)

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
        return await self._writer.run(partial(_put, seal=seal, leaves=leaves))

    async def _trail_events(self, after: int, last: int | None, limit: int) -> list[EventView]:
        found = await self._read_trail("list_trail", {"after": after, "last": last, "limit": limit})
        return [rows.event_view(row) for row in found]

    async def _read_trail(self, name: str, parameters: dict[str, Any]) -> list[Row]:
        return await self._views.run(partial(_rows, name=name, parameters=parameters))


def _rows(connection: apsw.Connection, name: str, parameters: dict[str, Any]) -> list[Row]:
    given = {each for each, value in parameters.items() if value is not None}
    return list(fetch(connection, narrowed(SQL[name], given), parameters))


def _put(connection: apsw.Connection, seal: Seal, leaves: Sequence[Leaf]) -> bool:
    connection.execute(INSERT_SEAL, (*seal.body, seal.key, seal.signature))
    if not connection.changes():
        return False
    connection.executemany(INSERT_LEAF, [(seal.body.number, n, *leaf) for n, leaf in enumerate(leaves, 1)])
    return True
