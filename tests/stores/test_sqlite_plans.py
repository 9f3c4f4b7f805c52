"""The cost of the hot statements: it follows what is asked for, never what is stored."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import apsw
import pytest

from stepfast.kernel.exchange import Claim, QueueRoom
from stepfast.kernel.ids import WorkerId
from stepfast.stores.sqlite import claiming
from stepfast.stores.sqlite.asking import statements
from stepfast.stores.statements import numbered
from tests.stores.harness import Harness

HOT = [(file, name) for file in ("starting", "events", "claiming", "saving", "workers") for name in statements(file)]
# There are as many rows of `worker` as there are processes; `holder` has one row for each that holds a run.
# json_each goes through a list that the caller brings; few runs ever wait for other code.
SMALL = (
    "SCAN worker",
    "SCAN holder",
    "SCAN CONSTANT ROW",
    "SCAN json_each",
    "SCAN w USING COVERING INDEX wait_for_code",
)


@pytest.fixture
def harness(sqlite_harness: Harness) -> Harness:
    return sqlite_harness


def effort(connection: apsw.Connection, work: Callable[[apsw.Connection], object]) -> int:
    """How many instructions SQLite's machine takes for some work."""
    instructions = itertools.count()
    connection.set_progress_handler(lambda: next(instructions) < 0, 1)
    try:
        work(connection)
    finally:
        connection.set_progress_handler(None)
    return next(instructions)


async def effort_of_a_claim(harness: Harness) -> int:
    await harness.enrol()
    request = Claim(WorkerId("w1"), [QueueRoom("default", 1)], ["order@1"], 1)
    store: Any = harness.store
    spent: int = await store._writer.run(lambda c: effort(c, partial(claiming.claim, request=request)))
    return spent


@pytest.mark.parametrize(("file", "name"), HOT, ids=[name for _, name in HOT])
async def test_a_hot_statement_counts_through_no_table(store, file, name):
    text = statements(file)[name]
    names = numbered(text).names
    values = dict.fromkeys(names) if names else (None,) * text.count("?")
    plan = await store._writer.run(lambda c: c.execute(f"explain query plan {text}", values).fetchall())
    assert [row[3] for row in plan if row[3].startswith("SCAN") and not row[3].startswith(SMALL)] == []


async def test_a_claim_costs_the_same_however_many_runs_are_ready(harness):
    await harness.start_many(20)
    few = await effort_of_a_claim(harness)
    await harness.start_many(2_000)
    assert await effort_of_a_claim(harness) < 1.5 * few


async def test_a_claim_costs_the_same_however_many_tenants_there_are(harness):
    for number in range(3):
        await harness.start_many(2, tenant=f"t{number}")
    few = await effort_of_a_claim(harness)
    for number in range(3, 300):
        await harness.start_many(2, tenant=f"t{number}")
    assert await effort_of_a_claim(harness) < 1.5 * few


async def test_a_claim_costs_the_same_however_many_runs_need_other_code(harness):
    await harness.start_many(2, tenant="zz")
    few = await effort_of_a_claim(harness)
    for number in range(300):
        await harness.start_many(2, tenant=f"t{number}", code="unknown@1")
    assert await effort_of_a_claim(harness) < 1.5 * few


async def test_a_claim_costs_the_same_however_many_runs_wait(harness):
    await harness.start_many(3)
    few = await effort_of_a_claim(harness)
    await harness.start_many(2_000, delay_ms=1_000)
    assert await effort_of_a_claim(harness) < 1.5 * few
