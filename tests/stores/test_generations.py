"""Generations: a run that is retried, rerun, tried again by its own policy, or continued."""

from __future__ import annotations

import json

import pytest

from stepfast.kernel.commands import Cancel, Changed, Pause, Request, Rerun, RetryRun
from stepfast.kernel.decisions import CallId, Continue
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, NothingBefore, StepNotFound
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Delivery, Saving
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.states import RunState, StepState, WaitKind
from tests.stores.harness import HOUR_MS, NOON, decide, end, fail, hand_back, joins, park, record, step, wait

LATE = {"a record": step, "an end": end, "a hand-back": hand_back}


async def failed(harness, **changes):
    """A run with a good step `charge#0` that failed by its step `ship#1`."""
    run = await harness.held(**changes)
    shipping = record("ship", 1)._replace(state=StepState.FAILED, value=None, error="{}")
    await harness.save(step(run, "charge"), decide(run, EventType.STEP_FAILED, records=(shipping,)))
    await harness.save(fail(run, "ship#1"))
    return run


async def completed(harness, *names, **changes):
    run = await harness.held(**changes)
    await harness.save(*(step(run, name) for name in names), end(run))
    return run


async def replayed(harness, run_id) -> list[str]:
    """The records that the run's code gets back."""
    return [saved.call.address for saved in (await harness.store.histories([run_id]))[run_id].records]


async def a_child_that_failed(harness):
    """A parent that waits for two children, one of which has failed."""
    parent = await harness.held()
    born = [harness.new_run(joins=joins(parent), queue="children") for _ in range(2)]
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN, need=2, spare=2),), children=born))
    child, _ = await harness.claim(queue="children")
    await harness.save(fail(child))
    return parent, child


def again(run, *superseded: CallId, **changes) -> Continue:
    """What the policy of a run says when it is to be tried again."""
    error = '{"type":"ValueError"}'
    return Continue(1, "order@1", run.input, "retry", RunState.FAILED, error, superseded)._replace(**changes)


def continued(run, release: Continue):
    return decide(run, EventType.RETRY_SCHEDULED if release.is_retry else EventType.CONTINUED, release=release)


async def test_a_retried_run_is_pending_in_its_next_generation(harness, store):
    run = await failed(harness)
    await harness.advance(5)
    changed = await harness.change(run.run_id, RetryRun())
    view = await store.run(None, run.run_id)
    assert changed == Changed(run.run_id, RunState.PENDING, 2, "default", Instant(NOON + 5))
    assert (view.state, view.generation, view.ended_at, view.error) == (RunState.PENDING, 2, None, None)


async def test_a_retried_run_has_a_task_as_if_it_were_new(harness):
    run = await failed(harness)
    await harness.advance(5)
    await harness.change(run.run_id, RetryRun())
    columns = "state, token, generation, claims, crashes, strikes, tries, wakes, worker_id, due_at, since_at, code"
    expected = ("ready", run.token + 1, 2, 0, 0, 0, 0, 0, None, None, NOON + 5, "order@1")
    assert await harness.task(run.run_id, columns) == expected


async def test_a_reopened_run_has_the_place_it_had_at_first(harness):
    run = await failed(harness, priority=2)
    await harness.advance(5)
    await harness.change(run.run_id, RetryRun())
    assert await harness.task(run.run_id, "place, queue, tenant") == (NOON - 2 * HOUR_MS, "default", "acme")


async def test_a_retried_run_goes_on_without_the_failure_that_ended_it(harness, store):
    run = await failed(harness)
    await harness.change(run.run_id, RetryRun())
    assert await replayed(harness, run.run_id) == ["charge#0"]
    assert [(shown.call.name, shown.superseded_by) for shown in await store.steps(run.run_id)] == [
        ("charge", None),
        ("ship", 2),
    ]


async def test_all_records_of_a_superseded_call_are_superseded(harness, store):
    run = await harness.held()
    tries = [record("ship", 1)._replace(state=StepState.PENDING), record("ship", 1)._replace(state=StepState.FAILED)]
    await harness.save(decide(run, records=tries), fail(run, "ship#1"))
    await harness.change(run.run_id, RetryRun())
    assert [shown.superseded_by for shown in await store.steps(run.run_id)] == [2, 2]


async def test_what_a_generation_superseded_stays_so_in_the_next(harness, store):
    run = await failed(harness)
    for _ in range(2):
        await harness.change(run.run_id, RetryRun())
        (run,) = await harness.claim()
        await harness.save(step(run, "ship"), fail(run, f"ship#{run.last_seq - 1}"))
    await harness.change(run.run_id, RetryRun())
    assert [shown.superseded_by for shown in await store.steps(run.run_id)] == [None, 2, 3, 4]


async def test_a_generation_remembers_who_opened_it_and_why(harness):
    run = await failed(harness, input='{"n":7}')
    await harness.change(run.run_id, RetryRun(), actor="ann", reason="fixed")
    rows = await harness.sql(
        "select generation, tenant, version, code, input, cause, actor, reason, opened_at from stepfast.generation"
    )
    assert rows == [(2, "acme", 1, "order@1", '{"n":7}', "retry", "ann", "fixed", NOON)]


async def test_the_event_of_a_reopened_run_belongs_to_the_generation_it_opens(harness, store):
    run = await failed(harness)
    last = run.last_event
    await harness.change(run.run_id, RetryRun(), actor="ann", reason="fixed")
    event = (await store.events(run.run_id))[-1]
    assert (event.seq, event.type, event.generation, event.token, event.actor) == (
        last + 1,
        "retried",
        2,
        run.token + 1,
        "ann",
    )
    assert json.loads(event.data) == {"version": 1, "superseded": 1, "reason": "fixed"}


async def test_a_reopened_run_is_claimed_and_counts_on(harness):
    first = await failed(harness, input='{"n":7}')
    await harness.change(first.run_id, RetryRun())
    (run,) = await harness.claim()
    assert (run.generation, run.input, run.tries, run.claims) == (2, '{"n":7}', 0, 1)
    assert (run.last_seq, run.last_event) == (first.last_seq, first.last_event + 2)
    assert run.token > first.token


async def test_a_reopened_run_has_a_deadline_of_its_own(harness):
    run = await failed(harness, timeout_ms=1_000)
    await harness.advance(5_000)
    await harness.change(run.run_id, RetryRun())
    assert await harness.task(run.run_id, "deadline_at") == (NOON + 6_000,)


@pytest.mark.parametrize(("delay_ms", "deadline_at"), [(0, NOON + 1_500), (300, NOON + 1_800)])
async def test_a_continued_run_has_a_deadline_of_its_own_from_when_it_is_due(harness, delay_ms, deadline_at):
    run = await harness.held(timeout_ms=1_000)
    await harness.advance(500)
    await harness.save(continued(run, again(run, delay_ms=delay_ms)))
    assert await harness.task(run.run_id, "deadline_at") == (deadline_at,)


async def test_a_continued_run_without_a_timeout_has_no_deadline(harness):
    run = await harness.held()
    await harness.save(continued(run, again(run)))
    assert await harness.task(run.run_id, "deadline_at") == (None,)


@pytest.mark.parametrize("command", [RetryRun(), Rerun(), Rerun(version=3)], ids=["retry", "rerun", "other version"])
async def test_a_spread_step_keeps_the_code_of_the_run_that_spread_it(harness, store, command):
    run = await failed(harness, kind="step", workflow="render", code="order@1")
    await harness.change(run.run_id, command)
    assert await harness.task(run.run_id, "code") == ("order@1",)
    assert (await store.run(None, run.run_id)).code == "order@1"


async def test_a_workflow_that_is_reopened_with_another_version_needs_the_code_of_that(harness, store):
    run = await failed(harness)
    await harness.change(run.run_id, Rerun(version=3))
    assert await harness.task(run.run_id, "code") == ("order@3",)
    assert (await store.run(None, run.run_id)).code == "order@3"


async def test_the_messages_of_a_reopened_run_are_numbered_on(harness, store):
    run = await harness.held()
    await harness.save(step(run), park(run, wait(2)))
    for _ in range(2):
        await store.deliver(Delivery(run.run_id, None, "signal", "paid", "1"))
    (run,) = await harness.claim()
    await harness.save(decide(run, records=(record("receive", 1),), taken=(1, 2)), fail(run, "receive#1"))
    await harness.change(run.run_id, RetryRun())
    await store.deliver(Delivery(run.run_id, None, "signal", "paid", "2"))
    assert [(message.n, message.value) for message in (await store.look(run.run_id)).inbox] == [(3, "2")]


async def test_a_run_without_a_timeout_has_no_deadline_when_reopened(harness):
    run = await failed(harness)
    await harness.change(run.run_id, RetryRun())
    assert await harness.task(run.run_id, "deadline_at") == (None,)


async def test_a_reopened_run_has_no_outcome_until_it_ends_again(harness, store):
    run = await failed(harness)
    await harness.change(run.run_id, RetryRun())
    assert await store.outcomes([run.run_id]) == {}
    (run,) = await harness.claim()
    await harness.save(end(run))
    (outcome,) = (await store.outcomes([run.run_id])).values()
    assert (outcome.generation, outcome.state) == (2, RunState.COMPLETED)
    assert await harness.sql("select generation, state from stepfast.outcome order by generation") == [
        (1, "failed"),
        (2, "completed"),
    ]


async def test_a_reopened_run_keeps_its_key(harness):
    run = await failed(harness, key="k")
    await harness.change(run.run_id, RetryRun())
    assert (await harness.start(key="k")).run_id == run.run_id


async def test_a_run_that_did_not_fail_is_not_retried(harness):
    run = await completed(harness)
    before = await harness.contents()
    assert isinstance(await harness.change(run.run_id, RetryRun()), IllegalMove)
    assert await harness.contents() == before


@pytest.mark.parametrize("command", [RetryRun(), Rerun()], ids=lambda command: command.name)
async def test_an_open_run_is_not_reopened(harness, command):
    started = await harness.start()
    assert isinstance(await harness.change(started.run_id, command), IllegalMove)


async def test_a_rerun_keeps_nothing(harness):
    run = await completed(harness, "a", "b")
    await harness.change(run.run_id, Rerun())
    assert await replayed(harness, run.run_id) == []
    assert (await harness.event_types(run.run_id))[-1] == "rerun"


async def test_a_rerun_from_a_step_keeps_what_came_before(harness):
    run = await completed(harness, "a", "b", "c")
    await harness.change(run.run_id, Rerun(from_step="b"))
    assert await replayed(harness, run.run_id) == ["a#0"]


async def test_a_rerun_of_a_rerun_goes_by_the_records_that_count(harness):
    run = await completed(harness, "a", "b")
    await harness.change(run.run_id, Rerun(from_step="b"))
    (run,) = await harness.claim()
    await harness.save(step(run, "b"), step(run, "c"), end(run))
    await harness.change(run.run_id, Rerun(from_step="c"))
    assert await replayed(harness, run.run_id) == ["a#0", "b#2"]


@pytest.mark.parametrize(("from_step", "refusal"), [("x", StepNotFound), ("a", NothingBefore)])
async def test_a_rerun_from_a_step_that_cannot_be_is_refused(harness, from_step, refusal):
    run = await completed(harness, "a", "b")
    before = await harness.contents()
    assert isinstance(await harness.change(run.run_id, Rerun(from_step=from_step)), refusal)
    assert await harness.contents() == before


async def test_a_cancelled_run_can_be_rerun(harness):
    run = await harness.held()
    await harness.change(run.run_id, Cancel())
    changed = await harness.change(run.run_id, Rerun())
    assert (changed.state, changed.generation) == (RunState.PENDING, 2)
    # Its holder had the token before the cancel's, which the new generation begins above.
    assert await harness.task(run.run_id, "token") == (run.token + 2,)


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_who_held_a_run_before_it_was_cancelled_and_rerun_changes_nothing(harness, late):
    stale = await harness.held()
    await harness.change(stale.run_id, Cancel())
    await harness.change(stale.run_id, Rerun())
    (present,) = await harness.claim()
    stale.last_event = present.last_event
    before = await harness.contents()
    assert await harness.save(late(stale)) == [Saving.LOST]
    assert await harness.contents() == before


async def test_a_rerun_with_another_version_waits_for_a_worker_that_has_it(harness, store):
    run = await completed(harness)
    await harness.change(run.run_id, Rerun(version=2))
    assert (await store.run(None, run.run_id)).version == 2
    assert await harness.claim() == []
    assert [(held.run_id, held.version) for held in await harness.claim(codes=["order@2"])] == [(run.run_id, 2)]


async def test_a_rerun_without_a_version_keeps_that_of_the_last_generation(harness, store):
    run = await completed(harness)
    await harness.change(run.run_id, Rerun(version=2))
    (run,) = await harness.claim(codes=["order@2"])
    await harness.save(end(run))
    await harness.change(run.run_id, Rerun())
    assert (await store.run(None, run.run_id)).version == 2


async def test_a_child_that_its_parent_has_counted_and_still_waits_for_is_not_reopened(harness):
    _, child = await a_child_that_failed(harness)
    before = await harness.contents()
    assert isinstance(await harness.change(child.run_id, RetryRun()), IllegalMove)
    assert await harness.contents() == before


async def test_a_child_that_its_parent_waits_for_no_more_can_be_reopened(harness):
    parent, child = await a_child_that_failed(harness)
    await harness.save(decide(parent, closed=(1,)))
    changed = await harness.change(child.run_id, RetryRun())
    assert (changed.state, changed.parent_id) == (RunState.PENDING, parent.run_id)
    (child,) = [run for run in await harness.claim(queue="children") if run.run_id == child.run_id]
    assert await harness.save(end(child)) == [Saving.SAVED]
    assert await harness.task(parent.run_id, "wakes") == (0,)


async def test_tokens_grow_over_every_generation(harness):
    run = await harness.held()
    tokens = [run.token]
    for _ in range(3):
        await harness.save(fail(run))
        await harness.change(run.run_id, RetryRun())
        (run,) = await harness.claim()
        tokens.append(run.token)
    assert tokens == sorted(set(tokens))


async def test_a_continued_run_begins_anew_with_its_new_input(harness, store):
    run = await harness.held()
    await harness.save(step(run), continued(run, Continue(2, "order@2", '{"n":9}')))
    view = await store.run(None, run.run_id)
    assert (view.state, view.generation, view.version, view.input) == (RunState.PENDING, 2, 2, '{"n":9}')
    assert await replayed(harness, run.run_id) == []
    columns = "select generation, cause, actor, reason from stepfast.generation"
    assert await harness.sql(columns) == [(2, "continue_as", None, None)]


async def test_the_generation_that_a_continued_run_leaves_is_completed(harness):
    run = await harness.held()
    decision = continued(run, Continue(1, "order@1", "{}"))
    await harness.save(decision)
    rows = await harness.sql("select generation, state, value, error, token, seq, ended_at from stepfast.outcome")
    assert rows == [(1, "completed", None, None, run.token, run.last_event, NOON)]


async def test_messages_that_nobody_took_go_along_into_the_next_generation(harness, store):
    run = await harness.held()
    await store.deliver(Delivery(run.run_id, None, "signal", "paid", "1"))
    await harness.save(continued(run, Continue(1, "order@1", "{}")))
    assert [message.name for message in (await store.look(run.run_id)).inbox] == ["paid"]


async def test_waits_do_not_go_along_into_the_next_generation(harness, store):
    run = await harness.held()
    await harness.save(decide(run, opened=(wait(),)))
    await harness.save(continued(run, Continue(1, "order@1", "{}")))
    assert (await store.look(run.run_id)).waits == []


async def test_a_run_that_is_tried_again_keeps_all_but_the_failure(harness, store):
    run = await harness.held()
    await harness.save(step(run, "charge"), step(run, "ship"))
    await harness.save(continued(run, again(run, CallId("", "ship", 1))))
    assert await replayed(harness, run.run_id) == ["charge#0"]
    assert (await store.run(None, run.run_id)).state is RunState.PENDING


async def test_a_run_that_is_tried_again_without_a_failed_step_keeps_all(harness):
    run = await harness.held()
    await harness.save(step(run, "charge"), continued(run, again(run)))
    assert await replayed(harness, run.run_id) == ["charge#0"]


async def test_the_generation_that_is_tried_again_has_failed(harness):
    run = await harness.held()
    await harness.save(continued(run, again(run)))
    assert await harness.sql("select generation, state, error from stepfast.outcome") == [
        (1, "failed", '{"type":"ValueError"}')
    ]
    assert await harness.sql("select generation, cause from stepfast.generation") == [(2, "retry")]
    assert await harness.sql("select run_id from stepfast.dead_letter") == []


async def test_tries_are_counted_and_handed_out_until_another_cause_begins_anew(harness):
    run = await harness.held()
    tries = [run.tries]
    for release in (again(run), again(run), Continue(1, "order@1", "{}")):
        await harness.save(continued(run, release))
        (run,) = await harness.claim()
        tries.append(run.tries)
    assert tries == [0, 1, 2, 0]


async def test_a_run_that_is_tried_again_later_backs_off(harness):
    run = await harness.held()
    await harness.save(continued(run, again(run, delay_ms=500)))
    columns = "state, due_at, token, generation, claims, tries, worker_id"
    assert await harness.task(run.run_id, columns) == ("waiting", NOON + 500, run.token + 1, 2, 0, 1, None)
    waits = await harness.sql("select wait_id, generation, kind, due_at from stepfast.wait")
    assert waits == [(0, 2, "backoff", NOON + 500)]
    assert await harness.state(run.run_id) is RunState.PENDING


async def test_a_run_that_is_tried_again_later_is_not_claimed_early(harness):
    run = await harness.held()
    await harness.save(continued(run, again(run, delay_ms=500)))
    await harness.advance(499)
    assert await harness.claim() == []
    await harness.advance(1)
    assert [(held.run_id, held.generation) for held in await harness.claim()] == [(run.run_id, 2)]


async def test_a_run_told_to_pause_that_is_continued_is_paused(harness):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    await harness.save(continued(run, Continue(1, "order@1", "{}")))
    assert await harness.state(run.run_id) is RunState.PAUSED
    assert await harness.claim() == []


async def test_a_run_that_waits_for_children_while_it_is_continued_joins_them_no_more(harness):
    parent, _ = await a_child_that_failed(harness)
    await harness.save(continued(parent, Continue(1, "order@1", "{}")))
    assert await harness.sql("select run_id, wait_id, tenant from stepfast.unjoined") == [(parent.run_id, 1, "acme")]


async def test_a_decision_after_a_continuation_in_the_same_batch_is_lost(harness):
    run = await harness.held()
    batch = (continued(run, Continue(1, "order@1", "{}")), step(run))
    assert await harness.save(*batch) == [Saving.SAVED, Saving.LOST]


async def test_sending_a_continuation_again_counts_as_saved(harness):
    run = await harness.held()
    decision = continued(run, again(run, delay_ms=500))
    await harness.save(decision)
    before = await harness.contents()
    assert await harness.save(decision, again=True) == [Saving.SAVED]
    assert await harness.contents() == before


async def test_a_worker_that_continued_a_run_holds_it_no_more(harness, store):
    run = await harness.held()
    await harness.save(continued(run, again(run)))
    assert (await store.beat(WorkerId("w1"))).holdings == []
    assert await harness.save(step(run)) == [Saving.LOST]


async def test_a_run_that_failed_for_good_after_its_tries_is_retried_with_none_spent(harness):
    run = await harness.held()
    await harness.save(continued(run, again(run)))
    (run,) = await harness.claim()
    await harness.save(fail(run))
    await harness.change(run.run_id, RetryRun())
    assert await harness.task(run.run_id, "tries, generation") == (0, 3)


async def test_a_parked_run_that_was_reopened_waits_for_nothing_of_its_past(harness):
    run = await harness.held()
    await harness.save(park(run, wait()))
    await harness.change(run.run_id, Cancel())
    await harness.change(run.run_id, Rerun())
    assert await harness.sql("select run_id from stepfast.wait") == []


async def test_a_page_of_reruns_of_long_runs_is_carried_out(harness, store):
    """On PostgreSQL within the time that a statement has: it ended there when each run looked through all calls."""
    await harness.enrol()
    await harness.start_many(500)
    runs = await harness.claim(room=500, burst=500)
    charges = [record("charge", nth) for nth in range(20)]
    for page in range(0, 500, 100):
        await harness.save(*(decide(run, records=charges) for run in runs[page : page + 100]))
    await harness.save(*(end(run) for run in runs))
    answers = await store.change([Request(run.run_id, Rerun()) for run in runs])
    assert {type(answer) for answer in answers} == {Changed}
    assert await harness.sql("select superseded_by, count(*) from stepfast.step group by 1") == [(2, 10_000)]


async def test_a_run_of_ten_thousand_steps_is_rerun_from_its_middle(harness, store):
    """It took very long on SQLite when each call looked through all records."""
    run = await harness.held()
    await harness.save(decide(run, records=[record("charge", nth) for nth in range(10_000)]), end(run))
    await harness.change(run.run_id, Rerun(from_step="5001"))
    rows = await harness.sql("select superseded_by, count(*) from stepfast.step group by 1 order by 1 nulls first")
    assert rows == [(None, 5_000), (2, 5_000)]
