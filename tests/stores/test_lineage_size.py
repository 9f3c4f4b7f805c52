"""Long chains and wide fans: a graph costs what it holds, however much else there is."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from stepfast.kernel.lineage import Direction, GraphFilter, graph_of
from stepfast.stores import assets as rows
from stepfast.stores.sqlite import assets as on_sqlite
from tests.stores.harness import Harness

DEEP, WIDE, OTHERS = 1_000, 10_000, 50_000
RUN = "01930000-0000-7000-8000-000000000001"
# Some two hundred instructions for an edge, and room; a scan of the others takes many times as much.
MOST_FOR_AN_EDGE = 1_000

NUMBERS = "with recursive counted (n) as (select 1 union all select n + 1 from counted where n < :most) "
FILL = (
    "insert into stepfast.derivation (tenant, asset_id, version, input_id, input_version, wanted_id, run_id, "
    "generation, step, attempt) "
)


async def fill(harness: Harness, most: int, target: str, source: str) -> None:
    """So many edges, whose ends are told by the number `n`."""
    text = f"{FILL}{NUMBERS}select 'acme', {target}, {source}, 'w', '{RUN}', 1, 's#1', 1 from counted"
    await harness.query(text, {"most": most})


async def others(harness: Harness) -> None:
    await fill(harness, OTHERS, "'other-' || n, 1", "'source-' || n, 1")


async def found(harness: Harness, start: str, version: int, way: Direction) -> tuple[int, int, bool]:
    """How many edges a graph has, how deep it is, and whether it was cut."""
    where = GraphFilter("acme", start, version, way, 2 * WIDE)
    graph = graph_of(where, await harness.store.lineage_edges(where), None)
    return len(graph.edges), max(edge.depth for edge in graph.edges), graph.is_cut


async def test_a_chain_of_a_thousand_is_followed_both_ways(harness):
    await fill(harness, DEEP, "'link', n + 1", "'link', n")
    assert await found(harness, "link", DEEP + 1, Direction.UPSTREAM) == (DEEP, DEEP, False)
    assert await found(harness, "link", 1, Direction.DOWNSTREAM) == (DEEP, DEEP, False)


async def test_a_fan_of_ten_thousand_is_followed_both_ways(harness):
    await fill(harness, WIDE, "'leaf-' || n, 1", "'root', 1")
    await fill(harness, WIDE, "'sum', 1", "'leaf-' || n, 1")
    assert await found(harness, "root", 1, Direction.DOWNSTREAM) == (2 * WIDE, 2, False)
    assert await found(harness, "sum", 1, Direction.UPSTREAM) == (2 * WIDE, 2, False)


async def test_a_hub_that_much_leads_to_and_from_is_passed_once(harness):
    """Else each of the ways to it would be gone on from, with all that leads away."""
    await fill(harness, WIDE, "'leaf-' || n, 1", "'hub', 1")
    await fill(harness, WIDE, "'hub', 1", "'leaf-' || n, 1")
    assert await found(harness, "hub", 1, Direction.DOWNSTREAM) == (2 * WIDE, 2, False)


@pytest.mark.parametrize("way", list(Direction))
async def test_the_work_on_sqlite_follows_the_graph_alone(sqlite_harness, way):
    await others(sqlite_harness)
    await fill(sqlite_harness, 100, "'link', n + 1", "'link', n")
    start = 101 if way is Direction.UPSTREAM else 1
    work = on_sqlite._work(rows.list_edges(GraphFilter("acme", "link", start, way, 1_000)))
    store: Any = sqlite_harness.store
    assert await store._views.run(lambda connection: effort(connection, work)) < 100 * MOST_FOR_AN_EDGE


def effort(connection: Any, work: Any) -> int:
    instructions = itertools.count()
    connection.set_progress_handler(lambda: next(instructions) < 0, 1)
    try:
        work(connection)
    finally:
        connection.set_progress_handler(None)
    return next(instructions)


@pytest.mark.parametrize("way", list(Direction))
async def test_the_work_on_postgresql_follows_the_graph_alone(postgres_harness, way):
    await others(postgres_harness)
    await fill(postgres_harness, 100, "'link', n + 1", "'link', n")
    start = 101 if way is Direction.UPSTREAM else 1
    explained = await postgres_harness.query(
        f"explain (analyze, buffers, format json) select * from stepfast.{way}('acme', 'link', {start}, 1000)", {}
    )
    (plan,) = json.loads(explained[0][0])
    # Three or four pages for each look into an index; the others fill more than a thousand.
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 100 * 2 * 5
