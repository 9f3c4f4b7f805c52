"""Parking, handing back, children, and what wakes a run."""

from __future__ import annotations

import json

import pytest

from stepfast.kernel.commands import Rerun
from stepfast.kernel.errors import KeyReused, RowsRefused
from stepfast.kernel.exchange import Delivery, Saving
from stepfast.kernel.states import RunState, WaitKind
from tests.stores.harness import NOON, decide, end, hand_back, joins, park, step, wait


async def parent_of(harness, children: int, need: int, spare: int = 0, parked: bool = True):
    """A parent that waits for a group of children, and the children as their worker holds them."""
    parent = await harness.held()
    group = wait(kind=WaitKind.CHILDREN, need=need, spare=spare)
    born = [harness.new_run(joins=joins(parent), queue="children") for _ in range(children)]
    await harness.save(decide(parent, opened=(group,), children=born))
    if parked:
        await harness.save(park(parent))
    return parent, await harness.claim(queue="children")


async def test_a_parked_run_is_waiting(harness):
    run = await harness.held()
    assert await harness.save(park(run, wait())) == [Saving.SAVED]
    assert await harness.state(run.run_id) is RunState.WAITING


async def test_a_parked_run_has_no_holder(harness, store):
    run = await harness.held()
    await harness.save(park(run, wait()))
    assert (await store.beat(run.worker_id)).holdings == []


async def test_a_parked_run_is_not_claimed_while_nothing_comes(harness):
    run = await harness.held()
    await harness.save(park(run, wait()))
    await harness.advance(10**9)
    assert await harness.claim() == []


async def test_a_parked_run_waits_at_the_latest_for_the_first_of_its_waits(harness):
    run = await harness.held()
    await harness.save(park(run, wait(1, due_in_ms=900), wait(2, due_in_ms=300), wait(3)))
    assert await harness.task(run.run_id, "due_at, since_at") == (NOON + 300, NOON)


async def test_waits_opened_earlier_count_too(harness):
    run = await harness.held()
    await harness.save(decide(run, opened=(wait(1, due_in_ms=100),)))
    await harness.save(park(run, wait(2, due_in_ms=900)))
    assert await harness.task(run.run_id, "due_at") == (NOON + 100,)


async def test_a_closed_wait_is_gone(harness):
    run = await harness.held()
    await harness.save(decide(run, opened=(wait(1), wait(2))))
    await harness.save(decide(run, closed=(1,)))
    assert await harness.sql("select wait_id from stepfast.wait") == [(2,)]


async def test_what_was_taken_from_the_inbox_is_gone(harness):
    run = await harness.held()
    for n in (1, 2):
        await harness.sql(
            "insert into stepfast.inbox (run_id, n, tenant, kind, name, at)"
            " values (:run_id, :n, 'acme', 'signal', 'paid', 0)",
            run_id=run.run_id,
            n=n,
        )
    await harness.save(decide(run, taken=(1,)))
    assert await harness.sql("select n from stepfast.inbox") == [(2,)]


async def test_an_ended_run_leaves_no_wait_and_no_inbox(harness):
    run = await harness.held()
    await harness.save(decide(run, opened=(wait(1),)))
    await harness.sql(
        "insert into stepfast.inbox (run_id, n, tenant, kind, name, at) values (:id, 1, 'acme', 'signal', 'paid', 0)",
        id=run.run_id,
    )
    await harness.save(end(run))
    assert await harness.sql("select run_id from stepfast.wait union select run_id from stepfast.inbox") == []


async def test_a_run_is_not_parked_when_something_has_come(harness):
    run = await harness.held()
    await harness.sql("update stepfast.task set wakes = :wakes", wakes=1)
    assert await harness.save(park(run, wait())) == [Saving.WOKEN]
    assert await harness.task(run.run_id, "state") == ("leased",)


async def test_a_refused_park_writes_nothing(harness, store):
    run = await harness.held()
    await harness.sql("update stepfast.task set wakes = :wakes", wakes=1)
    await harness.save(park(run, wait()))
    assert await harness.sql("select count(*) from stepfast.wait") == [(0,)]
    assert len(await store.events(run.run_id)) == 2


async def test_a_park_that_has_seen_what_came_is_saved(harness):
    run = await harness.held()
    await harness.sql("update stepfast.task set wakes = :wakes", wakes=1)
    assert await harness.save(park(run, wait(), wakes=1)) == [Saving.SAVED]


async def test_a_decision_after_a_park_in_the_same_batch_is_lost(harness):
    run = await harness.held()
    assert await harness.save(park(run, wait()), step(run)) == [Saving.SAVED, Saving.LOST]


async def test_a_run_handed_back_is_ready_with_its_token_raised(harness):
    run = await harness.held()
    await harness.save(hand_back(run))
    assert await harness.task(run.run_id, "state, worker_id, token, crashes") == ("ready", None, run.token + 1, 0)


async def test_a_run_handed_back_is_running_to_people(harness):
    run = await harness.held()
    await harness.save(hand_back(run))
    assert await harness.state(run.run_id) is RunState.RUNNING


async def test_a_run_handed_back_for_later_is_pending(harness):
    run = await harness.held()
    await harness.save(hand_back(run, delay_ms=500))
    assert await harness.state(run.run_id) is RunState.PENDING


async def test_a_run_handed_back_for_later_raises_its_token(harness):
    run = await harness.held()
    await harness.save(hand_back(run, delay_ms=500))
    assert await harness.task(run.run_id, "state, due_at, token") == ("waiting", NOON + 500, run.token + 1)


async def test_a_run_handed_back_for_later_is_not_claimed_early(harness):
    run = await harness.held()
    await harness.save(hand_back(run, delay_ms=500))
    await harness.advance(499)
    assert await harness.claim() == []


async def test_a_run_may_be_handed_back_for_later_again_and_again(harness):
    run = await harness.held()
    for _ in range(3):
        assert await harness.save(hand_back(run, delay_ms=500)) == [Saving.SAVED]
        await harness.advance(500)
        (run,) = await harness.claim()
    assert run.claims == 4


async def test_children_are_started_with_the_decision(harness, store):
    parent, children = await parent_of(harness, children=3, need=3)
    view = await store.run("acme", children[0].run_id)
    assert (len(children), view.parent_id) == (3, parent.run_id)


async def test_a_decision_that_is_lost_starts_no_children(harness):
    run = await harness.held()
    decision = decide(run, children=(harness.new_run(),))
    decision.fence = decision.fence._replace(token=9)
    await harness.save(decision)
    assert await harness.sql("select count(*) from stepfast.run") == [(1,)]


async def test_a_child_whose_key_belongs_to_another_body_refuses_the_batch(harness):
    run = await harness.held()
    await harness.start(key="k", queue="other")
    with pytest.raises(RowsRefused, match="belongs to run"):
        await harness.save(decide(run, children=(harness.new_run(key="k", digest="other"),)))


async def test_the_parent_waits_while_the_join_is_open(harness):
    parent, children = await parent_of(harness, children=3, need=3)
    await harness.save(end(children[0]), end(children[1]))
    assert await harness.task(parent.run_id, "state, wakes") == ("waiting", 0)


async def test_the_last_child_needed_wakes_the_parent(harness):
    parent, children = await parent_of(harness, children=3, need=3)
    await harness.save(end(children[0]), end(children[1]))
    await harness.save(end(children[2]))
    assert await harness.task(parent.run_id, "state, wakes, due_at") == ("ready", 1, None)


async def test_a_join_decided_by_one_batch_wakes_once(harness):
    parent, children = await parent_of(harness, children=5, need=2)
    await harness.save(*(end(child) for child in children))
    assert await harness.task(parent.run_id, "wakes") == (1,)


async def test_children_that_end_after_the_join_wake_nobody(harness):
    parent, children = await parent_of(harness, children=3, need=1)
    await harness.save(end(children[0]))
    await harness.save(end(children[1]))
    await harness.save(end(children[2], RunState.FAILED))
    assert await harness.task(parent.run_id, "wakes") == (1,)


async def test_a_join_that_can_no_longer_be_met_wakes_the_parent(harness):
    parent, children = await parent_of(harness, children=3, need=2, spare=1)
    await harness.save(end(children[0], RunState.FAILED))
    assert await harness.task(parent.run_id, "wakes") == (0,)
    await harness.save(end(children[1], RunState.CANCELLED))
    assert await harness.task(parent.run_id, "state, wakes") == ("ready", 1)


async def test_all_children_are_counted(harness):
    _, children = await parent_of(harness, children=4, need=4)
    await harness.save(end(children[0]), end(children[1], RunState.FAILED), end(children[2]))
    assert await harness.sql("select got, failed from stepfast.wait") == [(2, 1)]


async def test_a_parent_that_still_runs_learns_by_its_wakes(harness):
    parent, children = await parent_of(harness, children=1, need=1, parked=False)
    await harness.save(end(children[0]))
    assert await harness.task(parent.run_id, "state, wakes") == ("leased", 1)
    assert await harness.save(park(parent)) == [Saving.WOKEN]


@pytest.mark.parametrize("child_first", [True, False])
async def test_a_child_that_ends_in_the_batch_in_which_its_parent_parks_is_not_lost(harness, child_first):
    parent, (child,) = await parent_of(harness, children=1, need=1, parked=False)
    batch = [end(child), park(parent)] if child_first else [park(parent), end(child)]
    answers = dict(zip((d.fence.run_id for d in batch), await harness.save(*batch), strict=True))
    parked = answers[parent.run_id] is Saving.SAVED
    assert await harness.task(parent.run_id, "state, wakes") == ("ready" if parked else "leased", 1)


async def test_a_parent_that_a_person_holds_is_not_made_ready(harness):
    parent, children = await parent_of(harness, children=1, need=1)
    await harness.sql("update stepfast.task set hold = :hold where run_id = :id", hold=1, id=parent.run_id)
    await harness.save(end(children[0]))
    assert await harness.task(parent.run_id, "state, wakes") == ("waiting", 1)
    assert await harness.state(parent.run_id) is RunState.PAUSED


async def test_a_child_may_end_after_its_parent(harness):
    parent, children = await parent_of(harness, children=1, need=1, parked=False)
    await harness.save(end(parent))
    assert await harness.save(end(children[0])) == [Saving.SAVED]


async def test_the_woken_parent_is_claimed_again(harness):
    parent, children = await parent_of(harness, children=1, need=1)
    await harness.save(end(children[0]))
    assert [(run.run_id, run.wakes) for run in await harness.claim()] == [(parent.run_id, 1)]


async def test_what_follows_a_park_that_was_woken_is_not_saved_in_the_same_commit(harness):
    run = await harness.held()
    await harness.store.deliver(Delivery(run.run_id, None, "signal", "paid", "1"))
    assert await harness.save(park(run, wait()), step(run)) == [Saving.WOKEN, Saving.LOST]


async def test_a_run_can_wait_for_code_again_after_something_else_woke_it(harness):
    run = await harness.held()
    for_code = wait(-1, WaitKind.CODE, name="order@1")
    await harness.save(park(run, for_code, wait(1, WaitKind.TIME, due_in_ms=1_000)))
    await harness.advance(1_000)
    (run,) = await harness.claim()
    assert await harness.save(park(run, for_code)) == [Saving.SAVED]


async def test_a_delivery_that_comes_again_is_answered_as_the_first_time(harness, store):
    started = await harness.start()
    await harness.enrol()
    paid = Delivery(started.run_id, None, "signal", "paid", "1", key="k", digest="d")
    first = await store.deliver(paid)
    (run,) = await harness.claim()
    again = await store.deliver(paid)
    assert (first.state, again.state, len((await store.look(run.run_id)).inbox)) == (RunState.PENDING,) * 2 + (1,)


async def test_a_delivery_that_comes_again_after_the_end_is_answered_as_the_first_time(harness, store):
    run = await harness.held()
    paid = Delivery(run.run_id, None, "signal", "paid", "1", key="k", digest="d")
    first = await store.deliver(paid)
    await harness.save(end(run))
    assert (first.state, (await store.deliver(paid)).state) == (RunState.RUNNING, RunState.RUNNING)


async def test_a_key_that_was_used_for_another_delivery_is_refused_after_the_end_too(harness, store):
    run = await harness.held()
    paid = Delivery(run.run_id, None, "signal", "paid", "1", key="k", digest="d")
    await store.deliver(paid)
    await harness.save(end(run))
    with pytest.raises(KeyReused):
        await store.deliver(paid._replace(value="2", digest="other"))


async def test_a_delivery_to_an_ended_run_uses_up_no_key(harness, store):
    run = await harness.held()
    await harness.save(end(run))
    paid = Delivery(run.run_id, None, "signal", "paid", "1", key="k", digest="d")
    assert (await store.deliver(paid)).state is RunState.COMPLETED
    await harness.change(run.run_id, Rerun())
    assert (await store.deliver(paid)).state is RunState.PENDING
    assert len((await store.look(run.run_id)).inbox) == 1


async def test_the_reason_of_a_delivery_is_in_its_event(harness, store):
    started = await harness.start()
    await store.deliver(Delivery(started.run_id, None, "signal", "paid", "1", reason='by "phone"'))
    (_, event) = await store.events(started.run_id)
    assert json.loads(event.data) == {"name": "paid", "n": 1, "reason": 'by "phone"'}


async def test_a_delivery_to_a_held_run_keeps_its_reason_for_the_holder(harness, store):
    run = await harness.held()
    await store.deliver(Delivery(run.run_id, None, "signal", "paid", "1", reason="by phone"))
    await store.deliver(Delivery(run.run_id, None, "signal", "paid", "2"))
    assert [message.reason for message in (await store.look(run.run_id)).inbox] == ["by phone", None]
