"""The trail under writers that are slow, roll back or hang: nothing is passed over, and nothing comes out of order."""

from __future__ import annotations

import asyncio
import random

from stepfast.kernel.trail import Doubt
from stepfast.stores.postgres.store import PostgresStore
from tests.stores.postgres import asking
from tests.stores.trails import RUN, write


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


async def test_what_a_slow_writer_holds_back_comes_before_what_was_committed_since(
    postgres_store, migrated_postgres_url
):
    reading = Reading(postgres_store)
    async with asking(migrated_postgres_url) as slow, asking(migrated_postgres_url) as quick:
        held = slow.transaction()
        await held.start()
        await write(slow, RUN[0])
        await write(quick, RUN[1])
        assert (await reading.look(), await reading.look()) == (0, 0)
        await held.commit()
        await reading.look()
    assert reading.read == [(str(RUN[0]), 1), (str(RUN[1]), 1)]


async def test_what_was_rolled_back_holds_nothing_back(postgres_store, migrated_postgres_url):
    reading = Reading(postgres_store)
    async with asking(migrated_postgres_url) as slow, asking(migrated_postgres_url) as quick:
        held = slow.transaction()
        await held.start()
        await write(slow, RUN[0])
        await write(quick, RUN[1])
        assert await reading.look() == 0
        await held.rollback()
        assert await reading.look() == 1
    assert reading.read == [(str(RUN[1]), 1)]


async def test_a_writer_that_began_later_holds_nothing_back_that_was_in_doubt(postgres_store, migrated_postgres_url):
    reading = Reading(postgres_store)
    async with (
        asking(migrated_postgres_url) as slow,
        asking(migrated_postgres_url) as quick,
        asking(migrated_postgres_url) as late,
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


async def test_a_transaction_that_writes_no_events_holds_nothing_back(postgres_store, migrated_postgres_url):
    reading = Reading(postgres_store)
    async with asking(migrated_postgres_url) as other, asking(migrated_postgres_url) as quick:
        hangs = other.transaction()
        await hangs.start()
        await other.execute("create table elsewhere (number integer)")
        await write(quick, RUN[1])
        assert await reading.look() == 1
        await hangs.rollback()


async def test_eight_writers_at_once_lose_nothing_and_mix_up_no_run(postgres_store, migrated_postgres_url):
    reading, is_over = Reading(postgres_store), asyncio.Event()

    async def follow() -> None:
        while not is_over.is_set() or await reading.look() or reading.doubt is not None:
            await reading.look()

    async def work(number: int) -> None:
        chosen = random.Random(number)
        async with asking(migrated_postgres_url) as session:
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
    async with asking(migrated_postgres_url) as session:
        rows = await session.fetch("select run_id, seq from stepfast.event order by position")
    assert reading.read == [(str(row["run_id"]), row["seq"]) for row in rows]
