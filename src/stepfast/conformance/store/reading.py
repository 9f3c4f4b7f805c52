"""Reading back: the state that people see, tenants, filters and pages."""

from __future__ import annotations

from typing import Any

from stepfast.conformance.store.acts import NOON, decide, end, park, step, wait, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Pause, Rerun
from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import ENDED, RunState
from stepfast.kernel.views import Progress, RunFilter

FITTING: dict[str, tuple[str, Any, Any]] = {
    "workflow": ("workflow", "refund", "order"),
    "version": ("version", 2, 1),
    "queue": ("queue", "slow", "default"),
    "actor": ("actor", "ann", "bob"),
    "correlation_id": ("correlation_id", "c1", None),
    "subject": ("subject", "s1", "s2"),
    "thread_id": ("thread_id", "t1", None),
}
LISTED = (RunState.COMPLETED, RunState.PENDING, RunState.RUNNING, RunState.WAITING)


async def page(harness: Harness, **where: Any) -> list[RunId]:
    return [view.run_id for view in await harness.store.runs(RunFilter(**where))]


def told(run: HeldRun, done: int) -> Decision:
    said = f'{{"done": {done}, "total": 3, "note": "x"}}'
    return decide(run, events=(Event(EventType.STEP_PROGRESS, NOON, data=said),))


@on_fresh_stores
class ReadingSuite(StoreSuite):
    """People see what is stored, and a tenant what is its own."""

    @cases(state={str(state): state for state in sorted(ENDED)})
    async def test_an_ended_run_shows_how_it_ended(self, harness: Harness, state: RunState) -> None:
        run = await harness.held()
        await harness.save(end(run, state))
        view = await harness.view(run.run_id)
        assert (view.state, view.ended_at, view.worker_id, view.value) == (state, NOON, None, "1")

    async def test_a_held_run_that_is_leased_is_still_running(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        assert await harness.state(run.run_id) is RunState.RUNNING

    async def test_a_held_run_that_is_ready_is_paused(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.change(started.run_id, Pause())
        assert await harness.state(started.run_id) is RunState.PAUSED

    async def test_a_held_run_that_waits_is_paused(self, harness: Harness) -> None:
        run = await harness.parked()
        await harness.change(run.run_id, Pause())
        assert await harness.state(run.run_id) is RunState.PAUSED

    async def test_a_running_run_shows_its_holder(self, harness: Harness) -> None:
        run = await harness.held()
        view = await harness.view(run.run_id)
        assert (view.worker_id, view.token, view.claims, view.ended_at, view.value) == (worker("w1"), 1, 1, None, None)

    async def test_a_run_shows_what_it_was_started_with(self, harness: Harness) -> None:
        started = await harness.start(key="k", priority=3, input='{"n":5}')
        view = await harness.view(started.run_id)
        assert (view.key, view.priority, view.input, view.kind, view.generation) == ("k", 3, '{"n":5}', "workflow", 1)

    async def test_a_run_shows_its_tags_in_order(self, harness: Harness) -> None:
        tags = ("a, b", "red", '"quoted"\n', "é")
        started = await harness.start(tags=tags)
        await harness.start(tags=("other",))
        assert (await harness.view(started.run_id)).tags == tuple(sorted(tags))

    async def test_runs_are_listed_with_their_tags(self, harness: Harness) -> None:
        await harness.start(tags=("red", "blue"))
        await harness.start()
        assert [view.tags for view in await harness.store.runs(RunFilter())] == [(), ("blue", "red")]

    async def test_a_run_that_does_not_exist_is_none(self, harness: Harness) -> None:
        assert await harness.store.run(None, harness.new_run().run_id) is None

    async def test_a_tenant_sees_its_own_run(self, harness: Harness) -> None:
        started = await harness.start(tenant="acme")
        assert await harness.store.run("acme", started.run_id) is not None

    async def test_a_tenant_does_not_see_a_run_of_another(self, harness: Harness) -> None:
        started = await harness.start(tenant="acme")
        assert await harness.store.run("globex", started.run_id) is None

    async def test_a_tenant_lists_its_own_runs_only(self, harness: Harness) -> None:
        mine = await harness.start(tenant="acme")
        await harness.start(tenant="globex")
        assert await page(harness, tenant="acme") == [mine.run_id]

    async def test_without_a_tenant_all_runs_are_listed(self, harness: Harness) -> None:
        await harness.start(tenant="acme")
        await harness.start(tenant="globex")
        assert len(await page(harness)) == 2

    async def test_a_tag_of_another_tenant_finds_nothing(self, harness: Harness) -> None:
        await harness.start(tenant="acme", tags=("x",))
        assert await page(harness, tenant="globex", tag="x") == []

    async def test_runs_are_listed_newest_first(self, harness: Harness) -> None:
        ids = await harness.start_many(3)
        assert await page(harness) == ids[::-1]

    async def test_pages_follow_each_other_without_gap_or_overlap(self, harness: Harness) -> None:
        ids = await harness.start_many(7)
        seen: list[RunId] = []
        while found := await page(harness, tenant="acme", limit=3, before=seen[-1] if seen else None):
            seen += found
        assert seen == ids[::-1]

    @cases(asked=FITTING, tenant={"of a tenant": "acme", "of all tenants": None})
    async def test_a_filter_lists_what_fits(
        self, harness: Harness, asked: tuple[str, Any, Any], tenant: str | None
    ) -> None:
        name, value, other = asked
        fitting = await harness.start(**{name: value})
        await harness.start(**{name: other})
        assert await page(harness, tenant=tenant, **{name: value}) == [fitting.run_id]

    async def test_runs_are_found_by_tag(self, harness: Harness) -> None:
        fitting = await harness.start(tags=("red", "blue"))
        await harness.start(tags=("green",))
        assert await page(harness, tag="blue") == [fitting.run_id]

    @cases(state={str(state): state for state in LISTED})
    async def test_runs_are_found_by_state(self, harness: Harness, state: RunState) -> None:
        await harness.enrol()
        await harness.start_many(3)
        running, waiting, completed = await harness.claim()
        pending = await harness.start()
        await harness.save(park(waiting, wait()), end(completed))
        ids = dict(zip(LISTED, (run.run_id for run in (completed, pending, running, waiting)), strict=True))
        assert await page(harness, state=state) == [ids[state]]

    async def test_runs_are_found_by_when_they_were_queued(self, harness: Harness) -> None:
        await harness.start()
        await harness.advance(10)
        later = await harness.start()
        assert await page(harness, queued_after=Instant(NOON + 5)) == [later.run_id]

    async def test_runs_are_found_by_when_they_last_changed(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.start(queue="other")
        await harness.advance(10)
        await harness.enrol()
        await harness.claim()
        assert await page(harness, updated_after=Instant(NOON + 5)) == [started.run_id]

    async def test_several_filters_must_all_fit(self, harness: Harness) -> None:
        fitting = await harness.start(actor="ann", workflow="refund", tags=("x",))
        await harness.start(actor="ann")
        await harness.start(workflow="refund", tags=("x",))
        assert await page(harness, actor="ann", workflow="refund", tag="x") == [fitting.run_id]

    async def test_steps_are_shown_in_order(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run, "a"), step(run, "b"))
        assert [(shown.seq, shown.call.name) for shown in await harness.store.steps(run.run_id)] == [(1, "a"), (2, "b")]

    async def test_a_page_of_events_begins_after_a_number(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), step(run))
        assert [event.seq for event in await harness.store.events(run.run_id, after=1, limit=2)] == [2, 3]

    async def test_the_moment_is_the_stores(self, harness: Harness) -> None:
        await harness.advance(77)
        assert await harness.store.now() == NOON + 77

    async def test_a_run_shows_what_it_last_said_of_its_progress(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(told(run, 1), told(run, 2), step(run))
        assert (await harness.view(run.run_id)).progress == Progress(2, 3, "x")

    async def test_a_run_that_said_nothing_has_no_progress(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run))
        assert (await harness.view(run.run_id)).progress is None

    async def test_what_an_earlier_generation_said_is_no_progress_of_this_one(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(told(run, 1), end(run))
        await harness.change(run.run_id, Rerun())
        assert (await harness.view(run.run_id)).progress is None
