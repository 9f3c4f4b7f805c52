"""Commands on open runs: cancel, pause, resume, and the deadline."""

from __future__ import annotations

import json

import pytest

from stepfast.kernel.commands import Cancel, Changed, Command, Pause, Request, Resume, TimeOut
from stepfast.kernel.decisions import Message
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove, NotFound, RowsRefused
from stepfast.kernel.exchange import Delivered, Delivery, Holding, Saving
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.rules import hold_back
from stepfast.kernel.states import ENDED, RunState, WaitKind
from tests.stores.harness import NOON, VERDICT, decide, end, hand_back, joins, park, step, wait

LATE = {"a record": step, "an end": end, "a hand-back": hand_back, "a park": lambda run: park(run, wait())}


async def parked(harness, *waits):
    """A run that waits for what is given, as its last holder knew it."""
    run = await harness.held()
    await harness.save(park(run, *(waits or (wait(),))))
    return run


async def paused(harness):
    """A run that nobody has claimed yet and a person holds."""
    started = await harness.start()
    await harness.change(started.run_id, Pause())
    return started.run_id


async def signal(harness, run_id, name: str = "paid"):
    return await harness.store.deliver(Delivery(run_id, None, "signal", name, "1"))


async def last_event(harness, run_id):
    return (await harness.store.events(run_id))[-1]


async def test_a_cancelled_run_has_ended(harness, store):
    started = await harness.start()
    await harness.advance(5)
    changed = await harness.change(started.run_id, Cancel())
    view = await store.run("acme", started.run_id)
    assert (changed.state, view.state, view.ended_at) == (RunState.CANCELLED, RunState.CANCELLED, NOON + 5)


async def test_a_cancelled_run_leaves_no_task_wait_or_inbox(harness):
    run = await parked(harness)
    await signal(harness, run.run_id, "other")
    await harness.change(run.run_id, Cancel())
    for table in ("task", "wait", "inbox"):
        assert await harness.sql(f"select run_id from stepfast.{table}") == []


async def test_cancelling_is_told_with_who_and_why(harness, store):
    started = await harness.start()
    await harness.change(started.run_id, Cancel(), actor="ann", reason="wrong order")
    event = await last_event(harness, started.run_id)
    assert (event.seq, event.type, event.actor, event.at, event.generation) == (2, "cancelled", "ann", NOON, 1)
    assert json.loads(event.data) == {"reason": "wrong order"}


async def test_the_outcome_of_a_cancelled_run_carries_a_token_above_its_holders(harness):
    run = await harness.held()
    await harness.change(run.run_id, Cancel())
    event = await last_event(harness, run.run_id)
    rows = await harness.sql("select state, generation, token, seq from stepfast.outcome")
    assert rows == [("cancelled", 1, run.token + 1, event.seq)]
    assert event.token == run.token + 1


async def test_a_cancel_names_the_holder_it_took_the_run_from(harness):
    run = await harness.held()
    changed = await harness.change(run.run_id, Cancel())
    assert changed == Changed(run.run_id, RunState.CANCELLED, 1, "default", NOON, WorkerId("w1"), None)


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_what_the_holder_of_a_cancelled_run_sends_changes_nothing(harness, late):
    run = await harness.held()
    await harness.change(run.run_id, Cancel())
    before = await harness.contents()
    assert await harness.save(late(run)) == [Saving.LOST]
    assert await harness.contents() == before


async def test_the_holder_of_a_cancelled_run_learns_it_from_its_heartbeat(harness, store):
    run = await harness.held()
    await harness.change(run.run_id, Cancel())
    assert (await store.beat(run.worker_id)).holdings == []
    assert await store.look(run.run_id) is None


async def test_a_cancelled_run_is_never_claimed_again(harness):
    await parked(harness, wait(kind=WaitKind.TIME, due_in_ms=100))
    delayed = await harness.start(delay_ms=100)
    for (run_id,) in await harness.sql("select run_id from stepfast.run"):
        await harness.change(run_id, Cancel())
    await harness.advance(1_000)
    assert await harness.claim() == []
    assert await harness.state(delayed.run_id) is RunState.CANCELLED


async def test_a_cancelled_run_takes_no_signal(harness):
    run = await parked(harness)
    await harness.change(run.run_id, Cancel())
    assert await signal(harness, run.run_id) == Delivered(RunState.CANCELLED)


async def test_a_cancelled_child_counts_as_failed_and_wakes_its_parent(harness):
    parent = await harness.held()
    child = harness.new_run(joins=joins(parent), queue="children")
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN),), children=(child,)))
    await harness.save(park(parent))
    changed = await harness.change(child.run_id, Cancel())
    assert changed.parent_id == parent.run_id
    assert await harness.task(parent.run_id, "state, wakes") == ("ready", 1)
    assert await harness.sql("select got, failed from stepfast.wait") == [(0, 1)]


async def test_a_paused_run_can_be_cancelled(harness):
    run_id = await paused(harness)
    assert (await harness.change(run_id, Cancel())).state is RunState.CANCELLED


@pytest.mark.parametrize("state", sorted(ENDED))
@pytest.mark.parametrize("command", [Cancel(), Pause(), Resume(), TimeOut(VERDICT)], ids=lambda c: c.name)
async def test_an_ended_run_stays_as_it_is(harness, state, command):
    run = await harness.held(timeout_ms=1)
    await harness.save(end(run, state))
    await harness.advance(1)
    before = await harness.contents()
    assert isinstance(await harness.change(run.run_id, command), IllegalMove)
    assert await harness.contents() == before


async def test_a_paused_run_is_not_claimed(harness):
    await harness.enrol()
    run_id = await paused(harness)
    assert await harness.claim() == []
    assert await harness.state(run_id) is RunState.PAUSED


async def test_pausing_a_run_that_nobody_holds_is_told_at_once(harness):
    started = await harness.start()
    await harness.advance(5)
    changed = await harness.change(started.run_id, Pause(), actor="ann", reason="lunch")
    event = await last_event(harness, started.run_id)
    assert (event.seq, event.type, event.actor, event.at, event.token) == (2, "paused", "ann", NOON + 5, 0)
    assert json.loads(event.data) == {"reason": "lunch"}
    assert changed == Changed(started.run_id, RunState.PAUSED, 1, "default", Instant(NOON + 5))


async def test_a_pause_changes_when_the_run_was_updated(harness, store):
    started = await harness.start()
    await harness.advance(5)
    await harness.change(started.run_id, Pause())
    assert (await store.run(None, started.run_id)).updated_at == NOON + 5


async def test_a_paused_run_keeps_what_it_waits_for(harness):
    run = await parked(harness, wait(due_in_ms=100))
    await harness.change(run.run_id, Pause())
    assert await harness.task(run.run_id, "state, due_at, wakes") == ("waiting", NOON + 100, 0)
    assert await harness.sql("select kind from stepfast.wait") == [("signal",)]


async def test_pausing_a_held_run_asks_its_holder(harness, store):
    run = await harness.held()
    await harness.advance(5)
    changed = await harness.change(run.run_id, Pause(), actor="ann", reason="lunch")
    assert (changed.state, changed.worker_id) == (RunState.RUNNING, "w1")
    assert (await store.beat(run.worker_id)).holdings == [Holding(run.run_id, run.token, 1, True)]
    look = await store.look(run.run_id)
    assert (look.token, look.wakes, look.hold) == (run.token, 1, True)
    assert look.inbox == [Message(1, "paused", "", '{"reason": "lunch"}', "ann", Instant(NOON + 5), False)]


async def test_a_pause_without_a_reason_leaves_a_message_without_data(harness, store):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    assert [message.value for message in (await store.look(run.run_id)).inbox] == [None]


async def test_pausing_a_held_run_writes_no_event(harness):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    assert await harness.event_types(run.run_id) == ["queued", "claimed"]


async def test_a_run_that_is_told_to_pause_is_still_its_holders(harness):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    assert await harness.save(step(run)) == [Saving.SAVED]


async def test_a_run_that_is_told_to_pause_does_not_park_before_it_has_looked(harness):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    assert await harness.save(park(run, wait())) == [Saving.WOKEN]


async def test_a_run_that_its_holder_gives_back_is_paused(harness, store):
    run = await harness.held()
    await harness.change(run.run_id, Pause(), actor="ann")
    told = hold_back(run, (await store.look(run.run_id)).inbox, NOON)
    await harness.save(decide(run, events=told.events, taken=told.taken, release=told.release))
    assert await harness.state(run.run_id) is RunState.PAUSED
    assert {"paused", "handed_back"} == {event.type for event in told.events}
    assert await harness.event_types(run.run_id) == ["queued", "claimed", *(event.type for event in told.events)]
    assert (await store.look(run.run_id)).inbox == []
    assert await harness.claim() == []


async def test_signals_for_a_paused_run_are_kept_and_wake_nobody(harness, store):
    run = await parked(harness)
    await harness.change(run.run_id, Pause())
    await signal(harness, run.run_id)
    assert await harness.task(run.run_id, "state") == ("waiting",)
    assert [message.name for message in (await store.look(run.run_id)).inbox] == ["paid"]


async def test_commands_and_signals_for_a_held_run_are_numbered_together_and_kept_apart(harness, store):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    await signal(harness, run.run_id)
    await harness.change(run.run_id, Resume())
    inbox = (await store.look(run.run_id)).inbox
    assert [(message.n, message.kind) for message in inbox] == [(1, "paused"), (2, "signal"), (3, "resumed")]


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_run_is_not_paused_twice(harness, is_held):
    run_id = (await harness.held()).run_id if is_held else (await harness.start()).run_id
    await harness.change(run_id, Pause())
    before = await harness.contents()
    assert isinstance(await harness.change(run_id, Pause()), IllegalMove)
    assert await harness.contents() == before


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_run_that_is_not_paused_is_not_resumed(harness, is_held):
    run_id = (await harness.held()).run_id if is_held else (await harness.start()).run_id
    before = await harness.contents()
    assert isinstance(await harness.change(run_id, Resume()), IllegalMove)
    assert await harness.contents() == before


async def test_a_resumed_run_is_claimed(harness):
    await harness.enrol()
    run_id = await paused(harness)
    changed = await harness.change(run_id, Resume(), actor="ann")
    assert changed.state is await harness.state(run_id) is RunState.PENDING
    assert [run.run_id for run in await harness.claim()] == [run_id]
    assert await harness.event_types(run_id) == ["queued", "paused", "resumed", "claimed"]


async def test_a_resumed_run_that_waits_looks_at_its_waits_again(harness):
    run = await parked(harness, wait(due_in_ms=10_000))
    await harness.change(run.run_id, Pause())
    await harness.advance(5)
    changed = await harness.change(run.run_id, Resume())
    assert changed.state is await harness.state(run.run_id) is RunState.RUNNING
    assert await harness.task(run.run_id, "state, due_at, since_at") == ("ready", None, NOON + 5)
    assert await harness.sql("select kind from stepfast.wait") == [("signal",)]


@pytest.mark.parametrize("kind", ["delay", "backoff"])
async def test_a_resumed_run_that_was_put_off_starts_no_earlier(harness, kind):
    await harness.enrol()
    started = await harness.start(delay_ms=500 if kind == "delay" else 0)
    if kind == "backoff":
        (run,) = await harness.claim()
        await harness.save(hand_back(run, delay_ms=500))
    await harness.change(started.run_id, Pause())
    changed = await harness.change(started.run_id, Resume())
    assert changed.state is await harness.state(started.run_id) is RunState.PENDING
    await harness.advance(499)
    assert await harness.claim() == []
    await harness.advance(1)
    assert [run.run_id for run in await harness.claim()] == [started.run_id]


async def test_a_run_whose_delay_ended_while_it_was_paused_is_ready_when_resumed(harness):
    started = await harness.start(delay_ms=500)
    await harness.change(started.run_id, Pause())
    await harness.advance(500)
    changed = await harness.change(started.run_id, Resume())
    assert changed.state is await harness.state(started.run_id) is RunState.PENDING
    assert await harness.task(started.run_id, "state, due_at") == ("ready", None)


async def test_a_run_that_also_waits_for_something_else_is_not_put_off(harness):
    run = await harness.held()
    await harness.save(decide(run, opened=(wait(1),)))
    await harness.save(hand_back(run, delay_ms=500))
    await harness.change(run.run_id, Pause())
    await harness.change(run.run_id, Resume())
    assert await harness.task(run.run_id, "state") == ("ready",)


async def test_resuming_a_held_run_tells_its_holder(harness, store):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    changed = await harness.change(run.run_id, Resume(), actor="ann")
    look = await store.look(run.run_id)
    assert (changed.state, look.wakes, look.hold) == (RunState.RUNNING, 2, False)
    assert [(message.kind, message.actor) for message in look.inbox] == [("paused", None), ("resumed", "ann")]


async def test_a_pause_that_its_holder_did_not_live_to_tell_is_told_before_what_follows(harness, store):
    run = await harness.held()
    await harness.change(run.run_id, Pause(), actor="ann", reason="lunch")
    await signal(harness, run.run_id)
    await harness.bury()
    assert await harness.state(run.run_id) is RunState.PAUSED
    await harness.change(run.run_id, Resume())
    assert await harness.event_types(run.run_id) == ["queued", "claimed", "reaped", "paused", "resumed"]
    told = (await store.events(run.run_id))[3]
    assert (told.actor, told.at, told.data) == ("ann", NOON, '{"reason": "lunch"}')
    assert [message.kind for message in (await store.look(run.run_id)).inbox] == ["signal"]


async def test_a_pause_that_its_holder_can_tell_no_more_is_told_before_the_cancel(harness):
    run = await harness.held()
    await harness.change(run.run_id, Pause())
    await harness.change(run.run_id, Cancel())
    assert await harness.event_types(run.run_id) == ["queued", "claimed", "paused", "cancelled"]


@pytest.mark.parametrize("command", [Pause(), Cancel()], ids=lambda c: c.name)
async def test_events_of_commands_are_numbered_without_a_gap(harness, store, command):
    run = await harness.held()
    await harness.save(step(run), park(run, wait()))
    await harness.change(run.run_id, command)
    assert [event.seq for event in await store.events(run.run_id)] == [1, 2, 3, 4, 5]


async def test_a_run_past_its_deadline_fails_and_is_a_dead_letter(harness, store):
    run = await harness.held(timeout_ms=100)
    await harness.save(park(run, wait()))
    await harness.advance(100)
    changed = await harness.change(run.run_id, TimeOut(VERDICT))
    view = await store.run(None, run.run_id)
    assert (changed.state, view.state, view.error) == (RunState.FAILED, RunState.FAILED, VERDICT.error)
    assert (await harness.event_types(run.run_id))[-3:] == ["dlq_pending", "dlq_recorded", "failed"]
    letters = await harness.sql("select generation, workflow, version, error_type, message from stepfast.dead_letter")
    assert letters == [(1, "order", 1, VERDICT.error_type, VERDICT.message)]


async def test_a_child_past_its_deadline_counts_as_failed_and_is_no_dead_letter(harness):
    parent = await harness.held()
    child = harness.new_run(joins=joins(parent), queue="children", timeout_ms=100)
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN),), children=(child,)))
    await harness.save(park(parent))
    await harness.advance(100)
    await harness.change(child.run_id, TimeOut(VERDICT))
    assert await harness.task(parent.run_id, "state, wakes") == ("ready", 1)
    assert await harness.sql("select run_id from stepfast.dead_letter") == []


async def test_a_run_is_not_timed_out_before_its_deadline(harness):
    started = await harness.start(timeout_ms=100)
    await harness.advance(99)
    assert isinstance(await harness.change(started.run_id, TimeOut(VERDICT)), IllegalMove)
    assert await harness.state(started.run_id) is RunState.PENDING


async def test_a_paused_run_may_run_out_of_time(harness):
    started = await harness.start(timeout_ms=100)
    await harness.change(started.run_id, Pause())
    await harness.advance(100)
    assert (await harness.change(started.run_id, TimeOut(VERDICT))).state is RunState.FAILED


async def test_requests_are_answered_in_order_and_a_refused_one_spoils_no_other(harness, store):
    one, two = await harness.start_many(2)
    nobody = harness.new_run().run_id
    wanted: list[tuple[RunId, Command]] = [(two, Cancel()), (nobody, Cancel()), (one, Resume()), (one, Pause())]
    answers = await store.change([Request(run_id, command) for run_id, command in wanted])
    assert [type(answer) for answer in answers] == [Changed, NotFound, IllegalMove, Changed]
    assert [await harness.state(run_id) for run_id in (one, two)] == [RunState.PAUSED, RunState.CANCELLED]


async def test_a_request_sees_what_those_before_it_did_to_the_same_run(harness, store):
    started = await harness.start()
    commands: list[Command] = [Pause(), Resume(), Cancel(), Cancel()]
    answers = await store.change([Request(started.run_id, command) for command in commands])
    assert [type(answer) for answer in answers] == [Changed, Changed, Changed, IllegalMove]
    assert await harness.event_types(started.run_id) == ["queued", "paused", "resumed", "cancelled"]


async def test_children_cancelled_by_one_call_wake_their_parent_once(harness, store):
    parent = await harness.held()
    born = [harness.new_run(joins=joins(parent), queue="children") for _ in range(3)]
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN, need=3),), children=born))
    await harness.save(park(parent))
    await store.change([Request(child.run_id, Cancel()) for child in born])
    assert await harness.task(parent.run_id, "state, wakes") == ("ready", 1)


async def test_a_request_that_cannot_be_stored_spoils_no_other(harness, store):
    one, two, three = await harness.start_many(3)
    requests = [Request(one, Cancel()), Request(two, Cancel(), actor="\ud800"), Request(three, Cancel())]
    answers = await store.change(requests)
    assert [type(answer) for answer in answers] == [Changed, RowsRefused, Changed]
    assert await harness.state(two) is RunState.PENDING


async def test_nothing_asked_is_nothing_answered(store):
    assert await store.change([]) == []


async def test_a_tenant_commands_its_own_runs(harness):
    started = await harness.start()
    assert (await harness.change(started.run_id, Cancel(), tenant="acme")).state is RunState.CANCELLED


async def test_the_run_of_another_tenant_is_not_found_and_not_changed(harness):
    started = await harness.start()
    before = await harness.contents()
    refusal = await harness.change(started.run_id, Cancel(), tenant="other", key="k")
    assert isinstance(refusal, NotFound)
    assert started.run_id in str(refusal)
    assert await harness.contents() == before
