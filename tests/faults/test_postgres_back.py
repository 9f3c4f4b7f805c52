"""PostgreSQL that comes back, and PostgreSQL that does not let us in."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from stepfast import StepfastError
from stepfast.kernel.errors import StoreUnavailable
from tests.faults.server import own_server
from tests.support.apps import app_on, migrated
from tests.support.workflows import say

# How long a loop rests is for the tests of the loops; here none may stay away.
PATIENCE_S = 60

# Every call that some loop of an app makes by itself, and those that callers wait for.
LOOPS = ("claim", "beat", "upkeep")


@pytest.fixture
async def server():
    with own_server() as server:
        await migrated(server.url)
        yield server


def worked_since(app, name: str) -> threading.Event:
    """Set when a call of the store is next answered."""
    store, worked = app._parts.store, threading.Event()
    method = getattr(store, name)

    async def call(*args, **named):
        answer = await method(*args, **named)
        worked.set()
        return answer

    setattr(store, name, call)
    return worked


async def failures_of(app, name: str, number: int) -> None:
    """Wait until so many calls of the store have failed."""
    store, failed, loop = app._parts.store, asyncio.Semaphore(0), asyncio.get_running_loop()
    method = getattr(store, name)

    async def call(*args, **named):
        try:
            return await method(*args, **named)
        except StepfastError:
            loop.call_soon_threadsafe(failed.release)
            raise

    setattr(store, name, call)
    async with asyncio.timeout(60):
        for _ in range(number):
            await failed.acquire()
    setattr(store, name, method)


async def test_every_loop_works_again_without_a_restart(server):
    async with app_on(server.url, [say]) as app, app_on(server.url, [say], worker=False) as client:
        waiting = asyncio.ensure_future((await client.start(say, "before", delay="5s")).result())
        await asyncio.to_thread(server.kill)
        # Long enough away for the worker to have given up its lease.
        await failures_of(app, "beat", 5)
        with pytest.raises(StoreUnavailable):
            await client.runs()
        await asyncio.to_thread(server.start)
        worked = [worked_since(app, name) for name in LOOPS]
        async with asyncio.timeout(PATIENCE_S):
            for event in worked:
                await asyncio.to_thread(event.wait, PATIENCE_S)
            assert await answered(client) == "after"
            assert await waiting == "before"
    assert all(event.is_set() for event in worked)


async def answered(client) -> str:
    """What a new run comes to; the first call on a line that was cut is told to try again."""
    while True:
        try:
            return str(await (await client.start(say, "after", key="after")).result())
        except StoreUnavailable:
            continue


async def test_a_wrong_password_is_told_with_the_next_step_and_not_shown(server):
    connection = await asyncpg.connect(server.url)
    await connection.execute("create role guarded login password 'right' superuser")
    rules = Path(await connection.fetchval("show hba_file"))
    rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())
    await connection.execute("select pg_reload_conf()")
    await connection.close()
    right, wrong = (as_user(server.url, password) for password in ("right", "hunter2"))
    async with app_on(right, [say], worker=False) as app:
        assert await app.runs() == []
    with pytest.raises(StepfastError) as raised:
        async with app_on(wrong, [say]):
            pass
    assert (raised.value.code, "refuses the password" in str(raised.value)) == ("E-STORE-001", True)
    assert "hunter2" not in str(raised.value)


async def test_a_database_that_is_not_there_is_said_not_to_exist(postgres_url):
    absent = urlsplit(postgres_url)._replace(path="/absent").geturl()
    with pytest.raises(StepfastError, match=r"database 'absent' on .* does not exist\. Create it with `createdb`"):
        async with app_on(absent, [say], worker=False):
            pass


def as_user(url: str, password: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"guarded:{password}@{parts.netloc.rpartition('@')[2]}").geturl()
