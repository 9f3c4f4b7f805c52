"""Rows of both stores that the port does not tell of; what it tells is in the suite of the package."""

from __future__ import annotations

from stepfast.kernel.commands import Cancel, Pause, Resume, RetryRun
from stepfast.kernel.decisions import Continue
from tests.stores.harness import (
    HOUR_MS,
    NOON,
    continued,
    decide,
    end,
    fail,
    park,
    step,
    try_again,
    wait,
)


async def failed(harness, **changes):
    run = await harness.held(**changes)
    await harness.save(step(run), fail(run))
    return run


async def test_a_started_run_remembers_how_long_each_of_its_generations_may_take(harness):
    await harness.start(timeout_ms=1_000)
    assert await harness.sql("select timeout_ms from stepfast.run") == [(1_000,)]


async def test_the_place_is_the_moment_less_an_hour_for_each_level_of_priority(harness):
    started = await harness.start(priority=2)
    assert await harness.task(started.run_id, "place") == (NOON - 2 * HOUR_MS,)


async def test_the_place_of_a_delayed_run_is_when_it_falls_due(harness):
    started = await harness.start(delay_ms=500)
    assert await harness.task(started.run_id, "place, state, due_at") == (NOON + 500, "waiting", NOON + 500)


async def test_a_reopened_run_has_the_place_it_had_at_first(harness):
    run = await failed(harness, priority=2)
    await harness.advance(5)
    await harness.change(run.run_id, RetryRun())
    assert await harness.task(run.run_id, "place, queue, tenant") == (NOON - 2 * HOUR_MS, "default", "acme")


async def test_the_run_of_a_buried_worker_keeps_its_place(harness):
    run = await harness.held()
    before = await harness.task(run.run_id, "place")
    await harness.bury()
    assert await harness.task(run.run_id, "place") == before


async def test_the_lane_is_kept(harness):
    started = await harness.start(lane="acme/slow")
    assert await harness.task(started.run_id, "lane") == ("acme/slow",)


async def test_a_tag_said_twice_is_one_row(harness):
    started = await harness.start(tags=("a", "a", "b"))
    rows = await harness.sql("select tag from stepfast.run_tag where run_id = :id order by tag", id=started.run_id)
    assert rows == [("a",), ("b",)]


async def test_the_first_event_of_a_run_says_what_brought_it_about(harness):
    await harness.enrol()
    await harness.start(holder="w1", causation_id="order-17", actor="ann")
    events = await harness.sql("select type, causation_id, actor from stepfast.event order by seq")
    assert events == [("queued", "order-17", "ann"), ("claimed", None, None)]


async def test_the_key_of_a_command_is_kept_for_the_tenant_of_its_run(harness):
    started = await harness.start()
    await harness.change(started.run_id, Pause(), key="k")
    rows = await harness.sql("select tenant, command, key, run_id from stepfast.idempotency")
    assert rows == [("acme", "pause", "k", started.run_id)]


async def test_the_outcome_remembers_token_and_last_event(harness):
    run = await harness.held()
    await harness.save(step(run), end(run))
    assert await harness.sql("select token, seq from stepfast.outcome") == [(run.token, run.last_event)]


async def test_the_outcome_of_a_cancelled_run_remembers_the_event_of_the_cancel(harness):
    run = await harness.held()
    await harness.change(run.run_id, Cancel())
    event = await harness.last_event(run.run_id)
    rows = await harness.sql("select state, generation, token, seq from stepfast.outcome")
    assert rows == [("cancelled", 1, run.token + 1, event.seq)]


async def test_an_ended_run_leaves_no_task_or_wait_and_the_signals_that_it_did_not_take(harness):
    run = await harness.held()
    await harness.save(decide(run, opened=(wait(1),)))
    await harness.signal(run.run_id)
    await harness.change(run.run_id, Pause())
    await harness.save(end(run))
    for table in ("task", "wait"):
        assert await harness.sql(f"select run_id from stepfast.{table}") == []
    assert await harness.sql("select kind, name from stepfast.inbox") == [("signal", "paid")]


async def test_a_cancelled_run_leaves_no_task_or_wait_and_the_signals_that_it_did_not_take(harness):
    run = await harness.parked()
    await harness.signal(run.run_id, "other")
    await harness.change(run.run_id, Cancel())
    for table in ("task", "wait"):
        assert await harness.sql(f"select run_id from stepfast.{table}") == []
    assert await harness.sql("select kind, name from stepfast.inbox") == [("signal", "other")]


async def test_a_parked_run_is_due_and_changed_as_its_row_says(harness):
    run = await harness.parked(wait(1, due_in_ms=900), wait(2, due_in_ms=300), wait(3))
    assert await harness.task(run.run_id, "due_at, since_at") == (NOON + 300, NOON)


async def test_a_run_woken_by_its_last_child_is_due_no_more(harness):
    parent, _ = await harness.parent(children=1, need=1)
    await harness.save(park(parent))
    (child,) = await harness.claim(queue="children")
    await harness.save(end(child))
    assert await harness.task(parent.run_id, "state, wakes, due_at") == ("ready", 1, None)


async def test_a_paused_run_keeps_what_it_waits_for(harness):
    run = await harness.parked(wait(due_in_ms=100))
    await harness.change(run.run_id, Pause())
    assert await harness.task(run.run_id, "state, due_at, wakes") == ("waiting", NOON + 100, 0)


async def test_a_paused_run_to_which_a_signal_comes_waits_on(harness):
    run = await harness.parked()
    await harness.change(run.run_id, Pause())
    await harness.signal(run.run_id)
    assert await harness.task(run.run_id, "state, wakes") == ("waiting", 1)


async def test_a_paused_parent_whose_join_is_decided_waits_on(harness):
    parent, _ = await harness.parent(children=1, need=1)
    await harness.save(park(parent))
    await harness.change(parent.run_id, Pause())
    (child,) = await harness.claim(queue="children")
    await harness.save(end(child))
    assert await harness.task(parent.run_id, "state, wakes") == ("waiting", 1)


async def test_a_resumed_run_that_waits_is_ready_and_due_no_more(harness):
    run = await harness.parked(wait(due_in_ms=10_000))
    await harness.change(run.run_id, Pause())
    await harness.advance(5)
    await harness.change(run.run_id, Resume())
    assert await harness.task(run.run_id, "state, due_at, since_at") == ("ready", None, NOON + 5)


async def test_a_run_whose_delay_ended_while_it_was_paused_is_due_no_more_when_resumed(harness):
    started = await harness.start(delay_ms=500)
    await harness.change(started.run_id, Pause())
    await harness.advance(500)
    await harness.change(started.run_id, Resume())
    assert await harness.task(started.run_id, "state, due_at") == ("ready", None)


async def test_a_retried_run_has_a_task_as_if_it_were_new(harness):
    run = await failed(harness)
    await harness.advance(5)
    await harness.change(run.run_id, RetryRun())
    columns = "state, token, generation, claims, crashes, strikes, tries, wakes, worker_id, due_at, since_at, code"
    expected = ("ready", run.token + 1, 2, 0, 0, 0, 0, 0, None, None, NOON + 5, "order@1")
    assert await harness.task(run.run_id, columns) == expected


async def test_a_generation_remembers_who_opened_it_and_why(harness):
    run = await failed(harness, input='{"n":7}')
    await harness.change(run.run_id, RetryRun(), actor="ann", reason="fixed")
    rows = await harness.sql(
        "select generation, tenant, version, code, input, cause, actor, reason, opened_at from stepfast.generation"
    )
    assert rows == [(2, "acme", 1, "order@1", '{"n":7}', "retry", "ann", "fixed", NOON)]


async def test_each_generation_keeps_its_outcome(harness):
    run = await failed(harness)
    await harness.change(run.run_id, RetryRun())
    (run,) = await harness.claim()
    await harness.save(end(run))
    outcomes = await harness.sql("select generation, state from stepfast.outcome order by generation")
    assert outcomes == [(1, "failed"), (2, "completed")]


async def test_the_generation_that_a_continued_run_opens_says_why(harness):
    run = await harness.held()
    await harness.save(step(run), continued(run, Continue(2, "order@2", '{"n":9}')))
    columns = "select generation, cause, actor, reason from stepfast.generation"
    assert await harness.sql(columns) == [(2, "continue_as", None, None)]


async def test_the_generation_that_a_continued_run_leaves_is_completed(harness):
    run = await harness.held()
    await harness.save(continued(run, Continue(1, "order@1", "{}")))
    rows = await harness.sql("select generation, state, value, error, token, seq, ended_at from stepfast.outcome")
    assert rows == [(1, "completed", None, None, run.token, run.last_event, NOON)]


async def test_the_generation_that_is_tried_again_has_failed(harness):
    run = await harness.held()
    await harness.save(continued(run, try_again(run)))
    outcomes = await harness.sql("select generation, state, error from stepfast.outcome")
    assert outcomes == [(1, "failed", '{"type":"ValueError"}')]
    assert await harness.sql("select generation, cause from stepfast.generation") == [(2, "retry")]


async def test_a_run_that_is_tried_again_later_backs_off_in_its_next_generation(harness):
    run = await harness.held()
    await harness.save(continued(run, try_again(run, delay_ms=500)))
    assert await harness.task(run.run_id, "state, due_at, tries") == ("waiting", NOON + 500, 1)
    waits = await harness.sql("select wait_id, generation, kind, due_at from stepfast.wait")
    assert waits == [(0, 2, "backoff", NOON + 500)]


async def test_runs_of_an_unknown_worker_go_back(harness):
    run = await harness.held()
    await harness.sql("delete from stepfast.worker where worker_id = :id", id="w1")
    assert (await harness.upkeep()).returned == [run.run_id]


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


async def test_a_suspect_that_parks_has_no_strikes_left(harness):
    await harness.held()
    await harness.bury()
    await harness.enrol("w2")
    (run,) = await harness.claim(worker="w2", suspects=[1])
    await harness.save(park(run, wait()))
    assert await harness.sql("select crashes, strikes from stepfast.task") == [(0, 0)]


async def test_a_progress_that_cannot_be_read_hurts_nobody(harness, store):
    run = await harness.held()
    await harness.save(step(run))
    await harness.unguard()
    await harness.sql(
        "update stepfast.event set type = 'step_progress', data = :junk where run_id = :run_id",
        junk="{",
        run_id=run.run_id,
    )
    assert (await store.run("acme", run.run_id)).progress is None


async def test_a_worker_that_comes_clears_up_behind_those_that_died_more_than_a_day_ago(harness):
    await harness.store.retire(await harness.enrol("w1"))
    await harness.advance(12 * HOUR_MS)
    await harness.store.retire(await harness.enrol("w2"))
    await harness.advance(12 * HOUR_MS + 1)
    await harness.enrol("w3")
    assert await harness.sql("select dead_at from stepfast.worker order by started_at") == [
        (NOON + 12 * HOUR_MS,),
        (None,),
    ]


async def test_a_worker_that_comes_clears_up_behind_crews_that_nobody_was_of_for_a_month(harness):
    await harness.leave("w1", crew="red", default="acme")
    await harness.advance(24 * HOUR_MS)
    await harness.leave("w2", crew="blue", default="acme")
    await harness.advance(29 * 24 * HOUR_MS + 1)
    await harness.enrol("w3")
    assert await harness.sql("select crew from stepfast.turn") == [("blue",)]


async def test_a_run_whose_holder_was_forgotten_is_given_back_like_any_other(harness):
    run = await harness.held("w1")
    await harness.advance(25 * HOUR_MS)
    await harness.sql("update stepfast.worker set dead_at = 1")
    await harness.enrol("w2")
    assert await harness.sql("select dead_at from stepfast.worker") == [(None,)]
    assert (await harness.upkeep()).returned == [run.run_id]
