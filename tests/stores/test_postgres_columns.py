"""Columns arrive at the server as they were sent, whether as one text or as arrays."""

from __future__ import annotations

import asyncpg
import pytest

from stepfast.stores.postgres.columns import Unsafe, compact, expression

COLUMNS = [
    ("text[]", ["a", "", '{x,"y"}', "ß\n"]),
    ("text[]", [""]),
    ("text[]", []),
    ("text[]", [None, "a"]),
    ("integer[]", [1, None, -2]),
    ("bigint[]", []),
    ("bigint[]", [1_760_000_000_000, 0]),
    ("boolean[]", [True, None, False]),
]


async def arrived(url: str, kind: str, column: list[object]) -> list[object]:
    connection = await asyncpg.connect(url)
    try:
        answer = await connection.fetchval(f"select {expression(1, kind)}", compact(column, kind))
    finally:
        await connection.close()
    return list(answer)


@pytest.mark.parametrize(("kind", "column"), COLUMNS)
async def test_a_column_that_travels_as_one_text_arrives_whole(postgres_url, kind, column):
    assert await arrived(postgres_url, kind, column) == column


@pytest.mark.parametrize("kind", ["text[]", "integer[]"])
async def test_a_column_of_nulls_arrives_as_an_array_that_has_none_of_them(postgres_url, kind):
    assert await arrived(postgres_url, kind, [None, None]) == []


@pytest.mark.parametrize("text", ["a\x1fb", "a\x1eb"])
def test_a_text_that_holds_a_separator_is_not_joined(text):
    with pytest.raises(Unsafe):
        compact(["x", text], "text[]")
