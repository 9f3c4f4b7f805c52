"""Saving: the fence, and what a decision writes."""

from __future__ import annotations

from collections.abc import Callable

from stepfast.conformance.store.acts import NOON, decide, end, hand_back, record, step, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Rerun
from stepfast.kernel.decisions import DeadLetter, Decision, Fence, HeldRun, History, Outcome
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import Saving
from stepfast.kernel.states import ENDED, RunState
from stepfast.kernel.views import LetterView

FENCES: dict[str, Callable[[Fence], Fence]] = {
    "older token": lambda fence: fence._replace(token=fence.token - 1),
    "newer token": lambda fence: fence._replace(token=fence.token + 1),
    "another worker": lambda fence: fence._replace(worker_id=worker("w2")),
    "no worker": lambda fence: fence._replace(worker_id=None),
}


@on_fresh_stores
class SavingSuite(StoreSuite):
    """What the present holder decides is written whole, and nothing of anybody else."""

    async def test_a_saved_record_is_read_back(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.save(step(run, value='{"ok":true}')) == [Saving.SAVED]
        (saved,) = await harness.records(run.run_id)
        assert (saved.call.name, saved.value, saved.seq) == ("charge", '{"ok":true}', 1)

    async def test_a_record_comes_back_as_it_was_given(self, harness: Harness) -> None:
        run = await harness.held()
        given = record()._replace(value=None, error="boom", due_at=Instant(NOON + 5), attempt=3)
        await harness.save(decide(run, records=(given,)))
        assert await harness.records(run.run_id) == [given._replace(seq=1)]

    async def test_a_run_without_records_has_an_empty_list(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.store.histories([run.run_id]) == {run.run_id: History([], [], [])}

    async def test_records_of_several_runs_are_kept_apart(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(2)
        one, two = await harness.claim()
        await harness.save(step(one, "a"), step(two, "b"), step(one, "c"))
        histories = await harness.store.histories([one.run_id, two.run_id])
        found = {run_id: history.records for run_id, history in histories.items()}
        assert {key: [saved.call.name for saved in records] for key, records in found.items()} == {
            one.run_id: ["a", "c"],
            two.run_id: ["b"],
        }

    async def test_a_superseded_record_is_not_replayed(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run, "a"), step(run, "b"), end(run))
        await harness.change(run.run_id, Rerun(from_step="b"))
        assert [saved.call.name for saved in await harness.records(run.run_id)] == ["a"]

    async def test_a_superseded_record_is_still_shown(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run, "a"), end(run))
        await harness.change(run.run_id, Rerun())
        (shown,) = await harness.store.steps(run.run_id)
        assert (shown.call.name, shown.superseded_by, shown.generation) == ("a", 2, 1)

    async def test_events_of_a_run_are_numbered_without_a_gap(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), step(run))
        await harness.save(end(run))
        assert [event.seq for event in await harness.store.events(run.run_id)] == [1, 2, 3, 4, 5]

    async def test_positions_grow_with_the_numbers_within_a_run(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(2)
        one, two = await harness.claim()
        await harness.save(step(one), step(two), step(one), step(two), end(one), end(two))
        for run in (one, two):
            positions = [event.position for event in await harness.store.events(run.run_id)]
            assert positions == sorted(set(positions))

    async def test_an_event_comes_back_as_it_was_given(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(
            decide(run, events=(Event(EventType.STEP_FAILED, Instant(NOON + 3), "charge#0", 2, "ann", '{"a":1}'),))
        )
        event = await harness.last_event(run.run_id)
        assert (event.type, event.at, event.step, event.attempt, event.actor, event.data, event.token) == (
            "step_failed",
            NOON + 3,
            "charge#0",
            2,
            "ann",
            '{"a":1}',
            1,
        )

    @cases(make={"a step": step, "an end": end, "a hand-back": hand_back}, fence=FENCES)
    async def test_a_decision_that_the_fence_refuses_changes_nothing(
        self, harness: Harness, make: Callable[[HeldRun], Decision], fence: Callable[[Fence], Fence]
    ) -> None:
        run = await harness.held()
        before = await harness.contents()
        decision = make(run)
        decision.fence = fence(decision.fence)
        assert await harness.save(decision) == [Saving.LOST]
        assert await harness.contents() == before

    async def test_a_worker_that_lost_its_run_changes_nothing(self, harness: Harness) -> None:
        run = await harness.held("w1")
        await harness.store.retire(worker("w1"))
        await harness.enrol("w2")
        await harness.claim(worker="w2")
        before = await harness.contents()
        assert await harness.save(step(run)) == [Saving.LOST]
        assert await harness.contents() == before

    async def test_the_same_worker_cannot_use_its_older_token(self, harness: Harness) -> None:
        run = await harness.held()
        late = step(run)
        run.last_event -= 1
        await harness.save(hand_back(run))
        await harness.claim()
        assert await harness.save(late) == [Saving.LOST]

    @cases(state={str(state): state for state in sorted(ENDED)})
    async def test_nothing_is_saved_after_the_end(self, harness: Harness, state: RunState) -> None:
        run = await harness.held()
        await harness.save(end(run, state))
        before = await harness.contents()
        assert await harness.save(step(run)) == [Saving.LOST]
        assert await harness.contents() == before

    async def test_an_unknown_run_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        decision = step(run)
        decision.fence = Fence(harness.new_run().run_id, 1, worker("w1"))
        assert await harness.save(decision) == [Saving.LOST]

    async def test_a_command_ends_an_idle_run_by_its_token(self, harness: Harness) -> None:
        started = await harness.start()
        fence = Fence(started.run_id, 0, None)
        outcome = Outcome(RunState.CANCELLED, None, None, NOON)
        cancel = Decision(fence, "acme", 1, events=(Event(EventType.CANCELLED, NOON),), outcome=outcome, first_event=2)
        assert await harness.save(cancel) == [Saving.SAVED]
        assert await harness.state(started.run_id) is RunState.CANCELLED

    async def test_a_command_that_came_after_a_claim_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        decision = end(run, RunState.CANCELLED)
        decision.fence = Fence(run.run_id, 0, None)
        assert await harness.save(decision) == [Saving.LOST]

    async def test_one_stale_decision_does_not_hold_back_the_others(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(3)
        one, two, three = await harness.claim()
        stale = step(two)
        stale.fence = stale.fence._replace(token=9)
        assert await harness.save(step(one), stale, end(three)) == [Saving.SAVED, Saving.LOST, Saving.SAVED]
        assert [len(await harness.store.steps(run.run_id)) for run in (one, two)] == [1, 0]
        assert await harness.state(three.run_id) is RunState.COMPLETED

    async def test_a_step_and_the_end_may_be_saved_together(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.save(step(run), end(run)) == [Saving.SAVED, Saving.SAVED]
        assert len(await harness.store.steps(run.run_id)) == 1

    async def test_a_decision_after_the_end_in_the_same_batch_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.save(end(run), step(run)) == [Saving.SAVED, Saving.LOST]
        assert await harness.store.steps(run.run_id) == []

    async def test_a_decision_after_a_hand_back_in_the_same_batch_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.save(hand_back(run), step(run)) == [Saving.SAVED, Saving.LOST]

    async def test_what_an_earlier_holder_sends_in_the_same_batch_takes_nothing_from_the_present_one(
        self, harness: Harness
    ) -> None:
        stale = await harness.held()
        await harness.save(hand_back(stale))
        (present,) = await harness.claim()
        assert await harness.save(end(stale), step(present)) == [Saving.LOST, Saving.SAVED]

    async def test_an_empty_batch_is_answered_with_nothing(self, harness: Harness) -> None:
        assert await harness.save() == []

    async def test_the_outcome_is_read_back(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        (outcome,) = (await harness.store.outcomes([run.run_id])).values()
        assert (outcome.run_id, outcome.generation, outcome.state, outcome.value, outcome.ended_at) == (
            run.run_id,
            1,
            RunState.COMPLETED,
            "1",
            NOON,
        )

    async def test_an_open_run_has_no_outcome(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.store.outcomes([run.run_id]) == {}

    async def test_an_ended_run_is_in_no_line(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        assert await harness.store.look(run.run_id) is None
        assert await harness.store.queues() == []

    async def test_a_dead_letter_is_recorded_with_the_end(self, harness: Harness) -> None:
        run = await harness.held()
        decision = end(run, RunState.FAILED)
        decision.dead_letter = DeadLetter("order", 1, "ValueError", "no", "charge")
        await harness.save(decision)
        view = LetterView(run.run_id, 1, "acme", "order", 1, "charge", "ValueError", "no", NOON, None, None, None)
        assert await harness.letters() == [view]

    async def test_the_outcome_has_the_token_of_who_ended_the_run(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), end(run))
        assert (await harness.view(run.run_id)).token == run.token
