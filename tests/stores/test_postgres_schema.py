"""Migrations on PostgreSQL: whole or not at all, by one process at a time, and known to who opens the store."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from stepfast.kernel.errors import StoreMismatch, StoreUnavailable, StoreUnusable
from stepfast.stores.postgres import schema
from stepfast.stores.postgres.health import examine
from stepfast.stores.postgres.schema import known_migrations, migration_sql
from stepfast.stores.postgres.store import PostgresStore
from tests.stores.postgres import asking, opened
from tests.support.apps import app_on
from tests.support.following import until
from tests.support.postgres import drop_database, fresh_database
from tests.support.workflows import say

NAMES = [migration.name for migration in known_migrations()]
NEWEST = known_migrations()[-1].number


async def test_migrations_are_applied_in_order_and_once(postgres_url):
    store = PostgresStore(postgres_url)
    assert await store.migrate() == NAMES
    assert await store.migrate() == []


async def test_two_processes_that_migrate_at_once_apply_each_migration_once(postgres_url):
    applied = await asyncio.gather(*(PostgresStore(postgres_url).migrate() for _ in range(4)))
    assert sorted(name for names in applied for name in names) == NAMES


async def test_who_waits_for_another_migration_says_for_whom_and_gives_up_in_the_end(postgres_url, monkeypatch, caplog):
    monkeypatch.setattr(schema, "TELL_AFTER_MS", 10)
    async with asking(postgres_url) as frozen:
        transaction = frozen.transaction()
        await transaction.start()
        await frozen.execute(f"select pg_advisory_xact_lock({schema._TURN})")
        pid = await frozen.fetchval("select pg_backend_pid()")
        migrating = asyncio.create_task(PostgresStore(postgres_url).migrate())
        await until(lambda: _told(caplog))
        monkeypatch.setattr(schema, "GIVE_UP_AFTER_S", 0.0)
        with pytest.raises(StoreUnavailable, match=f"by somebody else .pid {pid}, user .*idle in transaction"):
            await migrating
        assert [f"pid {pid}" in record.getMessage() for record in caplog.records] == [True]
        await transaction.rollback()
    assert await PostgresStore(postgres_url).migrate() == NAMES


async def _told(caplog):
    return [record for record in caplog.records if "migration_waits" in record.getMessage()]


async def until_somebody_waits(connection: asyncpg.Connection) -> int:
    waiting = "select pid from pg_locks where not granted limit 1"
    async with asyncio.timeout(60):
        while (pid := await connection.fetchval(waiting)) is None:
            pass
    return int(pid)


async def test_a_migration_that_is_killed_leaves_nothing_behind(postgres_url):
    async with asking(postgres_url) as connection, asking(postgres_url) as watcher:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("create schema stepfast")
        migrating = asyncio.create_task(PostgresStore(postgres_url).migrate())
        await watcher.execute("select pg_terminate_backend($1)", await until_somebody_waits(watcher))
        with pytest.raises(StoreUnavailable):
            await migrating
        await transaction.rollback()
        assert await connection.fetchval("select to_regnamespace('stepfast')") is None
    assert await PostgresStore(postgres_url).migrate() == NAMES


async def test_a_migration_killed_between_two_steps_is_taken_up_there(postgres_url):
    async with asking(postgres_url) as connection:
        await connection.execute(migration_sql().partition("commit;")[0] + "commit;")
    assert await PostgresStore(postgres_url).migrate() == NAMES[1:]


async def test_the_script_for_a_person_does_what_migrate_does(postgres_url):
    async with asking(postgres_url) as connection:
        await connection.execute(migration_sql())
    assert await PostgresStore(postgres_url).migrate() == []
    async with opened(postgres_url):
        pass


async def refusal(url: str) -> str:
    with pytest.raises(StoreMismatch) as refused:
        await PostgresStore(url).open()
    return str(refused.value)


async def test_a_database_without_a_schema_asks_for_migrate(postgres_url):
    assert "stepfast migrate" in await refusal(postgres_url)


async def test_an_older_schema_asks_for_migrate(postgres_url):
    await PostgresStore(postgres_url).migrate()
    async with asking(postgres_url) as connection:
        await connection.execute("delete from stepfast.migration where number = $1", NEWEST)
    message = await refusal(postgres_url)
    assert "stepfast migrate" in message
    assert f"schema {NEWEST - 1}" in message


async def test_a_newer_schema_is_refused_naming_both(postgres_url):
    await PostgresStore(postgres_url).migrate()
    async with asking(postgres_url) as connection:
        await connection.execute("insert into stepfast.migration values ($1, 'later', 0)", NEWEST + 1)
    message = await refusal(postgres_url)
    assert f"schema {NEWEST + 1}" in message
    assert f"up to {NEWEST}" in message
    with pytest.raises(StoreMismatch):
        await PostgresStore(postgres_url).migrate()


FOREIGN = {
    "a table of the same name": ("create table stepfast.migration (id text, done boolean)", "the columns id, done"),
    "a view of the same name": ("create view stepfast.migration as select 1 as id", "the columns id"),
    "other tables": ("create table stepfast.orders (id text)", "it has 'orders', and no table 'migration'"),
}


@pytest.mark.parametrize("act", [PostgresStore.open, PostgresStore.migrate, None], ids=["open", "migrate", "doctor"])
@pytest.mark.parametrize(("made", "told"), FOREIGN.values(), ids=FOREIGN)
async def test_a_schema_of_another_program_is_left_alone_and_told_of(postgres_url, made, told, act):
    async with asking(postgres_url) as connection:
        await connection.execute(f"create schema stepfast; {made}")
        before = await connection.fetch("select relname from pg_class order by oid")
        with pytest.raises(StoreUnusable) as refused:
            await (examine(postgres_url) if act is None else act(PostgresStore(postgres_url)))
        assert await connection.fetch("select relname from pg_class order by oid") == before
    message = str(refused.value)
    assert "a schema `stepfast` that is not Stepfast's" in message
    assert told in message
    assert "name another database" in message


async def test_the_way_out_of_a_schema_of_another_program_works(postgres_url):
    async with asking(postgres_url) as connection:
        await connection.execute("create schema stepfast; create table stepfast.migration (id text)")
        await connection.execute("alter schema stepfast rename to theirs")
    assert await PostgresStore(postgres_url).migrate() == NAMES


@pytest.mark.parametrize("lost", [f"number = {NEWEST}", "true"], ids=["the newest row", "all rows"])
async def test_a_record_of_migrations_that_lost_rows_is_told_of(postgres_url, lost):
    await PostgresStore(postgres_url).migrate()
    async with asking(postgres_url) as connection:
        await connection.execute(f"delete from stepfast.migration where {lost}")
        with pytest.raises(StoreUnusable, match=r"stepfast.migration does not say so: rows of it were removed"):
            await PostgresStore(postgres_url).migrate()
        assert await connection.fetchval(f"select count(*) from stepfast.migration where {lost}") == 0


async def test_a_database_of_another_encoding_is_refused(postgres_server):
    url = await fresh_database(postgres_server)
    name = url.partition("?")[0].rpartition("/")[2]
    async with asking(postgres_server) as connection:
        await connection.execute(f"drop database {name}")
        await connection.execute(f"create database {name} encoding 'SQL_ASCII' locale 'C' template template0")
    for refused in (PostgresStore(url).open, PostgresStore(url).migrate):
        with pytest.raises(StoreUnusable, match="SQL_ASCII"):
            await refused()
    async with asking(url) as connection:
        assert not await connection.fetchval("select to_regnamespace('stepfast') is not null")
    await drop_database(url, postgres_server)


async def test_nothing_depends_on_the_search_path_of_a_session(postgres_url):
    async with opened(postgres_url) as store, asking(postgres_url) as connection:
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database {name} set search_path = pg_temp")
        again = PostgresStore(postgres_url)
        await again.open()
        assert await again.now() <= await store.now()
        await again.close()


async def test_runs_end_in_a_database_that_takes_nulls_in_arrays_for_words(migrated_postgres_url):
    async with asking(migrated_postgres_url) as connection:
        name = await connection.fetchval("select current_database()")
        await connection.execute(f"alter database {name} set array_nulls = off")
    async with app_on(migrated_postgres_url, [say]) as app:
        assert await (await app.start(say, "hello")).result(timeout="60s") == "hello"
