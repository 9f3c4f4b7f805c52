"""Temporary SQLite stores: the schema is made once in a process, and each store begins as a copy of it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from stepfast.engine.clock import SystemClock
from stepfast.stores.urls import store_for

_migrated: list[bytes] = []


@asynccontextmanager
async def temporary_store() -> AsyncIterator[str]:
    """The URL of an empty store of the caller's own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="stepfast-") as folder:
        yield await new_store(Path(folder) / "engine.db")


async def new_store(path: Path) -> str:
    """Make an empty store with the schema in it; its URL. To apply all migrations takes longer than many a test."""
    if not _migrated:
        _migrated.append(await _migrated_file())
    return _written(path, _migrated[0])


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return f"sqlite:///{path}"


async def _migrated_file() -> bytes:
    with tempfile.TemporaryDirectory(prefix="stepfast-") as folder:
        path = Path(folder) / "migrated.db"
        store = store_for(f"sqlite:///{path}", SystemClock())
        try:
            await store.migrate()
        finally:
            # Whoever closes last moves everything from the log into the file itself.
            await store.close()
        return path.read_bytes()
