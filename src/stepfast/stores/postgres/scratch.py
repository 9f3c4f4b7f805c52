"""A database of one's own on a server, for a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from stepfast.kernel.errors import StoreUnusable
from stepfast.stores.postgres.driver import sqlstate
from stepfast.stores.postgres.lines import Address, Deadlines, part
from stepfast.stores.postgres.problems import FAILURES, NOT_ALLOWED, explained

MAKE_S = 60.0


@asynccontextmanager
async def scratch_database(url: str, name: str) -> AsyncIterator[str]:
    """A new database of that name on the server of a URL, dropped in the end."""
    await _execute(url, f"create database {name}")
    try:
        yield urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        await _execute(url, f"drop database {name} with (force)")


async def _execute(url: str, statement: str) -> None:
    address = Address(url, Deadlines(), has_own_sessions=None)
    connection = await address.visit()
    try:
        await connection.execute(statement, timeout=MAKE_S)
    except FAILURES as problem:
        if sqlstate(problem) == NOT_ALLOWED:
            raise StoreUnusable(
                f"{address.where} does not let this user create a scratch database. Run `alter role ... createdb`, or "
                "measure in the database itself with --in-place."
            ) from problem
        raise explained(address.where, problem) from problem
    finally:
        await part(connection)
