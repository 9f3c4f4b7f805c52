"""The transformations that a run has used are found by an index, however large the family is that it belongs to."""

from __future__ import annotations

from typing import Any

from stepfast.kernel.states import WaitKind
from stepfast.stores.lives import TRANSFORMATIONS
from stepfast.stores.statements import narrowed, shared_statements
from tests.stores.harness import Harness, decide, joins, wait

RELATIVES = 3_000
MARK = '{"transformation": {"name": "docs.shorten", "version": 1}}'


async def used_among_many(harness: Harness) -> tuple[str, list[str]]:
    """A run and the transformation that it has used, in a family of many."""
    parent = await harness.held()
    await harness.start_many(RELATIVES, kind="step", metadata=MARK, correlation_id=parent.run_id)
    used = harness.new_run(joins=joins(parent), kind="step", metadata=MARK, correlation_id=parent.run_id)
    await harness.save(decide(parent, opened=(wait(1, WaitKind.CHILDREN, need=1),), children=[used]))
    return parent.run_id, [used.run_id]


async def test_only_those_of_the_run_itself_are_read(harness):
    run_id, used = await used_among_many(harness)
    assert [run.run_id for run in await harness.store.transformations(run_id)] == used


async def explained(harness: Harness, words: str, run_id: str) -> str:
    statement = narrowed(shared_statements()["list_children"], TRANSFORMATIONS)
    found: list[tuple[Any, ...]] = await harness.sql(
        f"{words} {statement}", run_id=run_id, limit=100, **TRANSFORMATIONS
    )
    return "\n".join(str(row) for row in found)


async def test_sqlite_finds_them_by_the_index_of_parents(sqlite_harness):
    run_id, _ = await used_among_many(sqlite_harness)
    assert "run_by_parent" in await explained(sqlite_harness, "explain query plan", run_id)


async def test_postgresql_finds_them_by_the_index_of_parents(postgres_harness):
    run_id, _ = await used_among_many(postgres_harness)
    await postgres_harness.sql("analyze stepfast.run")
    assert "run_by_parent" in await explained(postgres_harness, "explain", run_id)
