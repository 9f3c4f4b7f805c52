"""A new sink begins where nothing can come any more below, whoever is writing at that moment."""

from __future__ import annotations

import pytest

from stepfast.stores.grants import RoleKind
from stepfast.stores.postgres.store import PostgresStore
from tests.stores.postgres import asking
from tests.stores.trails import RUN, write
from tests.support.guards import rewrite
from tests.support.roles import granted

RECENT = "insert into stepfast.event (run_id, seq, tenant, generation, type, at, token) "
RECENT += "values ($1, 1, 'default', 1, 'progress', stepfast.now_ms(), 0) returning position"


async def first_heard(store: PostgresStore, url: str) -> list[str]:
    """The runs that a sink hears of which is new while one of two writers has not committed yet."""
    async with asking(url) as slow, asking(url) as quick:
        await write(quick, RUN[0])
        held = slow.transaction()
        await held.start()
        await slow.fetchval(RECENT, RUN[1])
        await quick.fetchval(RECENT, RUN[2])
        taken = await store.take_sink("new", "me", 60_000, False)
        assert taken is not None
        await held.commit()
    return [event.run_id for event in (await store.trail(taken.cursor, 100)).events]


async def test_a_new_sink_hears_of_what_a_slower_writer_commits_below_the_newest(postgres_store, migrated_postgres_url):
    assert await first_heard(postgres_store, migrated_postgres_url) == [str(RUN[1]), str(RUN[2])]


async def test_the_broken_twin_that_begins_at_the_highest_position_misses_it(postgres_store, migrated_postgres_url):
    await rewrite(migrated_postgres_url, "stable_position", ("if span is null then", "if true then"))
    assert await first_heard(postgres_store, migrated_postgres_url) == []


async def begun_at(store: PostgresStore) -> int:
    taken = await store.take_sink("new", "me", 60_000, False)
    assert taken is not None
    return taken.cursor


async def test_a_new_sink_hears_of_a_writer_whose_position_is_the_newest(postgres_store, migrated_postgres_url):
    async with asking(migrated_postgres_url) as slow:
        held = slow.transaction()
        await held.start()
        position = await slow.fetchval(RECENT, RUN[0])
        assert await begun_at(postgres_store) < position
        await held.commit()


async def test_what_was_rolled_back_does_not_take_a_new_sink_back(postgres_store, migrated_postgres_url):
    async with asking(migrated_postgres_url) as session:
        await session.fetchval(RECENT, RUN[0])
        undone = session.transaction()
        await undone.start()
        await session.fetchval(RECENT, RUN[1])
        await undone.rollback()
        last = await session.fetchval(RECENT, RUN[2])
    assert await begun_at(postgres_store) == last


async def test_what_was_rolled_back_long_ago_does_not_matter_while_others_write(postgres_store, migrated_postgres_url):
    async with asking(migrated_postgres_url) as slow, asking(migrated_postgres_url) as quick:
        undone = quick.transaction()
        await undone.start()
        await write(quick, RUN[0])
        await undone.rollback()
        old = await write(quick, RUN[1])
        held = slow.transaction()
        await held.start()
        await slow.fetchval(RECENT, RUN[2])
        assert await begun_at(postgres_store) == old
        await held.rollback()


async def test_a_role_that_may_not_see_when_others_began_hears_of_them_too(migrated_postgres_url):
    async with granted(migrated_postgres_url, RoleKind.ENGINE) as url, asking(migrated_postgres_url) as slow:
        held = slow.transaction()
        await held.start()
        position = await slow.fetchval(RECENT, RUN[0])
        async with asking(migrated_postgres_url) as quick:
            await quick.fetchval(RECENT, RUN[1])
        store = PostgresStore(url)
        await store.open()
        assert await begun_at(store) < position
        await store.close()
        await held.rollback()


@pytest.mark.parametrize("from_start", [True, False])
async def test_in_an_empty_trail_a_new_sink_begins_at_its_beginning(postgres_store, from_start):
    taken = await postgres_store.take_sink("new", "me", 60_000, from_start)
    assert taken is not None
    assert taken.cursor == 0
