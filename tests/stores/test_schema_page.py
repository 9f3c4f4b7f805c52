"""The page of the schema names what a database really has, on each store."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from tests.support.apps import migrated
from tests.support.sql import fetch
from tools.generate_docs import POSTGRES_ALONE, schema_page

SQLITE_ALONE = {"run_moved", "spent"}
SQLITE_COLUMNS = """
select m.name, c.name from sqlite_schema m, pragma_table_info(m.name) c
 where m.type in ('table', 'view') and m.name not like 'sqlite_%'
 order by c.cid
"""
POSTGRES_COLUMNS = """
select table_name, column_name from information_schema.columns where table_schema = 'stepfast' order by ordinal_position
"""


def documented() -> list[tuple[str, str]]:
    sections = re.split(r"^## ", schema_page(), flags=re.MULTILINE)[1:]
    named = [(section.split("\n", 1)[0], re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) for section in sections]
    return [(table, column) for table, columns in named for column in columns]


async def test_the_page_has_every_column_of_the_database_and_no_other(database):
    await migrated(database)
    is_sqlite = database.startswith("sqlite")
    absent = POSTGRES_ALONE.keys() if is_sqlite else SQLITE_ALONE
    rows = await fetch(database, SQLITE_COLUMNS if is_sqlite else POSTGRES_COLUMNS)
    assert in_order(map(tuple, rows)) == in_order(row for row in documented() if row[0] not in absent)


def in_order(rows: Iterable[tuple[str, ...]]) -> dict[str, list[str]]:
    """The columns of each table as they stand in it."""
    columns: defaultdict[str, list[str]] = defaultdict(list)
    for table, column in rows:
        columns[table].append(column)
    return columns
