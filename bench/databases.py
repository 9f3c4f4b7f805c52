"""A fresh database for each measurement."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from bench.postgres import Server
from bench.processes import Unmeasured

BUSY_MS = 10_000

Ask = Callable[[str], Awaitable[int]]
"""Answers a query with its one number."""


class Databases(Protocol):
    """Where fresh databases of one kind come from."""

    kind: str

    def fresh(self, migrated: bool = True) -> AbstractContextManager[str]:
        """The URL of a database that is gone after the block; peers want it without our schema."""
        ...

    def version(self) -> str:
        """What it is that is measured; nothing where no database is."""
        ...


class SqliteDatabases:
    """Files in a temporary folder; `synchronous = full` is the store's default."""

    kind = "sqlite"

    @contextmanager
    def fresh(self, migrated: bool = True) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="stepfast-bench-") as folder:
            url = f"sqlite:////{Path(folder, 'bench.db').relative_to('/')}"
            if migrated:
                asyncio.run(migrate(url))
            yield url

    def version(self) -> str:
        import apsw

        return f"SQLite {apsw.sqlite_lib_version()}"


class PostgresDatabases:
    """Databases of one server; `server` is there if it is our own, to be stopped and started."""

    kind = "postgres"

    def __init__(self, url: str, server: Server | None = None) -> None:
        self.url = url
        self.server = server

    @contextmanager
    def fresh(self, migrated: bool = True) -> Iterator[str]:
        name = f"bench_{uuid.uuid4().hex}"
        asyncio.run(self._execute(f'create database "{name}"', "checkpoint"))
        url = urlsplit(self.url)._replace(path=f"/{name}").geturl()
        try:
            if migrated:
                asyncio.run(migrate(url))
            yield url
        finally:
            asyncio.run(self._execute(f'drop database "{name}" with (force)'))

    def version(self) -> str:
        return asyncio.run(self._version())

    async def _execute(self, *statements: str) -> None:
        await execute(self.url, *statements)

    async def _version(self) -> str:
        async with asking(self.url) as ask:
            major, minor = divmod(await ask("show server_version_num"), 10_000)
        return f"PostgreSQL {major}.{minor}"


async def migrate(url: str) -> None:
    """Bring a database's schema up to date."""
    from stepfast.engine.clock import SystemClock
    from stepfast.stores.urls import store_for

    store = store_for(url, SystemClock())
    await store.migrate()
    await store.close()


async def execute(url: str, *statements: str) -> None:
    """Run statements one by one, each in a transaction of its own."""
    if urlsplit(url).scheme == "sqlite":
        import apsw

        file = apsw.Connection(_file_of(url))
        file.set_busy_timeout(BUSY_MS)
        for statement in statements:
            file.execute(statement).fetchall()
        file.close()
        return
    import asyncpg

    server = await asyncpg.connect(url)
    for statement in statements:
        await server.execute(statement)
    await server.close()


@asynccontextmanager
async def asking(url: str) -> AsyncIterator[Ask]:
    """One connection for counting what is there, apart from what is measured."""
    if urlsplit(url).scheme == "sqlite":
        import apsw

        file = apsw.Connection(_file_of(url), flags=apsw.SQLITE_OPEN_READONLY)
        file.set_busy_timeout(BUSY_MS)

        async def ask_file(query: str) -> int:
            return int(file.execute(query).get)

        yield ask_file
        file.close()
        return
    import asyncpg

    server = await asyncpg.connect(url)

    async def ask_server(query: str) -> int:
        return int(await server.fetchval(query))

    yield ask_server
    await server.close()


async def check_stored(url: str, name: str, rows: int) -> None:
    """A figure counts only if what it was measured by is really there."""
    async with asking(url) as ask:
        found = await ask(f"select count(*) from {table(url, name)}")
    if found != rows:
        raise Unmeasured(f"{rows} rows of {name} should be stored, but there are {found}.")


def table(url: str, name: str) -> str:
    """How a store of this kind calls one of our tables."""
    return name if urlsplit(url).scheme == "sqlite" else f"stepfast.{name}"


def _file_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
