"""Statements of a test's own on either kind of database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import asyncpg

from stepfast.stores.statements import unprefixed


async def fetch(database: str, query: str) -> list[tuple[Any, ...]]:
    """All rows of a query without parameters; tables are written `stepfast.run`."""
    if database.startswith("sqlite"):
        connection = apsw.Connection(str(Path(database.removeprefix("sqlite:///"))))
        try:
            return connection.execute(unprefixed(query)).fetchall()
        finally:
            connection.close()
    session = await asyncpg.connect(database)
    try:
        return [tuple(row) for row in await session.fetch(query)]
    finally:
        await session.close()


async def execute(database: str, statement: str) -> None:
    """Run a statement without parameters; tables are written `stepfast.run`."""
    if database.startswith("sqlite"):
        connection = apsw.Connection(str(Path(database.removeprefix("sqlite:///"))))
        connection.set_busy_timeout(5_000)
        connection.execute(unprefixed(statement))
        connection.close()
        return
    session = await asyncpg.connect(database)
    try:
        await session.execute(statement)
    finally:
        await session.close()


async def tamper(database: str, statement: str) -> None:
    """Run a statement as somebody with the owner's rights does who first takes the guards of the trail away."""
    for guard in await guards(database):
        await execute(database, guard)
    await execute(database, statement)


async def guards(database: str) -> list[str]:
    """The statements that take away what keeps the rows of the trail from being changed."""
    if database.startswith("sqlite"):
        found = await fetch(database, "select name from sqlite_schema where type = 'trigger' and name like 'refuse_%'")
        return [f"drop trigger {name}" for (name,) in found]
    tables = await fetch(database, "select tgrelid::regclass::text from pg_trigger where tgname = 'refuse_change'")
    return [f"drop trigger refuse_change on {table}" for (table,) in tables]
