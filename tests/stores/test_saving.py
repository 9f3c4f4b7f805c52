"""Saving: the fence, what a decision writes, and sending it again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepfast.kernel.decisions import DeadLetter, Decision, Fence, History, Outcome
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import RowsRefused
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.states import RunState
from tests.stores.harness import NOON, decide, end, hand_back, record, step


async def test_a_saved_record_is_read_back(harness, store):
    run = await harness.held()
    assert await harness.save(step(run, value='{"ok":true}')) == [Saving.SAVED]
    (saved,) = (await store.histories([run.run_id]))[run.run_id].records
    assert (saved.call.name, saved.value, saved.seq) == ("charge", '{"ok":true}', 1)


async def test_a_record_comes_back_as_it_was_given(harness, store):
    run = await harness.held()
    given = record()._replace(value=None, error="boom", due_at=Instant(NOON + 5), attempt=3)
    await harness.save(decide(run, records=(given,)))
    assert (await store.histories([run.run_id]))[run.run_id].records == [given._replace(seq=1)]


async def test_a_run_without_records_has_an_empty_list(harness, store):
    run = await harness.held()
    assert await store.histories([run.run_id]) == {run.run_id: History([], [], [])}


async def test_records_of_several_runs_are_kept_apart(harness, store):
    await harness.enrol()
    await harness.start_many(2)
    one, two = await harness.claim()
    await harness.save(step(one, "a"), step(two, "b"), step(one, "c"))
    histories = await store.histories([one.run_id, two.run_id])
    found = {run_id: history.records for run_id, history in histories.items()}
    assert {key: [saved.call.name for saved in records] for key, records in found.items()} == {
        one.run_id: ["a", "c"],
        two.run_id: ["b"],
    }


async def test_a_superseded_record_is_not_replayed(harness, store):
    run = await harness.held()
    await harness.save(step(run, "a"), step(run, "b"))
    await harness.sql("update stepfast.step set superseded_by = 2 where seq = :seq", seq=1)
    assert [saved.call.name for saved in (await store.histories([run.run_id]))[run.run_id].records] == ["b"]


async def test_a_superseded_record_is_still_shown(harness, store):
    run = await harness.held()
    await harness.save(step(run, "a"))
    await harness.sql("update stepfast.step set superseded_by = 2 where seq = :seq", seq=1)
    (shown,) = await store.steps(run.run_id)
    assert (shown.call.name, shown.superseded_by, shown.generation) == ("a", 2, 1)


async def test_events_of_a_run_are_numbered_without_a_gap(harness, store):
    run = await harness.held()
    await harness.save(step(run), step(run))
    await harness.save(end(run))
    assert [event.seq for event in await store.events(run.run_id)] == [1, 2, 3, 4, 5]


async def test_positions_grow_with_the_numbers_within_a_run(harness, store):
    await harness.enrol()
    await harness.start_many(2)
    one, two = await harness.claim()
    await harness.save(step(one), step(two), step(one), step(two), end(one), end(two))
    for run in (one, two):
        positions = [event.position for event in await store.events(run.run_id)]
        assert positions == sorted(set(positions))


async def test_an_event_comes_back_as_it_was_given(harness, store):
    run = await harness.held()
    await harness.save(
        decide(run, events=(Event(EventType.STEP_FAILED, Instant(NOON + 3), "charge#0", 2, "ann", '{"a":1}'),))
    )
    event = (await store.events(run.run_id))[-1]
    assert (event.type, event.at, event.step, event.attempt, event.actor, event.data, event.token) == (
        "step_failed",
        NOON + 3,
        "charge#0",
        2,
        "ann",
        '{"a":1}',
        1,
    )


@pytest.mark.parametrize(
    "fence",
    [
        lambda fence: fence._replace(token=fence.token - 1),
        lambda fence: fence._replace(token=fence.token + 1),
        lambda fence: fence._replace(worker_id=WorkerId("w2")),
        lambda fence: fence._replace(worker_id=None),
    ],
    ids=["older token", "newer token", "another worker", "no worker"],
)
@pytest.mark.parametrize("make", [step, end, hand_back], ids=["step", "end", "hand_back"])
async def test_a_decision_that_the_fence_refuses_changes_nothing(harness, fence, make):
    run = await harness.held()
    before = await harness.contents()
    decision = make(run)
    decision.fence = fence(decision.fence)
    assert await harness.save(decision) == [Saving.LOST]
    assert await harness.contents() == before


async def test_a_worker_that_lost_its_run_changes_nothing(harness, store):
    run = await harness.held("w1")
    await store.retire(WorkerId("w1"))
    await harness.enrol("w2")
    await harness.claim(worker="w2")
    before = await harness.contents()
    assert await harness.save(step(run)) == [Saving.LOST]
    assert await harness.contents() == before


async def test_the_same_worker_cannot_use_its_older_token(harness):
    run = await harness.held()
    late = step(run)
    run.last_event -= 1
    await harness.save(hand_back(run))
    await harness.claim()
    assert await harness.save(late) == [Saving.LOST]


@pytest.mark.parametrize("state", [RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED])
async def test_nothing_is_saved_after_the_end(harness, state):
    run = await harness.held()
    await harness.save(end(run, state))
    before = await harness.contents()
    assert await harness.save(step(run)) == [Saving.LOST]
    assert await harness.contents() == before


async def test_an_unknown_run_is_lost(harness):
    run = await harness.held()
    decision = step(run)
    decision.fence = Fence(harness.new_run().run_id, 1, WorkerId("w1"))
    assert await harness.save(decision) == [Saving.LOST]


async def test_a_command_ends_an_idle_run_by_its_token(harness):
    started = await harness.start()
    fence = Fence(started.run_id, 0, None)
    outcome = Outcome(RunState.CANCELLED, None, None, NOON)
    cancel = Decision(fence, "acme", 1, events=(Event(EventType.CANCELLED, NOON),), outcome=outcome, first_event=2)
    assert await harness.save(cancel) == [Saving.SAVED]
    assert await harness.state(started.run_id) is RunState.CANCELLED


async def test_a_command_that_came_after_a_claim_is_lost(harness):
    run = await harness.held()
    decision = end(run, RunState.CANCELLED)
    decision.fence = Fence(run.run_id, 0, None)
    assert await harness.save(decision) == [Saving.LOST]


async def test_one_stale_decision_does_not_hold_back_the_others(harness, store):
    await harness.enrol()
    await harness.start_many(3)
    one, two, three = await harness.claim()
    stale = step(two)
    stale.fence = stale.fence._replace(token=9)
    assert await harness.save(step(one), stale, end(three)) == [Saving.SAVED, Saving.LOST, Saving.SAVED]
    assert [len(await store.steps(run.run_id)) for run in (one, two)] == [1, 0]
    assert await harness.state(three.run_id) is RunState.COMPLETED


async def test_a_step_and_the_end_may_be_saved_together(harness, store):
    run = await harness.held()
    assert await harness.save(step(run), end(run)) == [Saving.SAVED, Saving.SAVED]
    assert len(await store.steps(run.run_id)) == 1


async def test_a_decision_after_the_end_in_the_same_batch_is_lost(harness, store):
    run = await harness.held()
    assert await harness.save(end(run), step(run)) == [Saving.SAVED, Saving.LOST]
    assert await store.steps(run.run_id) == []


async def test_a_decision_after_a_hand_back_in_the_same_batch_is_lost(harness):
    run = await harness.held()
    assert await harness.save(hand_back(run), step(run)) == [Saving.SAVED, Saving.LOST]


async def test_what_an_earlier_holder_sends_in_the_same_batch_takes_nothing_from_the_present_one(harness):
    stale = await harness.held()
    await harness.save(hand_back(stale))
    (present,) = await harness.claim()
    assert await harness.save(end(stale), step(present)) == [Saving.LOST, Saving.SAVED]


async def test_an_empty_batch_is_answered_with_nothing(harness):
    assert await harness.save() == []


async def test_the_outcome_is_read_back(harness, store):
    run = await harness.held()
    await harness.save(end(run))
    (outcome,) = (await store.outcomes([run.run_id])).values()
    assert (outcome.run_id, outcome.generation, outcome.state, outcome.value, outcome.ended_at) == (
        run.run_id,
        1,
        RunState.COMPLETED,
        "1",
        NOON,
    )


async def test_the_outcome_remembers_token_and_last_event(harness):
    run = await harness.held()
    await harness.save(step(run), end(run))
    assert await harness.sql("select token, seq from stepfast.outcome") == [(run.token, run.last_event)]


async def test_an_open_run_has_no_outcome(harness, store):
    run = await harness.held()
    assert await store.outcomes([run.run_id]) == {}


async def test_a_run_opened_again_has_no_outcome(harness, store):
    run = await harness.held()
    await harness.save(end(run))
    await harness.sql(
        "insert into stepfast.task (run_id, queue, tenant, code, place, state, generation, token, since_at)"
        " values (:run_id, 'default', 'acme', 'order@1', 0, 'ready', 2, 5, 0)",
        run_id=run.run_id,
    )
    assert await store.outcomes([run.run_id]) == {}


async def test_an_ended_run_is_in_no_line(harness):
    run = await harness.held()
    await harness.save(end(run))
    assert await harness.task(run.run_id, "state") is None


async def test_a_dead_letter_is_recorded_with_the_end(harness):
    run = await harness.held()
    decision = end(run, RunState.FAILED)
    decision.dead_letter = DeadLetter("order", 1, "ValueError", "no", "charge")
    await harness.save(decision)
    rows = await harness.sql(
        "select generation, workflow, step, error_type, message, recorded_at from stepfast.dead_letter"
    )
    assert [tuple(row) for row in rows] == [(1, "order", "charge", "ValueError", "no", NOON)]


async def test_sending_again_what_was_saved_counts_as_saved(harness):
    run = await harness.held()
    decision = step(run)
    await harness.save(decision)
    before = await harness.contents()
    assert await harness.save(decision, again=True) == [Saving.SAVED]
    assert await harness.contents() == before


async def test_sending_an_end_again_counts_as_saved(harness):
    run = await harness.held()
    batch = (step(run), end(run))
    await harness.save(*batch)
    assert await harness.save(*batch, again=True) == [Saving.SAVED, Saving.SAVED]


async def test_sending_again_what_never_arrived_saves_it(harness, store):
    run = await harness.held()
    assert await harness.save(step(run), again=True) == [Saving.SAVED]
    assert len(await store.steps(run.run_id)) == 1


async def test_sending_again_after_the_run_was_lost_is_lost(harness, store):
    run = await harness.held()
    decision = step(run)
    await store.retire(WorkerId("w1"))
    assert await harness.save(decision, again=True) == [Saving.LOST]


async def test_sending_again_after_the_worker_was_buried_is_lost(harness):
    run = await harness.held()
    decision = step(run)
    await harness.bury()
    assert await harness.save(decision, again=True) == [Saving.LOST]


async def test_a_number_used_twice_refuses_the_batch(harness):
    await harness.enrol()
    await harness.start_many(2)
    one, two = await harness.claim()
    await harness.save(step(one))
    before = await harness.contents()
    twice = replace(step(one), first_seq=1)
    with pytest.raises(RowsRefused):
        await harness.save(step(two), twice)
    assert await harness.contents() == before


async def test_text_that_cannot_be_stored_refuses_the_batch(harness):
    run = await harness.held()
    before = await harness.contents()
    with pytest.raises(RowsRefused):
        await harness.save(step(run, value="\ud800"))
    assert await harness.contents() == before


async def test_a_number_that_cannot_be_stored_refuses_the_batch(harness):
    run = await harness.held()
    with pytest.raises(RowsRefused):
        await harness.save(decide(run, records=(record()._replace(due_at=Instant(2**70)),)))


async def test_the_store_goes_on_after_a_refused_batch(harness):
    run = await harness.held()
    bad = step(run, value="\ud800")
    with pytest.raises(RowsRefused):
        await harness.save(bad)
    run.last_seq, run.last_event = bad.first_seq - 1, bad.first_event - 1
    assert await harness.save(step(run)) == [Saving.SAVED]
