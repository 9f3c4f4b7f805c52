"""Claiming: who gets which runs, in which order."""

from __future__ import annotations

import json

import pytest

from stepfast.kernel.commands import Pause
from stepfast.kernel.decisions import Joins
from stepfast.kernel.exchange import Claim, QueueRoom, Saving
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState, WaitKind
from tests.stores.harness import HOUR_MS, NOON, end, hand_back, park, step, wait

PARENT = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")


async def test_a_claimed_run_is_running(harness):
    run = await harness.held()
    assert await harness.state(run.run_id) is RunState.RUNNING


async def test_a_claim_hands_out_what_the_run_was_started_with(harness):
    given = dict(actor="ann", correlation_id="c", causation_id="k", thread_id="th", subject="s", metadata='{"m":1}')
    run = await harness.held(input='{"n":7}', version=3, **given)
    assert (run.input, run.version, run.kind, run.queue) == ('{"n":7}', 3, "workflow", "default")
    assert {name: getattr(run, name) for name in given} == given


async def test_a_claim_names_the_group_that_the_run_joins(harness):
    run = await harness.held(joins=Joins(PARENT, 4))
    assert run.joins == Joins(PARENT, 4)


async def test_a_claim_hands_out_the_deadline(harness):
    run = await harness.held(timeout_ms=1_000)
    assert (run.queued_at, run.deadline_at) == (NOON, NOON + 1_000)


async def test_the_deadline_of_a_delayed_run_counts_from_the_moment_it_falls_due(harness):
    started = await harness.start(delay_ms=500, timeout_ms=1_000)
    assert await harness.task(started.run_id, "deadline_at") == (NOON + 1_500,)


async def test_a_claim_hands_out_how_often_the_run_was_tried_again(harness):
    await harness.enrol()
    await harness.start()
    await harness.sql("update stepfast.task set tries = :tries", tries=3)
    assert [run.tries for run in await harness.claim()] == [3]


async def test_a_claim_writes_its_event_and_counts_it(harness, store):
    run = await harness.held()
    event = (await store.events(run.run_id))[-1]
    assert (event.seq, event.type, event.token) == (run.last_event, "claimed", run.token) == (2, "claimed", 1)
    assert json.loads(event.data) == {"worker": "w1", "label": "first"}


async def test_every_claim_raises_the_token(harness):
    run = await harness.held()
    await harness.save(hand_back(run))
    (again,) = await harness.claim()
    assert again.token > run.token


async def test_a_claim_tells_how_far_the_records_go(harness):
    run = await harness.held()
    await harness.save(step(run), step(run), hand_back(run))
    (again,) = await harness.claim()
    assert (again.last_seq, again.last_event, again.claims) == (2, 6, 2)


async def test_a_run_is_claimed_once(harness):
    await harness.enrol("w2")
    await harness.held("w1")
    assert await harness.claim(worker="w2") == []


async def test_an_unknown_worker_gets_nothing(harness):
    await harness.start()
    assert await harness.claim(worker="nobody") == []


async def test_a_dead_worker_gets_nothing(harness, store):
    await store.retire(await harness.enrol())
    await harness.start()
    assert await harness.claim() == []


async def test_a_run_that_a_person_holds_is_not_claimed(harness):
    await harness.enrol()
    await harness.start()
    await harness.sql("update stepfast.task set hold = :hold", hold=1)
    assert await harness.claim() == []


async def test_a_run_of_another_queue_is_not_claimed(harness):
    await harness.enrol()
    await harness.start(queue="slow")
    assert await harness.claim() == []


async def test_several_queues_are_served_in_one_claim(harness, store):
    worker_id = await harness.enrol()
    await harness.start(queue="slow")
    await harness.start(queue="fast")
    claimed = await store.claim(Claim(worker_id, [QueueRoom("fast", 1), QueueRoom("slow", 1)], ["order@1"], 10))
    assert [run.queue for run in claimed.runs] == ["fast", "slow"]


async def test_no_more_runs_are_claimed_than_there_is_room(harness):
    await harness.enrol()
    await harness.start_many(5)
    assert len(await harness.claim(room=3)) == 3


async def test_a_claim_without_room_takes_nothing(harness):
    await harness.enrol()
    await harness.start()
    assert await harness.claim(room=0) == []


async def test_code_that_the_worker_lacks_is_passed_over(harness):
    await harness.enrol()
    await harness.start_many(20, code="unknown@1")
    known = await harness.start()
    assert [run.run_id for run in await harness.claim(room=5)] == [known.run_id]


async def test_runs_of_several_codes_come_by_place(harness):
    await harness.enrol()
    expected = []
    for code in ("b@1", "a@1", "b@1", "a@1"):
        await harness.advance(1)
        expected.append((await harness.start(code=code)).run_id)
    assert [run.run_id for run in await harness.claim(codes=["a@1", "b@1"])] == expected


async def test_a_long_line_of_several_codes_stays_in_order_over_many_bursts(harness):
    await harness.enrol()
    expected = []
    for number in range(30):
        await harness.advance(1)
        expected.append((await harness.start(code="a@1" if number % 5 else "b@1")).run_id)
    assert [run.run_id for run in await harness.claim(codes=["a@1", "b@1"], burst=2)] == expected


async def test_higher_priority_goes_first(harness):
    await harness.enrol()
    await harness.start()
    urgent = await harness.start(priority=1)
    assert [run.run_id for run in await harness.claim(room=1)] == [urgent.run_id]


async def test_an_hour_of_waiting_makes_up_for_a_level_of_priority(harness):
    await harness.enrol()
    patient = await harness.start()
    await harness.advance(HOUR_MS + 1)
    await harness.start(priority=1)
    assert [run.run_id for run in await harness.claim(room=1)] == [patient.run_id]


async def test_a_run_handed_back_keeps_its_place(harness):
    run = await harness.held()
    await harness.advance(1)
    await harness.start()
    await harness.save(hand_back(run))
    assert [held.run_id for held in await harness.claim(room=1)] == [run.run_id]


async def test_tenants_take_turns_by_bursts(harness):
    await harness.enrol()
    for tenant in ("a", "b", "c"):
        await harness.start_many(5, tenant=tenant)
    assert [run.tenant for run in await harness.claim(room=6, burst=2)] == list("aabbcc")


async def test_the_turn_begins_after_the_tenant_served_last(harness):
    await harness.enrol()
    for tenant in ("a", "b", "c"):
        await harness.start_many(2, tenant=tenant)
    assert [run.tenant for run in await harness.claim(room=3, burst=1, after="b")] == ["c", "a", "b"]


async def test_room_left_after_a_round_is_filled_by_the_next(harness):
    await harness.enrol()
    await harness.start_many(1, tenant="a")
    await harness.start_many(5, tenant="b")
    assert [run.tenant for run in await harness.claim(room=5, burst=1)] == list("abbbb")


async def test_one_tenant_alone_is_not_slowed_by_the_burst(harness):
    await harness.enrol()
    ids = await harness.start_many(50)
    assert [run.run_id for run in await harness.claim(room=50, burst=1)] == ids


async def test_only_the_tenants_asked_for_are_served(harness):
    await harness.enrol()
    for tenant in ("a", "b", "c", "d"):
        await harness.start_many(2, tenant=tenant)
    assert {run.tenant for run in await harness.claim(tenants=["d", "b", "x"])} == {"b", "d"}


async def test_no_tenants_are_none(harness):
    await harness.enrol()
    await harness.start()
    assert await harness.claim(tenants=[]) == []


async def test_a_delayed_run_is_not_claimed_early(harness):
    await harness.enrol()
    await harness.start(delay_ms=500)
    await harness.advance(499)
    assert await harness.claim() == []


async def test_a_delayed_run_is_claimed_when_it_falls_due(harness):
    await harness.enrol()
    started = await harness.start(delay_ms=500)
    await harness.advance(500)
    assert [run.run_id for run in await harness.claim()] == [started.run_id]


async def test_a_claimed_run_waits_for_its_delay_no_more(harness):
    await harness.enrol()
    await harness.start(delay_ms=500)
    await harness.advance(500)
    await harness.claim()
    assert await harness.sql("select count(*) from stepfast.wait") == [(0,)]


async def test_a_claim_leaves_what_the_run_itself_waits_for(harness):
    run = await harness.held()
    await harness.save(park(run, wait(kind=WaitKind.TIME, due_in_ms=100)))
    await harness.advance(100)
    await harness.claim()
    assert await harness.sql("select kind from stepfast.wait") == [("time",)]


async def test_a_due_run_that_a_person_holds_stays(harness):
    await harness.enrol()
    await harness.start(delay_ms=500)
    await harness.sql("update stepfast.task set hold = :hold", hold=1)
    await harness.advance(500)
    assert await harness.claim() == []


async def test_a_claim_tells_when_the_next_run_falls_due(harness):
    await harness.enrol()
    await harness.start(delay_ms=700)
    await harness.start(delay_ms=500, code="unknown@1")
    assert (await harness.ask()).next_due_at == NOON + 500


async def test_a_claim_tells_nothing_of_other_queues(harness):
    await harness.enrol()
    await harness.start(delay_ms=700, queue="slow")
    assert (await harness.ask()).next_due_at is None


@pytest.mark.parametrize("count", [1, 7])
async def test_a_later_generation_is_claimed_with_its_own_input_and_version(harness, count):
    await harness.enrol()
    started = await harness.start()
    for number in range(2, 2 + count):
        await harness.sql(
            "insert into stepfast.generation (run_id, generation, tenant, version, code, input, cause, opened_at)"
            " values (:run_id, :number, 'acme', 9, 'order@9', '{}', 'rerun', 0)",
            run_id=started.run_id,
            number=number,
        )
    await harness.sql("update stepfast.task set generation = :number", number=1 + count)
    (run,) = await harness.claim()
    assert (run.generation, run.version, run.input) == (1 + count, 9, "{}")


async def claim_run(harness, run_id, worker: str = "w1", codes=("order@1",)):
    return await harness.store.claim_run(WorkerId(worker), run_id, codes)


async def test_a_given_run_is_claimed_before_those_that_stand_in_front_of_it(harness, store):
    await harness.enrol()
    _, _, last = await harness.start_many(3)
    run = await claim_run(harness, last)
    assert (run.run_id, run.worker_id, run.token, run.claims) == (last, "w1", 1, 1)
    event = (await store.events(last))[-1]
    assert (event.seq, event.type, event.token) == (run.last_event, "claimed", run.token)
    assert json.loads(event.data) == {"worker": "w1", "label": "first"}


async def test_a_given_run_that_is_claimed_is_held_like_any_other(harness, store):
    await harness.enrol()
    run = await claim_run(harness, (await harness.start()).run_id)
    assert await harness.claim() == []
    assert await harness.save(step(run)) == [Saving.SAVED]
    assert [held.run_id for held in (await store.beat(run.worker_id)).holdings] == [run.run_id]


async def test_a_given_run_that_is_due_is_claimed(harness):
    await harness.enrol()
    started = await harness.start(delay_ms=500)
    assert await claim_run(harness, started.run_id) is None
    await harness.advance(500)
    run = await claim_run(harness, started.run_id)
    assert run.run_id == started.run_id
    assert await harness.sql("select count(*) from stepfast.wait") == [(0,)]


async def test_a_given_run_that_is_a_suspect_is_claimed(harness):
    run = await harness.held()
    await harness.bury()
    await harness.enrol("w2")
    assert (await claim_run(harness, run.run_id, "w2")).crashes == 1


async def test_a_given_run_that_waits_is_not_claimed(harness):
    run = await harness.held()
    await harness.save(park(run, wait()))
    assert await claim_run(harness, run.run_id) is None


async def test_a_given_run_that_a_worker_holds_is_not_claimed(harness):
    run = await harness.held()
    await harness.enrol("w2")
    assert await claim_run(harness, run.run_id, "w2") is None


async def test_a_given_run_that_is_paused_is_not_claimed(harness):
    await harness.enrol()
    started = await harness.start()
    await harness.change(started.run_id, Pause())
    assert await claim_run(harness, started.run_id) is None


async def test_a_given_run_of_code_that_the_worker_lacks_is_not_claimed(harness):
    await harness.enrol()
    started = await harness.start()
    assert await claim_run(harness, started.run_id, codes=("other@1",)) is None


async def test_a_given_run_that_has_ended_or_never_was_is_not_claimed(harness):
    run = await harness.held()
    await harness.save(end(run))
    assert await claim_run(harness, run.run_id) is None
    assert await claim_run(harness, harness.new_run().run_id) is None


async def test_a_dead_worker_is_not_given_a_run(harness, store):
    await store.retire(await harness.enrol())
    started = await harness.start()
    assert await claim_run(harness, started.run_id) is None
    assert await harness.state(started.run_id) is RunState.PENDING
