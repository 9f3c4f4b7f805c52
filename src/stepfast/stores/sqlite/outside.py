"""Outside work in the SQLite file that nobody waits for any more."""

from __future__ import annotations

from functools import partial
from typing import Any

import apsw

from stepfast.kernel.ids import RunId
from stepfast.kernel.outside import LeftOutside
from stepfast.stores.sqlite.asking import fetch
from stepfast.stores.sqlite.connection import Reader, Writer
from stepfast.stores.statements import outside_statements, unprefixed

SQL = {name: unprefixed(text) for name, text in outside_statements().items()}


class SqliteOutside:
    """What a store of this kind does for outside work."""

    _writer: Writer
    _views: Reader

    async def left_outside(self, limit: int = 100) -> list[LeftOutside]:
        """Outside work of runs that have ended, which is to be stopped."""
        return await self._views.run(partial(_list, limit=limit))

    async def forget_outside(self, run_id: RunId, wait_id: int) -> None:
        """What stops it is stored."""
        await self._writer.run(partial(_forget, which={"run_id": run_id, "wait_id": wait_id}))


def _list(connection: apsw.Connection, limit: int) -> list[LeftOutside]:
    return [LeftOutside(*row) for row in fetch(connection, SQL["list_left"], {"limit": limit})]


def _forget(connection: apsw.Connection, which: dict[str, Any]) -> None:
    connection.execute(SQL["forget_left"], which)
