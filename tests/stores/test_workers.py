"""Workers: announced, heard of, gone; and what becomes of their runs."""

from __future__ import annotations

import asyncio
import json

import pytest

from stepfast.kernel.commands import Pause, TimeOut
from stepfast.kernel.exchange import Holding, Saving
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.states import RunState, WaitKind
from tests.stores.harness import HOUR_MS, LEASE_MS, NOON, VERDICT, decide, end, joins, park, step, wait


async def crash_alone(harness, worker: str, max_crashes: int = 3):
    """A worker claims what there is and is never heard of again."""
    await harness.enrol(worker)
    if not await harness.claim(worker=worker):
        await harness.claim(worker=worker, suspects=[100])
    return await harness.bury(worker, max_crashes)


async def test_an_enrolled_worker_is_listed_as_it_announced_itself(harness, store):
    await harness.enrol(queues=("a", "b"), codes=("x@1",), label="blue")
    (worker,) = await store.workers()
    assert (worker.worker_id, worker.label, worker.queues, worker.codes, worker.lease_ms, worker.dead_at) == (
        "w1",
        "blue",
        ("a", "b"),
        ("x@1",),
        LEASE_MS,
        None,
    )


async def test_enrolling_answers_with_the_moment(harness, store):
    await harness.advance(9)
    await harness.enrol()
    assert [worker.seen_at for worker in await store.workers()] == [NOON + 9]


async def test_a_worker_may_announce_itself_again_with_more_code(harness, store):
    await harness.enrol()
    await harness.enrol(codes=("order@1", "order@2"))
    (worker,) = await store.workers()
    assert worker.codes == ("order@1", "order@2")


async def test_an_id_that_was_buried_stays_dead(harness, store):
    worker_id = await harness.enrol()
    await harness.bury()
    await harness.enrol()
    assert not (await store.beat(worker_id)).alive


async def test_workers_that_died_long_ago_are_not_listed(harness, store):
    await store.retire(await harness.enrol())
    assert len(await store.workers()) == 1
    await harness.advance(HOUR_MS)
    assert await store.workers() == []


async def test_a_heartbeat_answers_with_the_moment(harness, store):
    worker_id = await harness.enrol()
    await harness.advance(100)
    beat = await store.beat(worker_id)
    assert (beat.now, beat.alive, beat.holdings) == (NOON + 100, True, [])


async def test_a_heartbeat_lists_what_the_worker_holds(harness, store):
    run = await harness.held()
    assert (await store.beat(run.worker_id)).holdings == [Holding(run.run_id, run.token, 0, False)]


async def test_a_heartbeat_tells_of_wakes_and_hold(harness, store):
    run = await harness.held()
    await harness.sql("update stepfast.task set hold = :hold, wakes = :wakes", hold=1, wakes=2)
    assert (await store.beat(run.worker_id)).holdings == [Holding(run.run_id, run.token, 2, True)]


async def test_a_heartbeat_does_not_list_what_others_hold(harness, store):
    await harness.held("w1")
    assert (await store.beat(await harness.enrol("w2"))).holdings == []


async def test_an_unknown_worker_is_not_alive(store):
    assert not (await store.beat(WorkerId("nobody"))).alive


async def test_a_heartbeat_may_come_from_another_thread_and_loop(harness, store):
    worker_id = await harness.enrol()
    beat = await asyncio.to_thread(lambda: asyncio.run(store.beat(worker_id)))
    assert beat.alive


async def test_a_worker_that_beats_is_not_buried(harness, store):
    worker_id = await harness.enrol()
    await harness.advance(LEASE_MS)
    await store.beat(worker_id)
    await harness.advance(LEASE_MS)
    assert (await harness.upkeep()).buried == []


async def test_a_worker_is_buried_when_its_lease_has_run_out(harness):
    await harness.enrol()
    await harness.advance(LEASE_MS)
    assert (await harness.upkeep()).buried == []
    await harness.advance(1)
    assert (await harness.upkeep()).buried == ["w1"]


async def test_a_pass_says_when_the_next_lease_is_over(harness):
    first = await harness.upkeep()
    await harness.enrol()
    begun = await harness.store.now()
    second = await harness.upkeep()
    await harness.advance(second.silent_at - begun + 1)
    assert first.silent_at is None
    assert len((await harness.upkeep()).buried) == 1


async def test_who_may_not_bury_buries_nobody(harness):
    await harness.enrol()
    await harness.advance(10 * LEASE_MS)
    assert (await harness.upkeep(may_bury=False)).buried == []


async def test_a_worker_is_buried_once(harness):
    await harness.enrol()
    await harness.bury()
    assert (await harness.upkeep()).buried == []


async def test_a_buried_worker_learns_it_from_its_heartbeat(harness, store):
    run = await harness.held()
    await harness.bury()
    beat = await store.beat(run.worker_id)
    assert (beat.alive, beat.holdings) == (False, [])


async def test_the_run_of_a_buried_worker_goes_back_to_the_line(harness):
    run = await harness.held()
    report = await harness.bury()
    assert report.returned == [run.run_id]
    assert await harness.task(run.run_id, "state, worker_id, token, crashes") == ("ready", None, run.token + 1, 1)


async def test_the_run_of_a_buried_worker_keeps_its_place(harness):
    run = await harness.held()
    before = await harness.task(run.run_id, "place")
    await harness.bury()
    assert await harness.task(run.run_id, "place") == before


async def test_runs_of_the_dead_go_back_in_a_pass_that_may_not_bury(harness):
    run = await harness.held()
    await harness.sql("update stepfast.worker set dead_at = :now", now=NOON)
    assert (await harness.upkeep(may_bury=False)).returned == [run.run_id]


async def test_runs_of_an_unknown_worker_go_back(harness):
    run = await harness.held()
    await harness.sql("delete from stepfast.worker where worker_id = :id", id="w1")
    assert (await harness.upkeep()).returned == [run.run_id]


async def test_runs_of_the_living_stay(harness, store):
    lost = await harness.held("w1")
    await harness.advance(LEASE_MS)
    kept = await harness.held("w2")
    await harness.advance(1)
    report = await harness.upkeep()
    assert (report.buried, report.returned) == (["w1"], [lost.run_id])
    assert [held.run_id for held in (await store.beat(WorkerId("w2"))).holdings] == [kept.run_id]


async def test_a_reaped_run_has_the_event(harness, store):
    run = await harness.held()
    await harness.bury()
    event = (await store.events(run.run_id))[-1]
    assert (event.seq, event.type, json.loads(event.data)) == (3, "reaped", {"worker": "w1", "crashes": 1})


async def test_a_buried_worker_that_comes_back_changes_nothing(harness, store):
    run = await harness.held()
    await harness.bury()
    assert await harness.save(step(run)) == [Saving.LOST]
    assert await store.steps(run.run_id) == []


async def test_a_buried_worker_that_comes_back_under_a_new_id_takes_its_run_up(harness):
    run = await harness.held()
    await harness.bury()
    await harness.enrol("w1-again")
    (again,) = await harness.claim(worker="w1-again", suspects=[100])
    assert (again.run_id, again.token > run.token, again.crashes) == (run.run_id, True, 1)


async def test_a_pass_gives_back_no_more_than_its_limit(harness):
    await harness.enrol()
    await harness.start_many(10)
    await harness.claim()
    assert len((await harness.bury(limit=4)).returned) == 4


async def test_later_passes_give_back_the_rest(harness):
    await harness.enrol()
    await harness.start_many(10)
    await harness.claim()
    first = await harness.bury(limit=4)
    second = await harness.upkeep()
    assert len({*first.returned, *second.returned}) == 10


async def test_a_run_that_the_limit_left_over_is_not_taken_for_one_that_was_alone(harness):
    await harness.enrol()
    await harness.start_many(5)
    await harness.claim()
    await harness.bury(limit=2)
    for _ in range(5):
        await harness.upkeep(limit=2)
    assert await harness.sql("select max(strikes), min(crashes), max(crashes) from stepfast.task") == [(0, 1, 1)]


async def test_a_crash_of_a_worker_that_held_several_runs_is_a_strike_for_none(harness):
    await harness.enrol()
    await harness.start_many(2)
    await harness.claim()
    await harness.bury()
    assert await harness.sql("select distinct crashes, strikes from stepfast.task") == [(1, 0)]


async def test_a_crash_of_a_worker_that_held_one_run_is_a_strike(harness):
    await harness.held()
    await harness.bury()
    assert await harness.sql("select crashes, strikes from stepfast.task") == [(1, 1)]


async def test_a_run_that_crashes_in_company_is_never_failed_for_it(harness):
    await harness.start_many(2)
    for number in range(5):
        report = await crash_alone(harness, f"w{number}", max_crashes=2)
        assert report.failed == []


async def test_a_run_fails_when_its_strikes_are_spent(harness, store):
    started = await harness.start()
    assert (await crash_alone(harness, "w1", 2)).returned == [started.run_id]
    assert (await crash_alone(harness, "w2", 2)).failed == [started.run_id]
    view = await store.run(None, started.run_id)
    assert (view.state, view.error) == (RunState.FAILED, VERDICT.error)


async def test_a_run_whose_strikes_are_spent_becomes_a_dead_letter(harness):
    await harness.start()
    await crash_alone(harness, "w1", max_crashes=1)
    rows = await harness.sql("select workflow, version, error_type, message from stepfast.dead_letter")
    assert [tuple(row) for row in rows] == [("order", 1, VERDICT.error_type, VERDICT.message)]


async def test_the_end_of_such_a_run_is_told_in_order(harness, store):
    started = await harness.start()
    await crash_alone(harness, "w1", max_crashes=1)
    events = await store.events(started.run_id)
    assert [event.type for event in events[2:]] == ["reaped", "dlq_pending", "dlq_recorded", "failed"]
    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]


async def test_the_outcome_of_such_a_run_carries_a_token_above_its_last_holders(harness):
    run = await harness.held()
    await harness.bury(max_crashes=1)
    assert await harness.sql("select token from stepfast.outcome") == [(run.token + 1,)]


async def test_a_child_that_crashes_too_often_counts_as_failed_and_is_no_dead_letter(harness, store):
    parent = await harness.held("w1")
    group = wait(kind=WaitKind.CHILDREN)
    child = harness.new_run(joins=joins(parent), queue="children")
    await harness.save(decide(parent, opened=(group,), children=(child,)))
    await harness.save(park(parent))
    await harness.enrol("w2")
    await harness.claim(worker="w2", queue="children")
    assert (await harness.bury("w2", max_crashes=1)).failed == [child.run_id]
    assert await harness.task(parent.run_id, "state, wakes") == ("ready", 1)
    assert await harness.sql("select count(*) from stepfast.dead_letter") == [(0,)]
    assert [event.type for event in (await store.events(child.run_id))[2:]] == ["reaped", "failed"]


@pytest.mark.parametrize("delay_ms", [0, 50], ids=["ready", "waiting"])
async def test_a_pass_reports_runs_past_their_deadline(harness, delay_ms):
    started = await harness.start(delay_ms=delay_ms, timeout_ms=100 - delay_ms)
    await harness.start()
    await harness.advance(99)
    assert (await harness.upkeep()).overdue == []
    await harness.advance(1)
    assert (await harness.upkeep()).overdue == [started.run_id]
    assert await harness.state(started.run_id) is RunState.PENDING


async def test_a_run_past_its_deadline_is_reported_while_a_person_holds_it(harness):
    started = await harness.start(timeout_ms=100)
    await harness.change(started.run_id, Pause())
    await harness.advance(100)
    assert (await harness.upkeep()).overdue == [started.run_id]


async def test_a_run_past_its_deadline_is_left_to_the_worker_that_holds_it(harness):
    await harness.held(timeout_ms=100)
    await harness.advance(100)
    assert (await harness.upkeep()).overdue == []


async def test_a_run_past_its_deadline_whose_holder_died_is_reported_by_the_same_pass(harness):
    run = await harness.held(timeout_ms=100)
    report = await harness.bury()
    assert (report.returned, report.overdue) == ([run.run_id], [run.run_id])


async def test_a_pass_reports_no_more_overdue_runs_than_its_limit_the_longest_overdue_first(harness):
    late = await harness.start(timeout_ms=100)
    later = await harness.start(timeout_ms=50)
    await harness.start(timeout_ms=150)
    await harness.advance(200)
    assert (await harness.upkeep(limit=2)).overdue == [later.run_id, late.run_id]


async def test_a_run_that_was_timed_out_is_reported_no_more(harness):
    started = await harness.start(timeout_ms=100)
    await harness.advance(100)
    await harness.change(started.run_id, TimeOut(VERDICT))
    assert (await harness.upkeep()).overdue == []


async def test_a_worker_that_retires_hands_everything_back(harness, store):
    await harness.enrol()
    ids = await harness.start_many(3)
    await harness.claim()
    assert sorted(await store.retire(WorkerId("w1"))) == sorted(ids)
    assert await harness.sql("select distinct state, token, crashes from stepfast.task") == [("ready", 2, 0)]


async def test_a_worker_that_retires_is_dead(harness, store):
    worker_id = await harness.enrol()
    await store.retire(worker_id)
    assert not (await store.beat(worker_id)).alive


async def test_a_run_handed_back_by_retiring_has_the_event(harness, store):
    run = await harness.held()
    await store.retire(run.worker_id)
    event = (await store.events(run.run_id))[-1]
    assert (event.seq, event.type, event.token) == (3, "handed_back", run.token + 1)


async def test_retiring_twice_changes_nothing(harness, store):
    run = await harness.held()
    await store.retire(run.worker_id)
    assert await store.retire(run.worker_id) == []


async def test_an_ended_run_is_nobodys_holding(harness, store):
    run = await harness.held()
    await harness.save(end(run))
    assert (await store.beat(run.worker_id)).holdings == []
