"""A connection asks what types are once in a process, and never takes one database's own types for another's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from stepfast.stores.postgres import driver
from tests.stores.postgres import asking

INTROSPECTING = "typeinfo_tree"
ARRAYS = "select array[1, 2], array[true], array[1]::bigint[], array['0198aaaa-0000-7000-8000-000000000001'::uuid]"


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(driver, "_KNOWN_TYPES", {})


@asynccontextmanager
async def connected(url: str, is_own: bool = True) -> AsyncIterator[tuple[Any, list[str]]]:
    """A new connection, and all that it asks."""
    connection: Any = await driver.connect(url, 10, is_own=is_own, is_cold=True)
    asked: list[str] = []
    connection.add_query_logger(lambda record: asked.append(record.query))
    try:
        yield connection, asked
    finally:
        await connection.close()


def questions_about_types(asked: list[str]) -> int:
    return sum(INTROSPECTING in query for query in asked)


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "pooled"])
async def test_the_second_connection_asks_nothing_about_types_and_answers_the_same(postgres_url, is_own):
    async with connected(postgres_url, is_own) as (connection, asked):
        first = await connection.fetch(ARRAYS)
        assert questions_about_types(asked) == 1
    async with connected(postgres_url, is_own) as (connection, asked):
        assert await connection.fetch(ARRAYS) == first
        assert await connection.fetch(ARRAYS) == first
        assert questions_about_types(asked) == 0


async def test_a_type_of_one_database_is_asked_for_by_every_connection(postgres_url):
    async with asking(postgres_url) as connection:
        await connection.execute("create type mood as enum ('glad')")
    for _ in range(2):
        async with connected(postgres_url) as (connection, asked):
            assert list((await connection.fetch("select array['glad'::mood], array[1]"))[0]) == [["glad"], [1]]
            assert questions_about_types(asked) == 1
