"""Roles on PostgreSQL: an engine that does not own the schema cannot change the trail.

That it can do all its work is what `test_conformance.py` shows, where the store is opened by such a role.
"""

from __future__ import annotations

import asyncpg
import pytest

from stepfast.kernel.errors import Invalid, StoreMismatch, StoreUnusable
from stepfast.stores.grants import Grant, RoleKind
from stepfast.stores.postgres.rights import grant_sql
from stepfast.stores.postgres.schema import known_migrations
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.urls import grant
from tests.stores.postgres import asking
from tests.support.roles import as_role, granted, role, role_of

NEWEST = known_migrations()[-1].number


@pytest.fixture
async def engine_url(migrated_postgres_url):
    """The database as an engine that does not own it connects to it."""
    async with granted(migrated_postgres_url, RoleKind.ENGINE) as url:
        yield url


@pytest.fixture
async def reader_url(migrated_postgres_url):
    async with granted(migrated_postgres_url, RoleKind.READER) as url:
        yield url


PROTECTED = ("event", "seal", "leaf", "pruned")
FORGERIES = {
    "update": "update stepfast.{table} set {column} = {column}",
    "delete": "delete from stepfast.{table}",
    "truncate": "truncate stepfast.{table}",
    "disable triggers": "alter table stepfast.{table} disable trigger all",
    "drop": "drop table stepfast.{table}",
    "make a rule": "create rule quiet as on insert to stepfast.{table} do instead nothing",
    "make a trigger": "create trigger quiet after insert on stepfast.{table} execute function stepfast.leave_outside()",
    "take it": "alter table stepfast.{table} owner to current_user",
    "add a column": "alter table stepfast.{table} add column more text",
    "replicate": "set session_replication_role = 'replica'",
}
COLUMNS = {"event": "actor", "seal": "root", "leaf": "digest", "pruned": "last_seq"}


async def forgeries_of(url: str, table: str) -> list[str]:
    """What a role can do to a table of the trail, each tried and taken back."""
    done = []
    async with asking(url) as connection:
        for name, statement in FORGERIES.items():
            transaction = connection.transaction()
            await transaction.start()
            try:
                await connection.execute(statement.format(table=table, column=COLUMNS[table]))
                done.append(name)
            except asyncpg.InsufficientPrivilegeError:
                pass
            except asyncpg.RestrictViolationError:
                # The guard in the table speaks up when the right was there.
                done.append(name)
            finally:
                await transaction.rollback()
    return done


@pytest.mark.parametrize("table", PROTECTED)
async def test_an_engine_cannot_change_what_has_happened(engine_url, table):
    assert await forgeries_of(engine_url, table) == []


@pytest.mark.parametrize("table", PROTECTED)
async def test_the_broken_twin_that_was_granted_too_much_is_seen(migrated_postgres_url, engine_url, table):
    async with asking(migrated_postgres_url) as connection:
        await connection.execute(f"grant all on all tables in schema stepfast to {role_of(engine_url)}")
    assert {"update", "delete", "truncate"} <= {*await forgeries_of(engine_url, table)}


async def test_granting_again_takes_back_what_was_granted_too_much(migrated_postgres_url, engine_url):
    async with asking(migrated_postgres_url) as connection:
        await connection.execute(f"grant all on all tables in schema stepfast to {role_of(engine_url)}")
    await grant(migrated_postgres_url, [Grant(role_of(engine_url), RoleKind.ENGINE)])
    assert await forgeries_of(engine_url, "event") == []


OTHERS = {
    "let others in": "insert into stepfast.grantee values ('postgres', 'engine')",
    "forget a migration": "delete from stepfast.migration",
    "turn positions back": "select setval('stepfast.event_position', 1)",
    "replace a function": "create or replace function stepfast.now_ms() returns bigint language sql as 'select 1'",
    "make a table": "create table stepfast.more (n integer)",
    "grant itself": "grant update on stepfast.event to current_user; update stepfast.event set actor = null",
}


@pytest.mark.parametrize("statement", OTHERS.values(), ids=OTHERS)
async def test_an_engine_changes_neither_schema_nor_rights(engine_url, statement):
    async with asking(engine_url) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)


WRITES = "select table_name, privilege_type from information_schema.role_table_grants where grantee = $1"


async def test_a_reader_may_select_and_nothing_else(reader_url):
    async with asking(reader_url) as connection:
        rights = await connection.fetch(WRITES, role_of(reader_url))
        assert {right for _, right in rights} == {"SELECT"}
        assert {table for table, _ in rights} >= {*PROTECTED, "run", "run_state"}


DEFINER = """
select p.proname
  from pg_proc p
 where p.pronamespace = 'stepfast'::regnamespace
   and p.prosecdef
   and has_function_privilege($1, p.oid, 'execute')
"""


async def test_a_reader_may_call_nothing_that_acts_with_the_rights_of_the_owner(migrated_postgres_url, reader_url):
    async with asking(migrated_postgres_url) as connection:
        await connection.execute(
            "create function stepfast.acts() returns void language sql security definer as 'select null'"
        )
        await grant(migrated_postgres_url, [Grant(role_of(reader_url), RoleKind.READER)])
        assert await connection.fetch(DEFINER, role_of(reader_url)) == []


async def test_a_stranger_is_told_who_can_let_it_in(migrated_postgres_url):
    async with role(migrated_postgres_url) as (_, url):
        with pytest.raises(StoreUnusable, match="stepfast migrate --grant"):
            await PostgresStore(url).open()


async def test_what_a_later_migration_makes_is_for_who_was_let_in_before(migrated_postgres_url, engine_url):
    later = known_migrations()[-1]._replace(number=NEWEST + 1, script="create table stepfast.later (n integer);")
    async with asking(migrated_postgres_url) as connection:
        await connection.execute(later.transaction)
    async with asking(engine_url) as connection:
        await connection.execute("insert into stepfast.later values (1)")


async def test_a_role_that_was_dropped_keeps_no_migration_from_being_made(migrated_postgres_url):
    async with granted(migrated_postgres_url, RoleKind.ENGINE):
        pass
    later = known_migrations()[-1]._replace(number=NEWEST + 1, script="create table stepfast.later (n integer);")
    async with asking(migrated_postgres_url) as connection:
        await connection.execute(later.transaction)


async def test_a_role_that_does_not_own_the_schema_finds_it_up_to_date(engine_url):
    assert await PostgresStore(engine_url).migrate() == []


@pytest.mark.parametrize("act", ["open", "migrate"])
async def test_a_schema_that_is_too_old_is_left_to_its_owner(migrated_postgres_url, engine_url, act):
    async with asking(migrated_postgres_url) as connection:
        await connection.execute("delete from stepfast.migration where number = $1", NEWEST)
    with pytest.raises(StoreMismatch, match="let the owner run `stepfast migrate`"):
        await getattr(PostgresStore(engine_url), act)()


async def refusal(url: str, name: str) -> str:
    with pytest.raises(Invalid) as refused:
        await grant(url, [Grant(name, RoleKind.ENGINE)])
    return str(refused.value)


async def test_a_role_that_is_not_there_is_named(migrated_postgres_url):
    assert 'Role "nobody; drop table" does not exist' in await refusal(migrated_postgres_url, "nobody; drop table")


async def test_the_owner_itself_is_no_role_to_let_in(migrated_postgres_url):
    async with asking(migrated_postgres_url) as connection:
        owner = await connection.fetchval("select current_user::text")
    assert "owns the schema" in await refusal(migrated_postgres_url, owner)


async def test_a_role_that_can_change_events_by_another_is_refused(migrated_postgres_url):
    async with role(migrated_postgres_url) as (name, _), role(migrated_postgres_url) as (other, _):
        async with asking(migrated_postgres_url) as connection:
            await connection.execute(f"grant update on stepfast.event to {other}; grant {other} to {name}")
        assert "End that membership" in await refusal(migrated_postgres_url, name)


@pytest.mark.parametrize("name", ["with 'quotes' and \"these\"", "back\\slash", "Grüße 漢字", "x;select 1"])
async def test_a_role_may_have_any_name(migrated_postgres_url, name):
    quoted = '"' + name.replace('"', '""') + '"'
    async with asking(migrated_postgres_url) as connection:
        await connection.execute(f"create role {quoted}")
        try:
            await connection.execute(grant_sql([Grant(name, RoleKind.ENGINE)]))
            assert await connection.fetchval("select has_table_privilege($1, 'stepfast.event', 'insert')", name)
        finally:
            await connection.execute(f"drop owned by {quoted}; drop role {quoted}")


async def test_a_role_is_let_in_or_none_is(migrated_postgres_url):
    async with role(migrated_postgres_url) as (name, url):
        with pytest.raises(Invalid):
            await grant(migrated_postgres_url, [Grant(name, RoleKind.ENGINE), Grant("nobody", RoleKind.READER)])
        with pytest.raises(StoreUnusable):
            await PostgresStore(as_role(url, name)).open()


async def test_a_file_has_no_roles():
    with pytest.raises(Invalid, match="SQLite file has no roles"):
        await grant("sqlite:///shop.db", [Grant("engine", RoleKind.ENGINE)])


async def test_a_reader_that_tries_to_write_is_not_told_to_be_let_in(reader_url):
    store = PostgresStore(reader_url)
    await store.open()
    try:
        with pytest.raises(StoreUnusable, match="changes nothing") as refused:
            await store.take_sink("mine", "me", 1_000, True)
    finally:
        await store.close()
    assert "--grant ROLE" not in str(refused.value)


async def test_a_role_that_may_make_no_schema_is_told_who_must_do_what(postgres_url):
    async with asking(postgres_url) as connection, role(postgres_url) as (name, url):
        owner = await connection.fetchval("select current_user")
        with pytest.raises(StoreUnusable) as refused:
            await PostgresStore(url).migrate()
    message = str(refused.value)
    assert f"has no schema `stepfast` yet, and the role '{name}' of the database URL may not create one" in message
    assert f"Let '{owner}', who owns the database, or a superuser run `stepfast migrate --grant {name}`" in message
    assert "--grant-reader" not in message


async def test_both_ways_out_work_for_a_role_that_may_make_no_schema(postgres_url):
    async with role(postgres_url) as (name, url):
        async with asking(postgres_url) as connection:
            await connection.execute(f'create schema stepfast authorization "{name}"')
        assert await PostgresStore(url).migrate() == [migration.name for migration in known_migrations()]
        async with asking(postgres_url) as connection:
            await connection.execute("drop schema stepfast cascade")
        await PostgresStore(postgres_url).migrate()
        await PostgresStore(postgres_url).grant([Grant(name, RoleKind.ENGINE)])
        store = PostgresStore(url)
        await store.open()
        await store.close()


async def test_a_role_that_does_not_own_an_empty_schema_leaves_it_to_the_owner(postgres_url):
    async with role(postgres_url) as (_, url):
        async with asking(postgres_url) as connection:
            await connection.execute("create schema stepfast")
        with pytest.raises(StoreMismatch, match="let the owner run `stepfast migrate`"):
            await PostgresStore(url).migrate()
