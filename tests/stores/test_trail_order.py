"""The trail under writers that are slow, roll back or hang: nothing is passed over, and nothing comes out of order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest

from stepfast.kernel.trail import Doubt
from stepfast.stores.postgres.store import PostgresStore

RUN = [UUID(int=number) for number in range(1, 30)]
WRITE = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, token)
select $1::uuid, 1 + coalesce(max(seq), 0), 'default', 1, 'progress', 0, 0 from stepfast.event where run_id = $1::uuid
returning position
"""


@pytest.fixture
async def store(migrated_postgres_url):
    store = PostgresStore(migrated_postgres_url)
    await store.open()
    yield store
    await store.close()


@asynccontextmanager
async def writer(url: str) -> AsyncIterator[asyncpg.Connection]:
    session = await asyncpg.connect(url)
    try:
        yield session
    finally:
        await session.close()


async def write(session: asyncpg.Connection, run: UUID) -> int:
    return int(await session.fetchval(WRITE, run))


class Reading:
    """Whoever follows the trail."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self.reached = 0
        self.doubt: Doubt | None = None
        self.read: list[tuple[str, int]] = []

    async def look(self, limit: int = 50) -> int:
        page = await self._store.trail(self.reached, limit, self.doubt)
        self.reached, self.doubt = page.reached, page.doubt
        self.read += [(event.run_id, event.seq) for event in page.events]
        return len(page.events)


async def test_what_a_slow_writer_holds_back_comes_before_what_was_committed_meanwhile(store, migrated_postgres_url):
    reading = Reading(store)
    async with writer(migrated_postgres_url) as slow, writer(migrated_postgres_url) as quick:
        held = slow.transaction()
        await held.start()
        await write(slow, RUN[0])
        await write(quick, RUN[1])
        assert (await reading.look(), await reading.look()) == (0, 0)
        await held.commit()
        await reading.look()
    assert reading.read == [(str(RUN[0]), 1), (str(RUN[1]), 1)]


async def test_what_was_rolled_back_holds_nothing_back(store, migrated_postgres_url):
    reading = Reading(store)
    async with writer(migrated_postgres_url) as slow, writer(migrated_postgres_url) as quick:
        held = slow.transaction()
        await held.start()
        await write(slow, RUN[0])
        await write(quick, RUN[1])
        assert await reading.look() == 0
        await held.rollback()
        assert await reading.look() == 1
    assert reading.read == [(str(RUN[1]), 1)]


async def test_a_writer_that_began_later_holds_nothing_back_that_was_in_doubt_before(store, migrated_postgres_url):
    reading = Reading(store)
    async with (
        writer(migrated_postgres_url) as slow,
        writer(migrated_postgres_url) as quick,
        writer(migrated_postgres_url) as late,
    ):
        held = slow.transaction()
        await held.start()
        await write(slow, RUN[0])
        await write(quick, RUN[1])
        assert await reading.look() == 0
        hangs = late.transaction()
        await hangs.start()
        await write(late, RUN[2])
        await held.rollback()
        assert await reading.look() == 1
        await hangs.rollback()


async def test_a_transaction_that_writes_no_events_holds_nothing_back(store, migrated_postgres_url):
    reading = Reading(store)
    async with writer(migrated_postgres_url) as other, writer(migrated_postgres_url) as quick:
        hangs = other.transaction()
        await hangs.start()
        await other.execute("create table elsewhere (number integer)")
        await write(quick, RUN[1])
        assert await reading.look() == 1
        await hangs.rollback()


async def test_eight_writers_at_once_lose_nothing_and_mix_up_no_run(store, migrated_postgres_url):
    reading, is_over = Reading(store), asyncio.Event()

    async def follow() -> None:
        while not is_over.is_set() or await reading.look() or reading.doubt is not None:
            await reading.look()

    async def work(number: int) -> None:
        chosen = random.Random(number)
        async with writer(migrated_postgres_url) as session:
            for _ in range(40):
                held = session.transaction()
                await held.start()
                # Each writer has runs of its own, as their holder has; positions are shared by all.
                for run in chosen.sample(RUN[number * 3 : number * 3 + 3], 2):
                    await write(session, run)
                if chosen.random() < 0.2:
                    await held.rollback()
                else:
                    await held.commit()

    following = asyncio.create_task(follow())
    await asyncio.gather(*(work(number) for number in range(8)))
    is_over.set()
    await following
    async with writer(migrated_postgres_url) as session:
        rows = await session.fetch("select run_id, seq from stepfast.event order by position")
    assert reading.read == [(str(row["run_id"]), row["seq"]) for row in rows]
