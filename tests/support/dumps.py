"""All that a database holds, as bytes: for tests that look for what must not be in it."""

from __future__ import annotations

from pathlib import Path

import asyncpg

TABLES = "select tablename from pg_tables where schemaname = 'stepfast'"


async def dump(database: str) -> dict[str, bytes]:
    """The content of a database by place: the files of SQLite, the rows of each of PostgreSQL's tables."""
    if database.startswith("sqlite"):
        path = Path(database.removeprefix("sqlite:///"))
        files = [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]
        return {file.name: file.read_bytes() for file in files if file.exists()}
    connection = await asyncpg.connect(database)
    try:
        tables = [name for (name,) in await connection.fetch(TABLES)]
        rows = {name: await connection.fetch(f"select t::text from stepfast.{name} t") for name in tables}
    finally:
        await connection.close()
    return {f"table {name}": "\n".join(row[0] for row in found).encode() for name, found in rows.items()}
