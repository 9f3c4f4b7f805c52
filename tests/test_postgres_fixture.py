"""The PostgreSQL that tests get."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.postgres import drop_database, fresh_database


async def ask(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def test_a_commit_is_answered_after_it_is_written(postgres_url):
    assert await ask(postgres_url, "show synchronous_commit") == "on"


async def test_a_database_of_its_own_is_empty(postgres_url):
    tables = "select count(*) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')"
    assert await ask(postgres_url, tables) == 0


async def test_what_one_database_holds_another_does_not_see(postgres_server, postgres_url):
    other_url = await fresh_database(postgres_server)
    await ask(other_url, "create table left_over (id int)")
    assert await ask(postgres_url, "select to_regclass('left_over')") is None
    await drop_database(other_url, postgres_server)


async def test_a_database_is_dropped_under_an_open_connection(postgres_server):
    url = await fresh_database(postgres_server)
    connection = await asyncpg.connect(url)
    await drop_database(url, postgres_server)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await connection.fetchval("select 1")
    connection.terminate()
