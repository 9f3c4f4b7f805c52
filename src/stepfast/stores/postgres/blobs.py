"""Large values in the PostgreSQL database itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, check_key
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.stores import rows
from stepfast.stores.postgres.driver import Row
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.statements import Numbered, blob_statements, narrowed, numbered


class PostgresBlobs:
    """Blobs in the table `blob`, by lines of their own: content on its way must not hold up what people ask."""

    def __init__(self, lines: Pool) -> None:
        self._lines = lines

    async def put(self, key: BlobKey, content: bytes) -> None:
        """Keep the content; it is committed when this returns."""
        await self._ask("put_blob", {**check_key(key)._asdict(), "content": content})

    async def put_once(self, key: BlobKey, content: bytes) -> bytes:
        """Keep the content if the key has none; what it has now."""
        await self._ask("put_blob_once", {**check_key(key)._asdict(), "content": content})
        found = await self.get(key)
        return content if found is None else found

    async def get(self, key: BlobKey) -> bytes | None:
        """The content, or None when there is none of that key."""
        found = await self._ask("get_blob", check_key(key)._asdict())
        return bytes(found[0][0]) if found else None

    async def has(self, key: BlobKey) -> bool:
        """Whether there is a blob of that key."""
        return bool(await self._ask("has_blob", check_key(key)._asdict()))

    async def delete(self, key: BlobKey, put_before: Instant | None = None) -> bool:
        """Remove a blob, with `put_before` only if it was not put again since."""
        return bool(await self._ask("delete_blob", {**check_key(key)._asdict(), "put_before": put_before}))

    async def list(self, where: BlobFilter) -> list[BlobInfo]:
        """A page of blobs, by run, tenant and name."""
        return [rows.blob_info(row) for row in await self._ask("list_blobs", rows.blob_filter_parameters(where))]

    async def mentions(self, runs: Sequence[tuple[str, RunId]]) -> set[tuple[RunId, str]]:
        """Every reference to a blob that the rows of these runs, each given with its tenant, hold."""
        found: set[tuple[RunId, str]] = set()
        for tenant, run_id in runs:
            answer = await self._ask("list_mentions", {"tenant": tenant, "run_id": run_id})
            found.update((run_id, text) for (text,) in answer)
        return found

    async def _ask(self, name: str, wanted: dict[str, Any]) -> Sequence[Row]:
        given = frozenset(parameter for parameter, value in wanted.items() if value is not None)
        statement = _statement(name, given)
        return await self._lines.fetch(statement.text, [wanted[parameter] for parameter in statement.names])


@cache
def _statement(name: str, given: frozenset[str]) -> Numbered:
    return numbered(narrowed(blob_statements()[name], given))
