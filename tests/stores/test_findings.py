"""What shows the health of a store: its queues, and the runs that break the invariant of unended runs."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Pause
from stepfast.kernel.states import WaitKind
from stepfast.kernel.views import Finding, QueueView
from stepfast.stores.rows import LONG_DUE_MS
from tests.stores.harness import NOON, end, fail, hand_back, park, wait


async def found(harness) -> list[tuple[str, str]]:
    return [(finding.clause, finding.run_id) for finding in await harness.store.findings()]


async def test_a_queue_is_counted_by_what_its_runs_do(harness, store):
    await harness.enrol()
    await harness.start_many(6)
    first, *_ = await harness.claim(room=3)
    await harness.save(park(first, wait()))
    assert await store.queues() == [QueueView("default", 3, 2, 1, 0, 0, NOON)]


async def test_paused_runs_are_counted_apart_once_nobody_holds_them(harness, store):
    run = await harness.held()
    started = await harness.start()
    for run_id in (run.run_id, started.run_id):
        await harness.change(run_id, Pause())
    assert await store.queues() == [QueueView("default", 0, 1, 0, 1, 0, None)]


async def test_suspects_are_counted_apart_from_the_ready(harness, store):
    await harness.held()
    await harness.bury()
    await harness.start()
    assert await store.queues() == [QueueView("default", 1, 0, 0, 0, 1, harness.now)]


async def test_a_queue_tells_since_when_the_first_of_its_ready_runs_is_so(harness, store):
    run = await harness.held()
    await harness.advance(5)
    await harness.start()
    await harness.advance(5)
    await harness.save(hand_back(run))
    (queue,) = await store.queues()
    assert (queue.ready, queue.oldest_at) == (2, NOON + 5)


async def test_queues_are_listed_by_name_and_only_while_they_have_open_runs(harness, store):
    for queue in ("slow", "fast"):
        await harness.start(queue=queue)
    run = await harness.held()
    await harness.save(end(run))
    assert [queue.queue for queue in await store.queues()] == ["fast", "slow"]


async def test_a_store_in_order_has_no_findings(harness, store):
    run = await harness.held()
    await harness.save(park(run, wait()))
    failed = await harness.held("w2")
    await harness.save(fail(failed))
    held = await harness.held("w3")
    paused = await harness.start(delay_ms=500)
    for run_id in (held.run_id, paused.run_id):
        await harness.change(run_id, Pause())
    assert await store.findings() == []


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
