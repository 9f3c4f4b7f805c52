"""Runs that are retried or rerun: their next generation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepfast.conformance.store.acts import (
    HOUR_MS,
    NOON,
    decide,
    end,
    fail,
    hand_back,
    park,
    record,
    step,
    told_by,
    wait,
)
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Cancel, Changed, Command, Rerun, RetryRun
from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, NothingBefore, StepfastError, StepNotFound
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState, StepState, TaskState

LATE: dict[str, Callable[[HeldRun], Decision]] = {"a record": step, "an end": end, "a hand-back": hand_back}


async def failed(harness: Harness, **changes: Any) -> HeldRun:
    """A run with a good step `charge#0` that failed by its step `ship#1`."""
    run = await harness.held(**changes)
    shipping = record("ship", 1)._replace(state=StepState.FAILED, value=None, error="{}")
    await harness.save(step(run, "charge"), decide(run, EventType.STEP_FAILED, records=(shipping,)))
    await harness.save(fail(run, "ship#1"))
    return run


async def completed(harness: Harness, *names: str, **changes: Any) -> HeldRun:
    run = await harness.held(**changes)
    await harness.save(*(step(run, name) for name in names), end(run))
    return run


async def replayed(harness: Harness, run_id: RunId) -> list[str]:
    """The records that the run's code gets back."""
    return [saved.call.address for saved in await harness.records(run_id)]


async def a_child_that_failed(harness: Harness) -> tuple[HeldRun, HeldRun]:
    """A parent that waits for two children, one of which has failed."""
    parent, _ = await harness.parent(children=2, need=2, spare=2)
    child, _ = await harness.claim(queue="children")
    await harness.save(fail(child))
    return parent, child


@on_fresh_stores
class ReopeningSuite(StoreSuite):
    """A new generation keeps what it may, and outranks every earlier holder."""

    async def test_a_retried_run_begins_as_if_it_were_new(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.advance(5)
        await harness.change(run.run_id, RetryRun())
        view = await harness.view(run.run_id)
        assert (view.token, view.generation, view.claims, view.crashes) == (run.token + 1, 2, 0, 0)
        assert (view.worker_id, view.updated_at, view.code) == (None, NOON + 5, "order@1")
        assert await harness.standing(run.run_id) == (TaskState.READY, 0)

    async def test_a_retried_run_is_pending_in_its_next_generation(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.advance(5)
        changed = await harness.change(run.run_id, RetryRun())
        view = await harness.view(run.run_id)
        assert changed == Changed(run.run_id, RunState.PENDING, 2, "default", Instant(NOON + 5))
        assert (view.state, view.generation, view.ended_at, view.error) == (RunState.PENDING, 2, None, None)

    async def test_a_reopened_run_has_the_place_it_had_at_first(self, harness: Harness) -> None:
        run = await failed(harness, priority=2)
        await harness.advance(HOUR_MS)
        later = await harness.start(priority=2)
        await harness.change(run.run_id, RetryRun())
        assert [held.run_id for held in await harness.claim()] == [run.run_id, later.run_id]

    async def test_a_retried_run_goes_on_without_the_failure_that_ended_it(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, RetryRun())
        assert await replayed(harness, run.run_id) == ["charge#0"]
        assert [(shown.call.name, shown.superseded_by) for shown in await harness.store.steps(run.run_id)] == [
            ("charge", None),
            ("ship", 2),
        ]

    async def test_all_records_of_a_superseded_call_are_superseded(self, harness: Harness) -> None:
        run = await harness.held()
        tries = [
            record("ship", 1)._replace(state=StepState.PENDING),
            record("ship", 1)._replace(state=StepState.FAILED),
        ]
        await harness.save(decide(run, records=tries), fail(run, "ship#1"))
        await harness.change(run.run_id, RetryRun())
        assert [shown.superseded_by for shown in await harness.store.steps(run.run_id)] == [2, 2]

    async def test_what_a_generation_superseded_stays_so_in_the_next(self, harness: Harness) -> None:
        run = await failed(harness)
        for _ in range(2):
            await harness.change(run.run_id, RetryRun())
            (run,) = await harness.claim()
            await harness.save(step(run, "ship"), fail(run, f"ship#{run.last_seq - 1}"))
        await harness.change(run.run_id, RetryRun())
        assert [shown.superseded_by for shown in await harness.store.steps(run.run_id)] == [None, 2, 3, 4]

    async def test_the_event_of_a_reopened_run_belongs_to_the_generation_it_opens(self, harness: Harness) -> None:
        run = await failed(harness)
        last = run.last_event
        await harness.change(run.run_id, RetryRun(), actor="ann", reason="fixed")
        event = await harness.last_event(run.run_id)
        assert (event.seq, event.type, event.generation, event.token, event.actor) == (
            last + 2,
            "retried",
            2,
            run.token + 1,
            "ann",
        )
        assert told_by(event) == {"version": 1, "superseded": 1, "steps": ["ship#1"], "reason": "fixed"}

    async def test_a_reopened_run_is_claimed_and_counts_on(self, harness: Harness) -> None:
        first = await failed(harness, input='{"n":7}')
        await harness.change(first.run_id, RetryRun())
        (run,) = await harness.claim()
        assert (run.generation, run.input, run.tries, run.claims) == (2, '{"n":7}', 0, 1)
        assert (run.last_seq, run.last_event) == (first.last_seq, first.last_event + 3)
        assert run.token > first.token

    async def test_a_reopened_run_has_a_deadline_of_its_own(self, harness: Harness) -> None:
        run = await failed(harness, timeout_ms=1_000)
        await harness.advance(5_000)
        await harness.change(run.run_id, RetryRun())
        assert [held.deadline_at for held in await harness.claim()] == [NOON + 6_000]

    @cases(command={"retry": RetryRun(), "rerun": Rerun(), "other version": Rerun(version=3)})
    async def test_a_spread_step_keeps_the_code_of_the_run_that_spread_it(
        self, harness: Harness, command: Command
    ) -> None:
        run = await failed(harness, kind="step", workflow="render", code="order@1")
        await harness.change(run.run_id, command)
        assert (await harness.view(run.run_id)).code == "order@1"
        assert [held.run_id for held in await harness.claim(codes=["order@1"])] == [run.run_id]

    async def test_a_workflow_that_is_reopened_with_another_version_needs_the_code_of_that(
        self, harness: Harness
    ) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, Rerun(version=3))
        assert (await harness.view(run.run_id)).code == "order@3"
        assert [held.version for held in await harness.claim(codes=["order@3"])] == [3]

    async def test_the_messages_of_a_reopened_run_are_numbered_on(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), park(run, wait(2)))
        for _ in range(2):
            await harness.signal(run.run_id)
        (run,) = await harness.claim()
        await harness.save(decide(run, records=(record("receive", 1),), taken=(1, 2)), fail(run, "receive#1"))
        await harness.change(run.run_id, RetryRun())
        await harness.signal(run.run_id, value="2")
        assert [(message.n, message.value) for message in (await harness.look(run.run_id)).inbox] == [(3, "2")]

    async def test_a_run_without_a_timeout_has_no_deadline_when_reopened(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, RetryRun())
        assert [held.deadline_at for held in await harness.claim()] == [None]

    async def test_a_reopened_run_has_no_outcome_until_it_ends_again(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, RetryRun())
        assert await harness.store.outcomes([run.run_id]) == {}
        (run,) = await harness.claim()
        await harness.save(end(run))
        (outcome,) = (await harness.store.outcomes([run.run_id])).values()
        assert (outcome.generation, outcome.state) == (2, RunState.COMPLETED)

    async def test_a_reopened_run_keeps_its_key(self, harness: Harness) -> None:
        run = await failed(harness, key="k")
        await harness.change(run.run_id, RetryRun())
        assert (await harness.start(key="k")).run_id == run.run_id

    async def test_a_run_that_did_not_fail_is_not_retried(self, harness: Harness) -> None:
        run = await completed(harness)
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, RetryRun()), IllegalMove)
        assert await harness.contents() == before

    @cases(command={"retry": RetryRun(), "rerun": Rerun()})
    async def test_an_open_run_is_not_reopened(self, harness: Harness, command: Command) -> None:
        started = await harness.start()
        assert isinstance(await harness.refusal(started.run_id, command), IllegalMove)

    async def test_a_rerun_keeps_nothing(self, harness: Harness) -> None:
        run = await completed(harness, "a", "b")
        await harness.change(run.run_id, Rerun())
        assert await replayed(harness, run.run_id) == []
        assert (await harness.event_types(run.run_id))[-1] == "rerun"

    async def test_a_rerun_from_a_step_keeps_what_came_before(self, harness: Harness) -> None:
        run = await completed(harness, "a", "b", "c")
        await harness.change(run.run_id, Rerun(from_step="b"))
        assert await replayed(harness, run.run_id) == ["a#0"]

    async def test_a_rerun_of_a_rerun_goes_by_the_records_that_count(self, harness: Harness) -> None:
        run = await completed(harness, "a", "b")
        await harness.change(run.run_id, Rerun(from_step="b"))
        (run,) = await harness.claim()
        await harness.save(step(run, "b"), step(run, "c"), end(run))
        await harness.change(run.run_id, Rerun(from_step="c"))
        assert await replayed(harness, run.run_id) == ["a#0", "b#2"]

    @cases(wanted={"that is not there": ("x", StepNotFound), "that is the first": ("a", NothingBefore)})
    async def test_a_rerun_from_a_step_that_cannot_be_is_refused(
        self, harness: Harness, wanted: tuple[str, type[StepfastError]]
    ) -> None:
        from_step, error = wanted
        run = await completed(harness, "a", "b")
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, Rerun(from_step=from_step)), error)
        assert await harness.contents() == before

    async def test_a_cancelled_run_can_be_rerun(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Cancel())
        changed = await harness.change(run.run_id, Rerun())
        assert (changed.state, changed.generation) == (RunState.PENDING, 2)
        # Its holder had the token before the cancel's, which the new generation begins above.
        assert (await harness.view(run.run_id)).token == run.token + 2

    @cases(late=LATE)
    async def test_who_held_a_run_before_it_was_cancelled_and_rerun_changes_nothing(
        self, harness: Harness, late: Callable[[HeldRun], Decision]
    ) -> None:
        stale = await harness.held()
        await harness.change(stale.run_id, Cancel())
        await harness.change(stale.run_id, Rerun())
        (present,) = await harness.claim()
        stale.last_event = present.last_event
        before = await harness.contents()
        assert await harness.save(late(stale)) == [Saving.LOST]
        assert await harness.contents() == before

    async def test_a_rerun_with_another_version_waits_for_a_worker_that_has_it(self, harness: Harness) -> None:
        run = await completed(harness)
        await harness.change(run.run_id, Rerun(version=2))
        assert (await harness.view(run.run_id)).version == 2
        assert await harness.claim() == []
        assert [(held.run_id, held.version) for held in await harness.claim(codes=["order@2"])] == [(run.run_id, 2)]

    async def test_a_rerun_without_a_version_keeps_that_of_the_last_generation(self, harness: Harness) -> None:
        run = await completed(harness)
        await harness.change(run.run_id, Rerun(version=2))
        (run,) = await harness.claim(codes=["order@2"])
        await harness.save(end(run))
        await harness.change(run.run_id, Rerun())
        assert (await harness.view(run.run_id)).version == 2

    async def test_a_child_that_its_parent_has_counted_and_still_waits_for_is_not_reopened(
        self, harness: Harness
    ) -> None:
        _, child = await a_child_that_failed(harness)
        before = await harness.contents()
        assert isinstance(await harness.refusal(child.run_id, RetryRun()), IllegalMove)
        assert await harness.contents() == before

    async def test_a_child_that_its_parent_waits_for_no_more_can_be_reopened(self, harness: Harness) -> None:
        parent, child = await a_child_that_failed(harness)
        await harness.save(decide(parent, closed=(1,)))
        changed = await harness.change(child.run_id, RetryRun())
        assert (changed.state, changed.parent_id) == (RunState.PENDING, parent.run_id)
        (child,) = [run for run in await harness.claim(queue="children") if run.run_id == child.run_id]
        assert await harness.save(end(child)) == [Saving.SAVED]
        assert await harness.standing(parent.run_id) == (TaskState.LEASED, 0)

    async def test_tokens_grow_over_every_generation(self, harness: Harness) -> None:
        run = await harness.held()
        tokens = [run.token]
        for _ in range(3):
            await harness.save(fail(run))
            await harness.change(run.run_id, RetryRun())
            (run,) = await harness.claim()
            tokens.append(run.token)
        assert tokens == sorted(set(tokens))

    async def test_a_parked_run_that_was_reopened_waits_for_nothing_of_its_past(self, harness: Harness) -> None:
        run = await harness.parked()
        await harness.change(run.run_id, Cancel())
        await harness.change(run.run_id, Rerun())
        assert (await harness.look(run.run_id)).waits == []
