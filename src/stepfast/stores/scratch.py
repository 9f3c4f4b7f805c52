"""A scratch database beside a given one: on the same disk or server, empty, and gone afterwards."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit


@asynccontextmanager
async def scratch_beside(url: str) -> AsyncIterator[str]:
    """The URL of an empty database without a schema; nothing of the given one is touched."""
    if urlsplit(url).scheme == "sqlite":
        from stepfast.stores.urls import sqlite_path

        with tempfile.TemporaryDirectory(prefix=".stepfast-bench-", dir=_folder_of(sqlite_path(url))) as folder:
            yield f"sqlite:///{quote(folder)}/bench.db"
        return
    from stepfast.stores.postgres.scratch import scratch_database
    from stepfast.stores.urls import check_postgres

    check_postgres(url)
    async with scratch_database(url, f"stepfast_bench_{secrets.token_hex(6)}") as scratch:
        yield scratch


def _folder_of(path: Path) -> Path:
    """The nearest folder that exists, so that nothing is left behind where there was nothing."""
    return next(folder for folder in path.absolute().parents if folder.is_dir())
