"""Runs that break the invariant of unended runs are found, whichever of its clauses does not hold."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Pause
from stepfast.kernel.states import WaitKind
from stepfast.kernel.views import Finding
from stepfast.stores.rows import LONG_DUE_MS
from tests.stores.harness import NOON, end, park, wait


async def found(harness) -> list[tuple[str, str]]:
    return [(finding.clause, finding.run_id) for finding in await harness.store.findings()]


async def test_an_open_run_without_a_task_is_found(harness, store):
    started = await harness.start()
    await harness.sql("delete from stepfast.task where run_id = :id", id=started.run_id)
    (finding,) = await store.findings()
    assert finding[:3] == ("run_without_task", started.run_id, "acme")
    assert "generation 1" in finding.detail


async def test_a_reopened_run_without_a_task_is_found(harness):
    run = await harness.held()
    await harness.save(end(run))
    await harness.sql(
        "insert into stepfast.generation (run_id, generation, tenant, version, code, input, cause, opened_at)"
        " values (:id, 2, 'acme', 1, 'order@1', '{}', 'rerun', 0)",
        id=run.run_id,
    )
    assert await found(harness) == [("run_without_task", run.run_id)]


async def test_a_task_of_an_ended_run_is_found(harness):
    run = await harness.held()
    await harness.save(end(run))
    await harness.sql(
        "insert into stepfast.task (run_id, queue, tenant, code, place, state, since_at)"
        " values (:id, 'default', 'acme', 'order@1', 0, 'ready', 0)",
        id=run.run_id,
    )
    assert await found(harness) == [("task_of_ended_run", run.run_id)]


@pytest.mark.parametrize(
    "loss",
    ["update stepfast.worker set dead_at = :now", "delete from stepfast.worker where seen_at <= :now"],
    ids=["dead", "unknown"],
)
async def test_a_run_held_by_nobody_alive_is_found(harness, store, loss):
    run = await harness.held()
    await harness.sql(loss, now=NOON)
    assert await store.findings() == [Finding("holder_gone", run.run_id, "acme", "leased by worker w1")]


async def test_a_run_that_waits_for_nothing_is_found(harness):
    run = await harness.held()
    await harness.save(park(run, wait()))
    await harness.sql("delete from stepfast.wait where run_id = :id", id=run.run_id)
    assert await found(harness) == [("waiting_for_nothing", run.run_id)]


async def test_a_wait_that_is_long_due_is_found(harness, store):
    run = await harness.held()
    await harness.save(park(run, wait(kind=WaitKind.TIME, name="sleep", due_in_ms=1_000)))
    await harness.advance(1_000 + LONG_DUE_MS)
    assert await store.findings() == []
    await harness.advance(1)
    (finding,) = await store.findings()
    assert finding[:2] == ("wait_long_due", run.run_id)
    assert f"time sleep, due at {NOON + 1_000}" in finding.detail


async def test_a_paused_run_may_be_long_due(harness, store):
    started = await harness.start(delay_ms=1_000)
    await harness.change(started.run_id, Pause())
    await harness.advance(2_000 + LONG_DUE_MS)
    assert await store.findings() == []


async def test_no_clause_hides_another(harness, store):
    await harness.enrol()
    lost, waiting = await harness.start_many(3), await harness.start_many(3)
    await harness.sql("delete from stepfast.task where run_id <= :last", last=lost[-1])
    await harness.sql("update stepfast.task set state = :state", state="waiting")
    findings = await store.findings(limit=2)
    assert [(finding.clause, finding.run_id) for finding in findings] == [
        *[("run_without_task", run_id) for run_id in lost[:2]],
        *[("waiting_for_nothing", run_id) for run_id in waiting[:2]],
    ]
