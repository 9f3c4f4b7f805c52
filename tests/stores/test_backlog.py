"""What is ready, by queue and code, and how far a look for broken runs reaches: both cost the same at any depth."""

from __future__ import annotations

from stepfast.kernel.commands import Pause
from stepfast.kernel.states import WaitKind
from stepfast.kernel.views import Backlog, LineView
from stepfast.stores import rows
from stepfast.stores.rows import LONG_DUE_MS
from tests.stores.harness import end, park, wait


async def test_a_backlog_is_counted_by_queue_and_code(harness, store):
    await harness.start_many(3, queue="slow")
    await harness.start_many(2, queue="slow", code="bill@2")
    await harness.start_many(1, queue="fast")
    lines = [LineView("fast", "order@1", 1), LineView("slow", "bill@2", 2), LineView("slow", "order@1", 3)]
    assert await store.backlog() == Backlog(lines, 0, True)


async def test_a_backlog_is_counted_up_to_a_limit(harness, store):
    await harness.start_many(5)
    assert await store.backlog(limit=3) == Backlog([LineView("default", "order@1", 3)], 0, True)


async def test_a_backlog_holds_neither_the_paused_nor_those_that_wait_or_are_held(harness, store):
    await harness.held()
    paused = await harness.start()
    await harness.change(paused.run_id, Pause())
    await harness.start(delay_ms=1_000)
    assert await store.backlog() == Backlog([], 0, True)


async def test_suspects_are_counted_apart(harness, store):
    await harness.held()
    await harness.bury()
    await harness.start()
    assert await store.backlog() == Backlog([LineView("default", "order@1", 1)], 1, True)


async def test_a_store_without_open_runs_has_no_backlog(harness, store):
    await harness.save(end(await harness.held()))
    assert await store.backlog() == Backlog([], 0, False)


async def test_a_wait_that_is_long_due_is_found_also_when_nobody_would_take_its_run_up(harness, store):
    run = await harness.held()
    await harness.save(park(run, wait(kind=WaitKind.TIME, name="sleep", due_in_ms=1_000)))
    await harness.sql("update stepfast.task set due_at = null where run_id = :id", id=run.run_id)
    await harness.advance(1_001 + LONG_DUE_MS)
    assert [finding[:2] for finding in await store.findings()] == [("wait_forgotten", run.run_id)]


async def test_the_newest_runs_are_looked_at_and_the_answer_says_that_there_are_more(harness, store, monkeypatch):
    monkeypatch.setattr(rows, "REACH", 2)
    _, *newest = await harness.start_many(3)
    await harness.sql("delete from stepfast.task where run_id <= :last", last=newest[-1])
    findings = await store.findings()
    assert [finding.run_id for finding in findings] == newest
    assert not findings.is_whole


async def test_an_answer_about_all_runs_says_so(harness, store):
    await harness.start_many(3)
    assert (await store.findings()).is_whole
