"""Pausing and resuming."""

from __future__ import annotations

from stepfast.conformance.store.acts import NOON, VERDICT, decide, end, hand_back, park, step, told_by, wait, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Cancel, Changed, Pause, Resume, TimeOut
from stepfast.kernel.decisions import Message
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.exchange import Holding, Saving
from stepfast.kernel.ids import RunId
from stepfast.kernel.rules import hold_back
from stepfast.kernel.states import RunState, TaskState, WaitKind


async def paused(harness: Harness) -> RunId:
    """A run that nobody has claimed yet and a person holds."""
    started = await harness.start()
    await harness.change(started.run_id, Pause())
    return started.run_id


@on_fresh_stores
class PausingSuite(StoreSuite):
    """A paused run keeps what it has and goes on from there."""

    async def test_a_paused_run_can_be_cancelled(self, harness: Harness) -> None:
        run_id = await paused(harness)
        assert (await harness.change(run_id, Cancel())).state is RunState.CANCELLED

    async def test_a_paused_run_is_not_claimed(self, harness: Harness) -> None:
        await harness.enrol()
        run_id = await paused(harness)
        assert await harness.claim() == []
        assert await harness.state(run_id) is RunState.PAUSED

    async def test_a_pause_changes_when_the_run_was_updated(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.advance(5)
        await harness.change(started.run_id, Pause())
        assert (await harness.view(started.run_id)).updated_at == NOON + 5

    async def test_a_paused_run_keeps_what_it_waits_for(self, harness: Harness) -> None:
        run = await harness.parked(wait(due_in_ms=100))
        await harness.change(run.run_id, Pause())
        look = await harness.look(run.run_id)
        assert [(kept.kind, kept.due_at) for kept in look.waits] == [(WaitKind.SIGNAL, NOON + 100)]
        assert (look.wakes, look.hold) == (0, True)

    async def test_a_pause_without_a_reason_leaves_a_message_without_data(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        assert [message.value for message in (await harness.look(run.run_id)).inbox] == [None]

    async def test_what_the_holder_had_no_time_to_tell_is_told_behind_the_end(self, harness: Harness) -> None:
        run = await harness.held()
        for command in (Pause(), Resume(), Pause()):
            await harness.change(run.run_id, command, actor="ann")
        await harness.save(end(run))
        told = (await harness.store.events(run.run_id))[-4:]
        assert [event.type for event in told] == ["completed", "paused", "resumed", "paused"]
        assert [event.seq for event in told] == list(range(told[0].seq, told[0].seq + 4))
        assert {event.actor for event in told[1:]} == {"ann"}

    async def test_a_run_that_is_told_to_pause_is_still_its_holders(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        assert await harness.save(step(run)) == [Saving.SAVED]

    async def test_a_run_that_is_told_to_pause_does_not_park_before_it_has_looked(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        assert await harness.save(park(run, wait())) == [Saving.WOKEN]

    async def test_a_run_that_its_holder_gives_back_is_paused(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause(), actor="ann")
        told = hold_back(run, (await harness.look(run.run_id)).inbox, NOON)
        await harness.save(decide(run, events=told.events, taken=told.taken, release=told.release))
        assert await harness.state(run.run_id) is RunState.PAUSED
        assert {"paused", "handed_back"} == {event.type for event in told.events}
        assert await harness.event_types(run.run_id) == ["queued", "claimed", *(event.type for event in told.events)]
        assert (await harness.look(run.run_id)).inbox == []
        assert await harness.claim() == []

    async def test_signals_for_a_paused_run_are_kept_and_wake_nobody(self, harness: Harness) -> None:
        run = await harness.parked()
        await harness.change(run.run_id, Pause())
        await harness.signal(run.run_id)
        assert await harness.claim() == []
        assert await harness.state(run.run_id) is RunState.PAUSED
        assert [message.name for message in (await harness.look(run.run_id)).inbox] == ["paid"]

    async def test_commands_and_signals_for_a_held_run_are_numbered_together_and_kept_apart(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        await harness.signal(run.run_id)
        await harness.change(run.run_id, Resume())
        inbox = (await harness.look(run.run_id)).inbox
        assert [(message.n, message.kind) for message in inbox] == [(1, "paused"), (2, "signal"), (3, "resumed")]

    @cases(is_held={"held": True, "ready": False})
    async def test_a_run_is_not_paused_twice(self, harness: Harness, is_held: bool) -> None:
        run_id = (await harness.held()).run_id if is_held else (await harness.start()).run_id
        await harness.change(run_id, Pause())
        before = await harness.contents()
        assert isinstance(await harness.refusal(run_id, Pause()), IllegalMove)
        assert await harness.contents() == before

    @cases(is_held={"held": True, "ready": False})
    async def test_a_run_that_is_not_paused_is_not_resumed(self, harness: Harness, is_held: bool) -> None:
        run_id = (await harness.held()).run_id if is_held else (await harness.start()).run_id
        before = await harness.contents()
        assert isinstance(await harness.refusal(run_id, Resume()), IllegalMove)
        assert await harness.contents() == before

    async def test_a_resumed_run_is_claimed(self, harness: Harness) -> None:
        await harness.enrol()
        run_id = await paused(harness)
        changed = await harness.change(run_id, Resume(), actor="ann")
        assert changed.state is await harness.state(run_id) is RunState.PENDING
        assert [run.run_id for run in await harness.claim()] == [run_id]
        assert await harness.event_types(run_id) == ["queued", "paused", "resumed", "claimed"]

    async def test_a_resumed_run_that_waits_looks_at_its_waits_again(self, harness: Harness) -> None:
        run = await harness.parked(wait(due_in_ms=10_000))
        await harness.change(run.run_id, Pause())
        await harness.advance(5)
        changed = await harness.change(run.run_id, Resume())
        assert changed.state is await harness.state(run.run_id) is RunState.RUNNING
        assert await harness.standing(run.run_id) == (TaskState.READY, 0)
        assert (await harness.view(run.run_id)).updated_at == NOON + 5
        assert [open_wait.kind for open_wait in (await harness.look(run.run_id)).waits] == [WaitKind.SIGNAL]

    @cases(is_delayed={"delay": True, "backoff": False})
    async def test_a_resumed_run_that_was_put_off_starts_no_earlier(self, harness: Harness, is_delayed: bool) -> None:
        await harness.enrol()
        started = await harness.start(delay_ms=500 if is_delayed else 0)
        if not is_delayed:
            (run,) = await harness.claim()
            await harness.save(hand_back(run, delay_ms=500))
        await harness.change(started.run_id, Pause())
        changed = await harness.change(started.run_id, Resume())
        assert changed.state is await harness.state(started.run_id) is RunState.PENDING
        await harness.advance(499)
        assert await harness.claim() == []
        await harness.advance(1)
        assert [run.run_id for run in await harness.claim()] == [started.run_id]

    async def test_a_resumed_run_that_was_put_off_starts_no_earlier_for_a_try_that_is_due(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(wait(1, WaitKind.BACKOFF, due_in_ms=100),)))
        await harness.save(hand_back(run, delay_ms=500))
        await harness.advance(200)
        assert await harness.claim() == []
        await harness.change(run.run_id, Pause())
        changed = await harness.change(run.run_id, Resume())
        assert changed.state is await harness.state(run.run_id) is RunState.PENDING
        assert await harness.claim() == []
        await harness.advance(300)
        assert len(await harness.claim()) == 1

    async def test_a_run_whose_delay_ended_while_it_was_paused_is_ready_when_resumed(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start(delay_ms=500)
        await harness.change(started.run_id, Pause())
        await harness.advance(500)
        changed = await harness.change(started.run_id, Resume())
        assert changed.state is await harness.state(started.run_id) is RunState.PENDING
        assert (await harness.store.queues())[0].ready == 1
        assert [run.run_id for run in await harness.claim()] == [started.run_id]

    async def test_a_run_that_also_waits_for_something_else_is_not_put_off(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(wait(1),)))
        await harness.save(hand_back(run, delay_ms=500))
        await harness.change(run.run_id, Pause())
        await harness.change(run.run_id, Resume())
        assert await harness.standing(run.run_id) == (TaskState.READY, 0)

    async def test_resuming_a_held_run_tells_its_holder(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        changed = await harness.change(run.run_id, Resume(), actor="ann")
        look = await harness.look(run.run_id)
        assert (changed.state, look.wakes, look.hold) == (RunState.RUNNING, 2, False)
        assert [(message.kind, message.actor) for message in look.inbox] == [("paused", None), ("resumed", "ann")]

    async def test_a_pause_that_its_holder_did_not_live_to_tell_is_told_before_what_follows(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause(), actor="ann", reason="lunch")
        await harness.signal(run.run_id)
        await harness.bury()
        assert await harness.state(run.run_id) is RunState.PAUSED
        await harness.change(run.run_id, Resume())
        assert await harness.event_types(run.run_id) == ["queued", "claimed", "reaped", "paused", "resumed"]
        told = (await harness.store.events(run.run_id))[3]
        assert (told.actor, told.at, told.data) == ("ann", NOON, '{"reason": "lunch"}')
        assert [message.kind for message in (await harness.look(run.run_id)).inbox] == ["signal"]

    async def test_a_pause_that_its_holder_can_tell_no_more_is_told_before_the_cancel(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        await harness.change(run.run_id, Cancel())
        assert await harness.event_types(run.run_id) == ["queued", "claimed", "paused", "cancelled"]

    async def test_a_paused_run_may_run_out_of_time(self, harness: Harness) -> None:
        started = await harness.start(timeout_ms=100)
        await harness.change(started.run_id, Pause())
        await harness.advance(100)
        assert (await harness.change(started.run_id, TimeOut(VERDICT))).state is RunState.FAILED

    async def test_pausing_a_run_that_nobody_holds_is_told_at_once(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.advance(5)
        changed = await harness.change(started.run_id, Pause(), actor="ann", reason="lunch")
        event = await harness.last_event(started.run_id)
        assert (event.seq, event.type, event.actor, event.at, event.token) == (2, "paused", "ann", NOON + 5, 0)
        assert told_by(event) == {"reason": "lunch"}
        assert changed == Changed(started.run_id, RunState.PAUSED, 1, "default", Instant(NOON + 5))

    async def test_pausing_a_held_run_asks_its_holder(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.advance(5)
        changed = await harness.change(run.run_id, Pause(), actor="ann", reason="lunch")
        assert (changed.state, changed.worker_id) == (RunState.RUNNING, worker("w1"))
        assert (await harness.store.beat(run.worker_id)).holdings == [Holding(run.run_id, run.token, 1, True)]
        look = await harness.look(run.run_id)
        assert (look.token, look.wakes, look.hold) == (run.token, 1, True)
        assert look.inbox == [Message(1, "paused", "", '{"reason": "lunch"}', "ann", Instant(NOON + 5), False)]

    async def test_pausing_a_held_run_writes_no_event(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        assert await harness.event_types(run.run_id) == ["queued", "claimed"]
