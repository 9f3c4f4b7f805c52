"""Outside work in the PostgreSQL database that nobody waits for any more."""

from __future__ import annotations

from functools import cache

from stepfast.kernel.ids import RunId
from stepfast.kernel.outside import LeftOutside
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.statements import Numbered, numbered, outside_statements


class PostgresOutside:
    """What a store of this kind does for outside work."""

    _cold: Pool

    async def left_outside(self, limit: int = 100) -> list[LeftOutside]:
        """Outside work of runs that have ended, which is to be stopped."""
        found = await self._cold.fetch(_statement("list_left").text, [limit])
        return [LeftOutside(RunId(str(run_id)), wait_id, asking) for run_id, wait_id, asking in found]

    async def forget_outside(self, run_id: RunId, wait_id: int) -> None:
        """What stops it is stored."""
        statement = _statement("forget_left")
        which = {"run_id": run_id, "wait_id": wait_id}
        await self._cold.fetch(statement.text, [which[name] for name in statement.names])


@cache
def _statement(name: str) -> Numbered:
    return numbered(outside_statements()[name])
