"""Hints between processes over PostgreSQL's NOTIFY."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from stepfast import Invalid
from stepfast.engine.clock import SystemClock
from stepfast.stores.postgres import hints
from stepfast.stores.postgres.lines import Address, Deadlines
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.urls import store_for
from tests.stores.postgres import asking, opened
from tests.stores.postgres_proxies import CuttingProxy, Pooler, Streams
from tests.support.turns import turn

# Waits until they are gone: a process of the server that was only told to end hears on for a while.
END_LISTENERS = """
select pg_terminate_backend(pid, 60000)
  from pg_stat_activity
 where query ilike 'listen%' and datname = current_database()
"""


async def listening(store: PostgresStore) -> asyncio.Queue[str]:
    heard: asyncio.Queue[str] = asyncio.Queue()
    await store.hear(heard.put_nowait)
    return heard


async def next_of(heard: asyncio.Queue[str]) -> str:
    async with asyncio.timeout(60):
        return await heard.get()


async def test_a_hint_is_heard_by_the_others(migrated_postgres_url):
    async with opened(migrated_postgres_url) as here, opened(migrated_postgres_url) as there:
        heard = await listening(there)
        await here.hint(["ended", "ready:default"])
        assert {await next_of(heard), await next_of(heard)} == {"ended", "ready:default"}


async def test_nobody_hears_itself(migrated_postgres_url):
    async with opened(migrated_postgres_url) as here, opened(migrated_postgres_url) as there:
        heard = await listening(here)
        await here.hint(["mine"])
        await there.hint(["yours"])
        assert await next_of(heard) == "yours"


async def test_an_ear_that_lost_its_connection_listens_again(migrated_postgres_url, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "stepfast")
    monkeypatch.setattr(hints, "PAUSE_S", 0)
    async with (
        opened(migrated_postgres_url) as here,
        opened(migrated_postgres_url) as there,
        asking(migrated_postgres_url) as connection,
    ):
        heard = await listening(there)
        assert await connection.fetchval(END_LISTENERS)
        await until(heard, lambda: here.hint(["again"]))
        assert await next_of(heard) == "again"
        assert told(caplog) == ["hints_lost", "hints_returned"]


@pytest.fixture
def refused(monkeypatch):
    """Set when somebody has asked for a connection that cannot be had as it was asked for."""
    told, connect = asyncio.Event(), Address.connect

    async def noted(*given):
        try:
            return await connect(*given)
        except Invalid:
            told.set()
            raise

    monkeypatch.setattr(Address, "connect", noted)
    return told


async def test_an_ear_that_is_not_let_in_as_whom_it_asks_for_tries_again(
    migrated_postgres_url, monkeypatch, caplog, refused
):
    caplog.set_level(logging.INFO, "stepfast")
    monkeypatch.setattr(hints, "PAUSE_S", 0)
    url, role = migrated_postgres_url, f"hints_{secrets.token_hex(8)}"
    direct_url = f"{url}{'&' if '?' in url else '?'}options=-c%20role%3D{role}"
    async with asking(url) as connection:
        await connection.execute(f"create role {role}")
        try:
            async with opened(url) as here, opened(url, direct_url=direct_url) as there:
                heard = await listening(there)
                await connection.execute(f"drop role {role}")
                assert await connection.fetchval(END_LISTENERS)
                async with asyncio.timeout(60):
                    await refused.wait()
                await connection.execute(f"create role {role}")
                await until(heard, lambda: here.hint(["again"]))
        finally:
            await connection.execute(f"drop role if exists {role}")
    assert told(caplog) == ["hints_lost", "hints_returned"]


class Refusing(CuttingProxy):
    """Hangs up on the first clients, and after these lets everybody through."""

    def __init__(self, url: str, refused: int) -> None:
        super().__init__(url)
        self.refused = refused

    async def serve(self, client: Streams) -> None:
        if self.refused:
            self.refused -= 1
        else:
            await super().serve(client)


def told(caplog) -> list[str]:
    """What the log says of hints, each line without its reason."""
    return [line.split()[0] for line in caplog.messages if line.startswith("hints_")]


async def test_hints_that_cannot_be_heard_are_told_of_once_and_when_they_are_back(
    migrated_postgres_url, monkeypatch, caplog
):
    caplog.set_level(logging.INFO, "stepfast")
    monkeypatch.setattr(hints, "PAUSE_S", 0)
    async with (
        opened(migrated_postgres_url) as here,
        Refusing(migrated_postgres_url, refused=6).listening() as direct_url,
        opened(migrated_postgres_url, direct_url=direct_url) as there,
    ):
        heard = await listening(there)
        assert told(caplog) == ["hints_lost"]
        await until(heard, lambda: here.hint(["at last"]))
        assert told(caplog) == ["hints_lost", "hints_returned"]


class Swallowing(CuttingProxy):
    """Passes everything on for its first client, up to a moment; from then on nothing, and it tells nobody."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_shut = False
        self.clients = 0

    async def serve(self, client: Streams) -> None:
        self.clients += 1
        server = await self.dial()
        ways = ((client[0], server[1]), (server[0], client[1]))
        await asyncio.gather(*(self._pass(*way, is_first=self.clients == 1) for way in ways))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_first: bool) -> None:
        while data := await reader.read(65_536):
            if not (is_first and self.is_shut):
                writer.write(data)
        writer.close()


@contextlib.asynccontextmanager
async def behind_a_way_that_swallows(url: str) -> AsyncIterator[tuple[PostgresStore, asyncio.Queue[str]]]:
    """Somebody who hints, and what a process hears that listens by a way which swallows all from here on."""
    way = Swallowing(url)
    async with (
        opened(url) as here,
        way.listening() as direct_url,
        opened(url, direct_url=direct_url) as there,
    ):
        heard = await listening(there)
        way.is_shut = True
        yield here, heard


async def test_an_ear_whose_connection_is_swallowed_listens_by_another(migrated_postgres_url, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "stepfast")
    for name in ("PAUSE_S", "LOOK_EVERY_S", "ANSWER_S"):
        monkeypatch.setattr(hints, name, 0.05)
    async with behind_a_way_that_swallows(migrated_postgres_url) as (here, heard):
        await until(heard, lambda: here.hint(["again"]))
    assert told(caplog)[:2] == ["hints_lost", "hints_returned"]


async def test_the_broken_twin_that_waits_to_be_told_stays_deaf(migrated_postgres_url, monkeypatch):
    monkeypatch.setattr(hints, "LOOK_EVERY_S", 3_600)
    async with behind_a_way_that_swallows(migrated_postgres_url) as (here, heard):
        for _ in range(300):
            await here.hint(["again"])
        assert heard.empty()


@pytest.mark.parametrize("turns", range(8))
async def test_an_ear_closes_however_shortly_before_its_connection_has_ended(migrated_postgres_url, turns):
    """As where the server and whoever uses it are stopped together."""
    ear = hints.Ear(Address(migrated_postgres_url, Deadlines(60.0), True))
    await ear.open(lambda topic: None)
    await loop_turns(8)
    assert ear._connection is not None
    ear._connection.terminate()
    await loop_turns(turns)
    async with asyncio.timeout(30):
        await ear.close()


async def loop_turns(turns: int) -> None:
    for _ in range(turns):
        await turn()


async def test_an_ear_that_hears_and_closes_says_nothing(migrated_postgres_url, caplog):
    caplog.set_level(logging.INFO, "stepfast")
    async with opened(migrated_postgres_url) as here:
        await listening(here)
    assert told(caplog) == []


async def until(heard: asyncio.Queue[str], hint: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(60):
        while heard.empty():
            await hint()


async def test_behind_a_pooler_the_direct_address_is_listened_at(migrated_postgres_url):
    async with (
        opened(migrated_postgres_url) as here,
        Pooler(migrated_postgres_url).listening() as url,
        opened(url, direct_url=migrated_postgres_url) as there,
    ):
        heard = await listening(there)
        await here.hint(["past the pooler"])
        assert await next_of(heard) == "past the pooler"


async def test_behind_a_pooler_without_the_direct_address_the_log_says_what_to_set(migrated_postgres_url, caplog):
    async with Pooler(migrated_postgres_url).listening() as url, opened(url) as there:
        await listening(there)
    assert "hints_unheard" in caplog.text
    assert "Set STEPFAST_DATABASE_DIRECT_URL" in caplog.text


async def test_hints_go_through_a_pooler(migrated_postgres_url):
    async with (
        opened(migrated_postgres_url) as here,
        Pooler(migrated_postgres_url).listening() as url,
        opened(url) as there,
    ):
        heard = await listening(here)
        await there.hint(["through the pooler"])
        assert await next_of(heard) == "through the pooler"


def test_a_direct_address_that_is_no_postgresql_is_refused_by_its_setting(migrated_postgres_url):
    with pytest.raises(Invalid, match=r"STEPFAST_DATABASE_DIRECT_URL is 'redis://u:\*\*\*@host/0'"):
        store_for(migrated_postgres_url, SystemClock(), "redis://u:secret@host/0")


@pytest.mark.parametrize(
    "wrong",
    [
        "host=db password=secret",
        "host=db password='very secret' dbname=x",
        "u:secret@host:5432/db",
        "postgres//u:secret@host/db",
        "redis://host/0?password=secret",
    ],
)
def test_a_direct_address_that_is_no_url_is_refused_without_its_password(migrated_postgres_url, wrong):
    with pytest.raises(Invalid, match=r"STEPFAST_DATABASE_DIRECT_URL is .*\*\*\*") as refused:
        store_for(migrated_postgres_url, SystemClock(), wrong)
    assert "secret" not in str(refused.value)
