"""Large values in the SQLite file itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import apsw

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, check_key
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.stores import rows
from stepfast.stores.sqlite.asking import Row, fetch, one
from stepfast.stores.sqlite.connection import Reader, Writer
from stepfast.stores.statements import blob_statements, narrowed, unprefixed

SQL = {name: unprefixed(text) for name, text in blob_statements().items()}


class SqliteBlobs:
    """Blobs in the table `blob`."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def put(self, key: BlobKey, content: bytes) -> None:
        """Keep the content; it is on disk when this returns."""
        row = {**check_key(key)._asdict(), "content": content}
        await self._writer.run(lambda connection: fetch(connection, SQL["put_blob"], row))

    async def put_once(self, key: BlobKey, content: bytes) -> bytes:
        """Keep the content if the key has none; what it has now."""
        row = {**check_key(key)._asdict(), "content": content}
        await self._writer.run(lambda connection: fetch(connection, SQL["put_blob_once"], row))
        found = await self.get(key)
        return content if found is None else found

    async def get(self, key: BlobKey) -> bytes | None:
        """The content, or None when there is none of that key."""
        content: bytes | None = await self._ask("get_blob", key)
        return content

    async def has(self, key: BlobKey) -> bool:
        """Whether there is a blob of that key."""
        return await self._ask("has_blob", key) is not None

    async def delete(self, key: BlobKey, put_before: Instant | None = None) -> bool:
        """Remove a blob, with `put_before` only if it was not put again since."""
        wanted = {**check_key(key)._asdict(), "put_before": put_before}
        return bool(await self._writer.run(lambda connection: _all(connection, "delete_blob", wanted)))

    async def list(self, where: BlobFilter) -> list[BlobInfo]:
        """A page of blobs, by run, tenant and name."""
        wanted = rows.blob_filter_parameters(where)
        found = await self._reader.run(lambda connection: _all(connection, "list_blobs", wanted))
        return [rows.blob_info(row) for row in found]

    async def _ask(self, name: str, key: BlobKey) -> Any:
        return await self._reader.run(partial(one, text=SQL[name], bindings=check_key(key)._asdict()))


def list_mentions(connection: apsw.Connection, runs: Sequence[tuple[str, RunId]]) -> set[tuple[RunId, str]]:
    """Every reference to a blob that the rows of these runs, each given with its tenant, hold."""
    return {
        (run_id, text)
        for tenant, run_id in runs
        for (text,) in fetch(connection, SQL["list_mentions"], {"tenant": tenant, "run_id": run_id})
    }


def _all(connection: apsw.Connection, name: str, wanted: dict[str, Any]) -> list[Row]:
    given = {parameter for parameter, value in wanted.items() if value is not None}
    return fetch(connection, narrowed(SQL[name], given), wanted)
