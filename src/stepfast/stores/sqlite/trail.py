"""The trail in the SQLite file, where commits come in the order of their positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import apsw

from stepfast.kernel.seals import FIRST, Leaf, Seal
from stepfast.kernel.trail import Doubt, TrailPage
from stepfast.stores.sqlite.asking import one, statements
from stepfast.stores.sqlite.connection import Writer
from stepfast.stores.trail import TrailReads

SQL = statements("trail")


class SqliteTrail(TrailReads):
    """What a store of this kind does for the trail."""

    _writer: Writer

    async def trail(self, after: int, limit: int, doubt: Doubt | None = None) -> TrailPage:
        """Events behind a position: whatever is to be seen is all there will be."""
        found = await self._trail_events(after, None, limit)
        return TrailPage(found, found[-1].position if found else after)

    async def put_seal(self, seal: Seal, leaves: Sequence[Leaf]) -> bool:
        """Store a seal with its leaves; False when one of its number is there already."""
        return await self._writer.run(partial(_put, seal=seal, leaves=leaves))


def _put(connection: apsw.Connection, seal: Seal, leaves: Sequence[Leaf]) -> bool:
    # Before there is a seal runs are pruned without one: what has gone since it was read must not be in the first.
    if seal.body.number == FIRST and any(one(connection, SQL["is_pruned"], (leaf.run_id,)) for leaf in leaves):
        return False
    connection.execute(SQL["insert_seal"], (*seal.body, seal.key, seal.signature))
    if not connection.changes():
        return False
    connection.executemany(SQL["insert_leaf"], [(seal.body.number, n, *leaf) for n, leaf in enumerate(leaves, 1)])
    return True
