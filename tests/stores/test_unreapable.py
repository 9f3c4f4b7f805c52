"""Rows that upkeep can do nothing about: however many there are, they keep no other run from going on."""

from __future__ import annotations

import pytest

from tests.stores.harness import Harness
from tests.stores.postgres import NamedWorkers

MANY = 10_000
LIMIT = 1_000

FIRST = "00000000-0000-7000-8000-0000"
NUMBERS = f"""
with recursive counted (n) as (select 10000000 union all select n + 1 from counted where n < {10_000_000 + MANY - 1})
"""
TASKS = """
insert into stepfast.task (run_id, queue, tenant, code, place, state, worker_id, deadline_at, since_at)
"""


async def put_tasks_without_a_run(harness: Harness, state: str, worker: str = "null", deadline: str = "null") -> None:
    """Many tasks whose runs are gone; their ids come before all others."""
    run_id = f"'{FIRST}' || n"
    if isinstance(harness.store, NamedWorkers):
        run_id, worker = f"({run_id})::uuid", f"({worker})::uuid"
    values = f"select {run_id}, 'default', 'acme', 'order@1', 0, '{state}', {worker}, {deadline}, 0 from counted"
    await harness.sql(f"{TASKS} {NUMBERS} {values}")


async def test_runs_of_a_dead_worker_go_back_beside_ten_thousand_that_cannot(harness):
    lost = await harness.held("w1")
    await put_tasks_without_a_run(harness, "leased", worker="(select worker_id from stepfast.worker)")
    report = await harness.bury(limit=LIMIT)
    assert report.returned == [lost.run_id]


async def test_a_run_past_its_deadline_is_reported_beside_ten_thousand_that_are_no_runs(harness):
    late = await harness.start(timeout_ms=100)
    await put_tasks_without_a_run(harness, "ready", deadline="0")
    await harness.advance(100)
    assert (await harness.upkeep(limit=LIMIT)).overdue == [late.run_id]


HALF_ENDED = {
    "an outcome that was there before": """
        insert into stepfast.outcome (run_id, generation, tenant, state, seq, token, ended_at)
        values (:run_id, 1, 'acme', 'failed', 1, 1, 0)""",
    "a dead letter that was there before": """
        insert into stepfast.dead_letter
               (run_id, generation, tenant, workflow, version, error_type, message, recorded_at)
        values (:run_id, 1, 'acme', 'order', 1, 'x', 'x', 0)""",
}


@pytest.mark.parametrize("row", HALF_ENDED.values(), ids=HALF_ENDED)
async def test_a_run_that_cannot_be_failed_is_set_aside_and_the_others_go_back(harness, row):
    poison = await harness.held("w1")
    await harness.sql(row, run_id=poison.run_id)
    await harness.enrol("w2")
    others = await harness.start_many(2)
    await harness.claim(worker="w2")
    report = await harness.bury(max_crashes=1)
    assert (sorted(report.returned), report.failed) == (sorted(others), [])
    assert await harness.task(poison.run_id, "state, worker_id") == ("waiting", None)
    assert {finding.run_id for finding in await harness.store.findings()} == {poison.run_id}


async def test_a_run_that_was_set_aside_is_not_met_again(harness):
    poison = await harness.held("w1")
    await harness.sql(HALF_ENDED["an outcome that was there before"], run_id=poison.run_id)
    await harness.bury(max_crashes=1)
    report = await harness.upkeep(max_crashes=1)
    assert (report.returned, report.failed, report.overdue) == ([], [], [])
