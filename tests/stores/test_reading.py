"""Reading back: the state that people see, tenants, filters and pages."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Rerun
from stepfast.kernel.decisions import Decision
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.states import ENDED, RunState
from stepfast.kernel.views import Progress, RunFilter
from tests.stores.harness import NOON, decide, end, park, step, wait


async def page(harness, **where) -> list[str]:
    return [view.run_id for view in await harness.store.runs(RunFilter(**where))]


@pytest.mark.parametrize("state", sorted(ENDED))
async def test_an_ended_run_shows_how_it_ended(harness, store, state):
    run = await harness.held()
    await harness.save(end(run, state))
    view = await store.run("acme", run.run_id)
    assert (view.state, view.ended_at, view.worker_id, view.value) == (state, NOON, None, "1")


async def test_a_held_run_that_is_leased_is_still_running(harness):
    run = await harness.held()
    await harness.sql("update stepfast.task set hold = :hold", hold=1)
    assert await harness.state(run.run_id) is RunState.RUNNING


async def test_a_held_run_that_is_ready_is_paused(harness):
    started = await harness.start()
    await harness.sql("update stepfast.task set hold = :hold", hold=1)
    assert await harness.state(started.run_id) is RunState.PAUSED


async def test_a_held_run_that_waits_is_paused(harness):
    run = await harness.held()
    await harness.save(park(run, wait()))
    await harness.sql("update stepfast.task set hold = :hold", hold=1)
    assert await harness.state(run.run_id) is RunState.PAUSED


async def test_a_running_run_shows_its_holder(harness, store):
    run = await harness.held()
    view = await store.run("acme", run.run_id)
    assert (view.worker_id, view.token, view.claims, view.ended_at, view.value) == ("w1", 1, 1, None, None)


async def test_a_run_shows_what_it_was_started_with(harness, store):
    started = await harness.start(key="k", priority=3, input='{"n":5}')
    view = await store.run("acme", started.run_id)
    assert (view.key, view.priority, view.input, view.kind, view.generation) == ("k", 3, '{"n":5}', "workflow", 1)


async def test_a_run_that_does_not_exist_is_none(harness, store):
    assert await store.run(None, harness.new_run().run_id) is None


async def test_a_tenant_sees_its_own_run(harness, store):
    started = await harness.start(tenant="acme")
    assert await store.run("acme", started.run_id) is not None


async def test_a_tenant_does_not_see_a_run_of_another(harness, store):
    started = await harness.start(tenant="acme")
    assert await store.run("globex", started.run_id) is None


async def test_a_tenant_lists_its_own_runs_only(harness):
    mine = await harness.start(tenant="acme")
    await harness.start(tenant="globex")
    assert await page(harness, tenant="acme") == [mine.run_id]


async def test_without_a_tenant_all_runs_are_listed(harness):
    await harness.start(tenant="acme")
    await harness.start(tenant="globex")
    assert len(await page(harness)) == 2


async def test_a_tag_of_another_tenant_finds_nothing(harness):
    await harness.start(tenant="acme", tags=("x",))
    assert await page(harness, tenant="globex", tag="x") == []


async def test_runs_are_listed_newest_first(harness):
    ids = await harness.start_many(3)
    assert await page(harness) == ids[::-1]


async def test_pages_follow_each_other_without_gap_or_overlap(harness):
    ids = await harness.start_many(7)
    seen: list[str] = []
    while found := await page(harness, tenant="acme", limit=3, before=seen[-1] if seen else None):
        seen += found
    assert seen == ids[::-1]


@pytest.mark.parametrize(
    ("field", "value", "other"),
    [
        ("workflow", "refund", "order"),
        ("version", 2, 1),
        ("queue", "slow", "default"),
        ("actor", "ann", "bob"),
        ("correlation_id", "c1", None),
        ("subject", "s1", "s2"),
        ("thread_id", "t1", None),
    ],
)
@pytest.mark.parametrize("tenant", ["acme", None])
async def test_a_filter_lists_what_fits(harness, field, value, other, tenant):
    fitting = await harness.start(**{field: value})
    await harness.start(**{field: other})
    assert await page(harness, tenant=tenant, **{field: value}) == [fitting.run_id]


async def test_runs_are_found_by_tag(harness):
    fitting = await harness.start(tags=("red", "blue"))
    await harness.start(tags=("green",))
    assert await page(harness, tag="blue") == [fitting.run_id]


@pytest.mark.parametrize("state", [RunState.COMPLETED, RunState.PENDING, RunState.RUNNING, RunState.WAITING])
async def test_runs_are_found_by_state(harness, state):
    await harness.enrol()
    await harness.start_many(3)
    running, waiting, completed = await harness.claim()
    pending = await harness.start()
    await harness.save(park(waiting, wait()), end(completed))
    ids = {
        RunState.COMPLETED: completed.run_id,
        RunState.PENDING: pending.run_id,
        RunState.RUNNING: running.run_id,
        RunState.WAITING: waiting.run_id,
    }
    assert await page(harness, state=state) == [ids[state]]


async def test_runs_are_found_by_when_they_were_queued(harness):
    await harness.start()
    await harness.advance(10)
    later = await harness.start()
    assert await page(harness, queued_after=Instant(NOON + 5)) == [later.run_id]


async def test_runs_are_found_by_when_they_last_changed(harness):
    started = await harness.start()
    await harness.start(queue="other")
    await harness.advance(10)
    await harness.enrol()
    await harness.claim()
    assert await page(harness, updated_after=Instant(NOON + 5)) == [started.run_id]


async def test_several_filters_must_all_fit(harness):
    fitting = await harness.start(actor="ann", workflow="refund", tags=("x",))
    await harness.start(actor="ann")
    await harness.start(workflow="refund", tags=("x",))
    assert await page(harness, actor="ann", workflow="refund", tag="x") == [fitting.run_id]


async def test_steps_are_shown_in_order(harness, store):
    run = await harness.held()
    await harness.save(step(run, "a"), step(run, "b"))
    assert [(shown.seq, shown.call.name) for shown in await store.steps(run.run_id)] == [(1, "a"), (2, "b")]


async def test_a_page_of_events_begins_after_a_number(harness, store):
    run = await harness.held()
    await harness.save(step(run), step(run))
    assert [event.seq for event in await store.events(run.run_id, after=1, limit=2)] == [2, 3]


async def test_the_moment_is_the_stores(harness, store):
    await harness.advance(77)
    assert await store.now() == NOON + 77


def told(run, done: int) -> Decision:
    decision = decide(run, EventType.STEP_PROGRESS)
    decision.events = (Event(EventType.STEP_PROGRESS, NOON, data=f'{{"done": {done}, "total": 3, "note": "x"}}'),)
    return decision


async def test_a_run_shows_what_it_last_said_of_its_progress(harness, store):
    run = await harness.held()
    await harness.save(told(run, 1), told(run, 2), step(run))
    assert (await store.run("acme", run.run_id)).progress == Progress(2, 3, "x")


async def test_a_run_that_said_nothing_has_no_progress(harness, store):
    run = await harness.held()
    await harness.save(step(run))
    assert (await store.run("acme", run.run_id)).progress is None


async def test_what_an_earlier_generation_said_is_no_progress_of_this_one(harness, store):
    run = await harness.held()
    await harness.save(told(run, 1), end(run))
    await harness.change(run.run_id, Rerun())
    assert (await store.run("acme", run.run_id)).progress is None


async def test_a_progress_that_cannot_be_read_hurts_nobody(harness, store):
    run = await harness.held()
    await harness.save(told(run, 1))
    await harness.sql("update stepfast.event set data = :junk where run_id = :run_id", junk="{", run_id=run.run_id)
    assert (await store.run("acme", run.run_id)).progress is None
