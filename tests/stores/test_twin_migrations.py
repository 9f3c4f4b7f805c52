"""A migration that is killed at any of its statements leaves nothing of itself, and the next does it whole."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from stepfast.kernel.errors import StepfastError, StoreUnusable
from stepfast.stores.postgres import schema
from stepfast.stores.postgres.schema import Migration, known_migrations
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.sqlite import migrate
from stepfast.stores.sqlite.store import SqliteStore
from tests.stores.harness import NOON
from tests.stores.postgres import asking
from tests.stores.test_postgres_schema import NAMES
from tests.support.migration_victim import between_statements

ROOT = Path(__file__).parents[2]

DEATH = """
create sequence public.statement;
create table public.fatal (number integer not null);
insert into public.fatal values (0);
create function public.count_down() returns void language plpgsql as $$
begin
    if nextval('public.statement') = (select f.number from public.fatal f) then
        perform pg_terminate_backend(pg_backend_pid());
    end if;
end
$$;
"""
SCHEMA = """
select 'table ' || c.relname
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'stepfast'
 union all
select 'function ' || p.proname || ' ' || md5(p.prosrc)
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'stepfast'
 order by 1
"""
APPLIED = "select coalesce(max(number), 0) from stepfast.migration"


def deaths_on_sqlite(path: Path, is_broken: bool) -> Any:
    command = [sys.executable, "-m", "tests.support.migration_victim", str(path), "yes" if is_broken else "no"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def test_a_migration_of_a_file_killed_at_any_statement_leaves_nothing(tmp_path):
    deaths = deaths_on_sqlite(tmp_path / "app.db", is_broken=False)
    # Each is there whole or not at all: nothing, the first alone, and so on.
    halfway = set(deaths["left"]) - {deaths["whole"]}
    assert (deaths["code"], len(halfway)) == (0, len(migrate.known_migrations()))
    assert len(deaths["left"]) > migrate.known_migrations()[0].script.count("\ncreate ")


def test_the_broken_twin_that_commits_each_statement_leaves_half_a_schema(tmp_path):
    deaths = deaths_on_sqlite(tmp_path / "app.db", is_broken=True)
    # The next process cannot go on from there.
    assert (deaths["code"], len(set(deaths["left"])) > 1) == (1, True)


class Mortal:
    """Migrations on PostgreSQL whose connection dies at a statement; knows what each of them makes when it is whole."""

    def __init__(self, url: str, connection: asyncpg.Connection) -> None:
        self._url = url
        self._connection = connection
        self._whole: dict[int, list[str]] = {}

    async def learn(self) -> None:
        """Migrate once undisturbed, one after the other, and begin again without a schema."""
        await self._connection.execute(DEATH)
        self._whole[0] = []
        async with asking(self._url) as migrating:
            while await schema._apply_next(migrating, "here"):
                self._whole[await self._applied()] = await self._schema()
        await self._connection.execute("drop schema stepfast cascade")

    async def first_half(self) -> str | None:
        """Die at the first statement of a migration, then at the second, and so on; what a death left half done."""
        applied, number = 0, 1
        while applied < len(known_migrations()):
            await self._connection.execute("select setval('public.statement', 1, false)")
            await self._connection.execute("update public.fatal set number = $1", number)
            try:
                await PostgresStore(self._url).migrate()
            except StepfastError as error:
                reason = str(error)
            if await self._schema() != self._whole[await self._applied()]:
                return f"statement {number} behind migration {applied}: {reason}"
            number = number + 1 if await self._applied() == applied else 1
            applied = await self._applied()
        return None

    async def _applied(self) -> int:
        if await self._connection.fetchval("select to_regclass('stepfast.migration')") is None:
            return 0
        return int(await self._connection.fetchval(APPLIED))

    async def _schema(self) -> list[str]:
        return [name for (name,) in await self._connection.fetch(SCHEMA)]


@asynccontextmanager
async def mortal(url: str, monkeypatch: pytest.MonkeyPatch, text: str) -> AsyncIterator[Mortal]:
    """Migrations that do something before each of their statements."""
    whole: Any = Migration.transaction
    async with asking(url) as connection:
        found = Mortal(url, connection)
        await found.learn()
        monkeypatch.setattr(Migration, "transaction", property(lambda step: between_statements(whole.fget(step), text)))
        yield found


@pytest.mark.timeout(120)
async def test_a_migration_of_a_database_killed_at_any_statement_leaves_nothing(postgres_url, monkeypatch):
    async with mortal(postgres_url, monkeypatch, "select public.count_down();") as migrations:
        assert await migrations.first_half() is None


async def test_the_broken_twin_that_commits_each_statement_leaves_half_a_migration(postgres_url, monkeypatch):
    async with mortal(postgres_url, monkeypatch, "select public.count_down(); commit; begin;") as migrations:
        assert await migrations.first_half() is not None


async def migrations_at_once(url: str) -> list[str]:
    """What four processes apply that all come to the same place before one of them may go on."""
    async with asking(url) as holding, asking(url) as watcher:
        transaction = holding.transaction()
        await transaction.start()
        await holding.execute("create schema stepfast")
        migrating = [asyncio.create_task(PostgresStore(url).migrate()) for _ in range(4)]
        async with asyncio.timeout(60):
            while await watcher.fetchval("select count(distinct pid) from pg_locks where not granted") < len(migrating):
                pass
        await transaction.rollback()
        return sorted(name for names in await asyncio.gather(*migrating) for name in names)


async def test_of_four_processes_that_migrate_at_once_each_migration_is_applied_by_one(postgres_url):
    assert await migrations_at_once(postgres_url) == NAMES


async def test_the_broken_twin_without_turns_runs_into_the_others(postgres_url, monkeypatch):
    apply: Any = schema._apply_next

    class Turnless:
        """A connection on which nobody waits for a turn."""

        def __init__(self, connection) -> None:
            self._connection = connection

        async def execute(self, text, **options):
            turn = f"select pg_advisory_xact_lock({schema._TURN});"
            return await self._connection.execute(text.replace(turn, "select 1;"), **options)

        def __getattr__(self, name):
            return getattr(self._connection, name)

    monkeypatch.setattr(schema, "_apply_next", lambda connection, where: apply(Turnless(connection), where))
    with pytest.raises(StepfastError):
        await migrations_at_once(postgres_url)


async def opened_twice(path: Path) -> None:
    """Two processes that find a file without a schema, one after the other."""
    for _ in range(2):
        store = SqliteStore(path, lambda: NOON)
        await store.open()
        await store.close()


async def test_who_comes_second_to_a_file_finds_it_migrated(tmp_path):
    await opened_twice(tmp_path / "app.db")


async def test_the_broken_twin_that_looked_before_its_turn_migrates_again(tmp_path, monkeypatch):
    monkeypatch.setattr(migrate, "schema_number", lambda connection, path: 0)
    with pytest.raises(StoreUnusable, match="already exists"):
        await opened_twice(tmp_path / "app.db")
