"""`stepfast migrate --grant`: letting roles in that do not own the schema."""

from __future__ import annotations

import asyncpg

from tests.cli.invoking import invoke
from tests.support.roles import role

MAY = "select has_table_privilege($1, 'stepfast.event', 'insert'), has_table_privilege($1, 'stepfast.event', 'select')"


async def may(database: str, name: str) -> tuple[bool, bool]:
    """Whether a role may add events, and read them."""
    connection = await asyncpg.connect(database)
    try:
        adds, reads = await connection.fetchrow(MAY, name)
        return adds, reads
    finally:
        await connection.close()


async def test_roles_are_let_in_with_the_schema(postgres_url):
    async with role(postgres_url) as (engine, _), role(postgres_url) as (reader, _):
        done = await invoke("migrate", "--database", postgres_url, "--grant", engine, "--grant-reader", reader)
        assert (done.code, f"Role '{engine}' may run engines." in done.out) == (0, True)
        assert await may(postgres_url, engine) == (True, True)
        assert await may(postgres_url, reader) == (False, True)


async def test_the_script_for_a_person_lets_them_in_too(postgres_url):
    async with role(postgres_url) as (engine, _):
        done = await invoke("migrate", "--database", postgres_url, "--sql", "--grant", engine)
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(done.out)
        await connection.close()
        assert await may(postgres_url, engine) == (True, True)


async def test_what_was_let_in_is_said_in_json(postgres_url):
    async with role(postgres_url) as (engine, _):
        done = await invoke("migrate", "--database", postgres_url, "--grant", engine, "-o", "json")
        assert done.json["granted"] == [engine]


async def test_a_role_that_is_not_there_is_told_of(postgres_url):
    done = await invoke("migrate", "--database", postgres_url, "--grant", "absent")
    assert (done.code, "E-VAL-001" in done.err, '"absent" does not exist' in done.err) == (2, True, True)


async def test_a_role_is_an_engine_or_a_reader(postgres_url):
    done = await invoke("migrate", "--database", postgres_url, "--grant", "one", "--grant-reader", "one")
    assert (done.code, "An engine may read" in done.err) == (2, True)


async def test_a_file_has_no_roles_and_is_not_made(tmp_path):
    done = await invoke("migrate", "--database", f"sqlite:///{tmp_path}/app.db", "--grant", "one")
    assert (done.code, "no roles" in done.err, (tmp_path / "app.db").exists()) == (2, True, False)
