"""Events of one run are found by its key, however long it is and however much was written since."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from stepfast.kernel.ids import RunId
from stepfast.kernel.trail import EventFilter
from stepfast.stores.postgres import reading
from tests.stores.postgres import asking

OLDEST = RunId("01930000-0000-7000-8000-000000000001")
# Few runs with many events each: by what the server knows of them, any part of the trail has some of every run.
FILL = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, token)
select ('01930000-0000-7000-8000-' || lpad(to_hex(r), 12, '0'))::uuid, i, 'acme', 1, 'progress', 0, 0
  from generate_series(1, 20) r, generate_series(1, 2000) i
 order by r, i
"""


async def looked_through(url: str, name: str) -> int:
    """How many events a statement reads for a page of ten of the oldest run."""
    given = {"run_id": UUID(OLDEST), "after": 0, "before": 10**6, "limit": 10}
    text, names = reading._statement(name, frozenset(given))
    async with asking(url) as session:
        await session.execute(FILL)
        await session.execute("analyze stepfast.event")
        (row,) = await session.fetch(f"explain (analyze, format json) {text}", *(given[name] for name in names))
    return round(most_rows(json.loads(row[0])[0]["Plan"]))


def most_rows(node: dict[str, Any]) -> float:
    own = float(node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
    return max([own, *map(most_rows, node.get("Plans", []))])


async def test_a_page_of_a_long_run_that_is_old_reads_little_more_than_the_page(migrated_postgres_url):
    assert await looked_through(migrated_postgres_url, "find_events_of_run") < 100


async def test_the_broken_twin_that_goes_by_positions_reads_all_that_came_since(migrated_postgres_url):
    assert await looked_through(migrated_postgres_url, "find_events") > 10_000


async def test_it_is_the_newest_events_that_come_first(postgres_store, migrated_postgres_url):
    async with asking(migrated_postgres_url) as session:
        await session.execute(FILL)
    found = await postgres_store.find_events(EventFilter(run_id=OLDEST, limit=3))
    assert [event.seq for event in found] == [2000, 1999, 1998]
    after = await postgres_store.find_events(EventFilter(run_id=OLDEST, limit=2, before=found[-1].position))
    assert [event.seq for event in after] == [1997, 1996]
