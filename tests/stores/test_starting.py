"""Starting runs: rows, keys, delays, and being born leased."""

from __future__ import annotations

import json

import pytest

from stepfast.kernel.errors import KeyReused, RowsRefused
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.states import RunState
from tests.stores.harness import HOUR_MS, NOON


async def test_a_started_run_is_pending(harness):
    started = await harness.start()
    assert await harness.state(started.run_id) is RunState.PENDING


async def test_a_started_run_was_queued_at_the_moment_of_the_store(harness):
    await harness.advance(5)
    assert (await harness.start()).queued_at == NOON + 5


async def test_a_started_run_keeps_all_that_was_said_of_it(harness, store):
    given = dict(actor="ann", correlation_id="c", causation_id="k", thread_id="th", subject="s", metadata='{"m":1}')
    started = await harness.start(**given)
    view = await store.run("acme", started.run_id)
    assert {name: getattr(view, name) for name in given} == given


async def test_a_started_run_remembers_how_long_each_of_its_generations_may_take(harness):
    await harness.start(timeout_ms=1_000)
    assert await harness.sql("select timeout_ms from stepfast.run") == [(1_000,)]


async def test_the_first_event_says_what_was_queued(harness, store):
    started = await harness.start(actor="ann")
    (event,) = await store.events(started.run_id)
    assert (event.seq, event.type, event.actor, json.loads(event.data)) == (
        1,
        "queued",
        "ann",
        {"workflow": "order", "version": 1},
    )


async def test_answers_come_in_the_order_of_the_runs(harness, store):
    runs = [harness.new_run() for _ in range(5)]
    answers = await store.start(runs, None)
    assert [answer.run_id for answer in answers] == [run.run_id for run in runs]


async def test_the_same_key_answers_with_the_earlier_run(harness):
    first = await harness.start(key="k")
    await harness.advance(1_000)
    again = await harness.start(key="k")
    assert (again.run_id, again.fresh, again.queued_at) == (first.run_id, False, first.queued_at)


async def test_the_same_key_stores_no_second_run(harness):
    await harness.start(key="k")
    await harness.start(key="k")
    assert await harness.sql("select count(*) from stepfast.run") == [(1,)]


async def test_the_same_key_twice_in_one_batch_is_one_run(harness, store):
    first, second = await store.start([harness.new_run(key="k"), harness.new_run(key="k")], None)
    assert (second.run_id, first.fresh, second.fresh) == (first.run_id, True, False)


async def test_the_same_key_of_another_tenant_is_another_run(harness):
    first = await harness.start(key="k")
    other = await harness.start(key="k", tenant="globex")
    assert (other.fresh, other.run_id == first.run_id) == (True, False)


async def test_the_same_key_with_another_body_names_the_run_it_belongs_to(harness):
    first = await harness.start(key="k")
    with pytest.raises(KeyReused, match=first.run_id):
        await harness.start(key="k", digest="other")


async def test_the_same_key_with_another_body_stores_none_of_the_batch(harness, store):
    await harness.start(key="k")
    with pytest.raises(KeyReused):
        await store.start([harness.new_run(), harness.new_run(key="k", digest="other")], None)
    assert await harness.sql("select count(*) from stepfast.run") == [(1,)]


async def test_another_body_within_one_batch_is_refused(harness, store):
    with pytest.raises(KeyReused):
        await store.start([harness.new_run(key="k"), harness.new_run(key="k", digest="other")], None)


async def test_a_key_stays_taken_after_its_run_has_ended(harness):
    first = await harness.start(key="k")
    await harness.sql("delete from stepfast.task where run_id = :run_id", run_id=first.run_id)
    assert not (await harness.start(key="k")).fresh


async def test_a_run_id_that_exists_is_refused(harness, store):
    run = harness.new_run()
    await store.start([run], None)
    with pytest.raises(RowsRefused):
        await store.start([run], None)


async def test_a_tag_said_twice_is_one_tag(harness):
    started = await harness.start(tags=("a", "a", "b"))
    rows = await harness.sql("select tag from stepfast.run_tag where run_id = :id order by tag", id=started.run_id)
    assert [tuple(row) for row in rows] == [("a",), ("b",)]


async def test_the_place_is_the_moment_less_an_hour_for_each_level_of_priority(harness):
    started = await harness.start(priority=2)
    assert await harness.task(started.run_id, "place") == (NOON - 2 * HOUR_MS,)


async def test_the_place_of_a_delayed_run_is_when_it_falls_due(harness):
    started = await harness.start(delay_ms=500)
    assert await harness.task(started.run_id, "place") == (NOON + 500,)


async def test_the_deadline_counts_from_when_the_run_falls_due(harness):
    started = await harness.start(delay_ms=500, timeout_ms=1_000)
    assert await harness.task(started.run_id, "deadline_at") == (NOON + 1_500,)


async def test_a_delayed_run_is_pending(harness):
    started = await harness.start(delay_ms=500)
    assert await harness.state(started.run_id) is RunState.PENDING


async def test_a_delayed_run_waits_for_its_moment(harness):
    started = await harness.start(delay_ms=500)
    assert await harness.task(started.run_id, "state, due_at") == ("waiting", NOON + 500)


async def test_the_lane_is_kept(harness):
    started = await harness.start(lane="acme/slow")
    assert await harness.task(started.run_id, "lane") == ("acme/slow",)


async def test_a_run_of_an_idle_queue_is_born_leased(harness):
    await harness.enrol()
    started = await harness.start(holder="w1")
    assert started.token == 1
    assert await harness.task(started.run_id, "state, worker_id, token, claims") == ("leased", "w1", 1, 1)


async def test_a_run_born_leased_has_the_event_of_its_claim(harness, store):
    await harness.enrol()
    started = await harness.start(holder="w1")
    queued, claimed = await store.events(started.run_id)
    assert (queued.type, claimed.seq, claimed.type, claimed.token) == ("queued", 2, "claimed", 1)
    assert json.loads(claimed.data)["worker"] == "w1"


async def test_all_runs_of_a_batch_are_born_leased(harness, store):
    worker_id = await harness.enrol()
    answers = await store.start([harness.new_run(), harness.new_run()], worker_id)
    assert [answer.token for answer in answers] == [1, 1]


async def test_a_run_is_not_born_leased_while_its_queue_has_something_ready(harness):
    await harness.enrol()
    await harness.start()
    assert (await harness.start(holder="w1")).token is None


async def test_something_ready_in_another_queue_does_not_matter(harness):
    await harness.enrol()
    await harness.start(queue="slow")
    assert (await harness.start(holder="w1")).token == 1


async def test_something_ready_that_a_person_holds_does_not_matter(harness):
    await harness.enrol()
    await harness.start()
    await harness.sql("update stepfast.task set hold = :hold", hold=1)
    assert (await harness.start(holder="w1")).token == 1


async def test_a_delayed_run_is_not_born_leased(harness):
    await harness.enrol()
    assert (await harness.start(holder="w1", delay_ms=1)).token is None


async def test_an_unknown_worker_gets_no_run_at_birth(harness, store):
    (started,) = await store.start([harness.new_run()], WorkerId("nobody"))
    assert started.token is None


async def test_a_dead_worker_gets_no_run_at_birth(harness, store):
    await store.retire(await harness.enrol())
    assert (await harness.start(holder="w1")).token is None


async def test_a_run_born_leased_is_among_the_holdings_of_its_worker(harness, store):
    worker_id = await harness.enrol()
    started = await harness.start(holder="w1")
    assert [held.run_id for held in (await store.beat(worker_id)).holdings] == [started.run_id]


async def test_the_first_event_of_a_run_says_what_brought_it_about(harness):
    await harness.enrol()
    await harness.start(holder="w1", causation_id="order-17", actor="ann")
    events = await harness.sql("select type, causation_id, actor from stepfast.event order by seq")
    assert events == [("queued", "order-17", "ann"), ("claimed", None, None)]
