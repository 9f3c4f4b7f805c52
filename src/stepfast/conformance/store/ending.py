"""Cancelling a run, and deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from stepfast.conformance.store.acts import (
    NOON,
    ROUNDS,
    VERDICT,
    end,
    fail,
    hand_back,
    park,
    step,
    told_by,
    wait,
    worker,
)
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Cancel, Changed, Command, Pause, Request, Rerun, Resume, RetryRun, TimeOut
from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.exchange import Delivered, Saving
from stepfast.kernel.states import ENDED, RunState, TaskState, WaitKind

LATE: dict[str, Callable[[HeldRun], Decision]] = {
    "a record": step,
    "an end": end,
    "a hand-back": hand_back,
    "a park": lambda run: park(run, wait()),
}


@on_fresh_stores
class EndingSuite(StoreSuite):
    """A run ends once, and who held it writes no more."""

    async def test_a_cancelled_run_leaves_nothing_to_wait_for(self, harness: Harness) -> None:
        run = await harness.parked()
        await harness.change(run.run_id, Cancel())
        assert await harness.store.look(run.run_id) is None
        await harness.change(run.run_id, Rerun())
        look = await harness.look(run.run_id)
        assert (look.waits, look.inbox) == ([], [])

    async def test_a_signal_that_a_cancelled_run_did_not_take_is_there_when_it_is_opened_again(
        self, harness: Harness
    ) -> None:
        run = await harness.parked()
        await harness.signal(run.run_id, "other", key="once")
        await harness.change(run.run_id, Cancel())
        await harness.change(run.run_id, Rerun())
        await harness.signal(run.run_id, "other", key="once")
        await harness.signal(run.run_id, "another")
        look = await harness.look(run.run_id)
        assert [(message.n, message.name) for message in look.inbox] == [(1, "other"), (2, "another")]

    async def test_a_signal_that_a_failed_run_was_not_told_of_is_there_when_it_is_retried(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.signal(run.run_id, "paid")
        await harness.save(fail(run))
        await harness.change(run.run_id, RetryRun())
        (again,) = await harness.claim()
        look = await harness.look(run.run_id)
        assert (again.wakes, [(message.name, message.told) for message in look.inbox]) == (1, [("paid", False)])

    async def test_a_cancelled_run_has_ended(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.advance(5)
        changed = await harness.change(started.run_id, Cancel())
        view = await harness.view(started.run_id)
        assert (changed.state, view.state, view.ended_at) == (RunState.CANCELLED, RunState.CANCELLED, NOON + 5)

    async def test_cancelling_is_told_with_who_and_why(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.change(started.run_id, Cancel(), actor="ann", reason="wrong order")
        event = await harness.last_event(started.run_id)
        assert (event.seq, event.type, event.actor, event.at, event.generation) == (2, "cancelled", "ann", NOON, 1)
        assert told_by(event) == {"reason": "wrong order"}

    async def test_the_outcome_of_a_cancelled_run_carries_a_token_above_its_holders(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Cancel())
        event, view = await harness.last_event(run.run_id), await harness.view(run.run_id)
        assert (view.state, view.generation, view.token) == (RunState.CANCELLED, 1, run.token + 1)
        assert event.token == run.token + 1

    async def test_a_cancel_names_the_holder_it_took_the_run_from(self, harness: Harness) -> None:
        run = await harness.held()
        changed = await harness.change(run.run_id, Cancel())
        assert changed == Changed(run.run_id, RunState.CANCELLED, 1, "default", NOON, worker("w1"), None)

    @cases(late=LATE)
    async def test_what_the_holder_of_a_cancelled_run_sends_changes_nothing(
        self, harness: Harness, late: Callable[[HeldRun], Decision]
    ) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Cancel())
        before = await harness.contents()
        assert await harness.save(late(run)) == [Saving.LOST]
        assert await harness.contents() == before

    async def test_the_holder_of_a_cancelled_run_learns_it_from_its_heartbeat(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Cancel())
        assert (await harness.store.beat(run.worker_id)).holdings == []
        assert await harness.store.look(run.run_id) is None

    async def test_a_cancelled_run_is_never_claimed_again(self, harness: Harness) -> None:
        await harness.parked(wait(kind=WaitKind.TIME, due_in_ms=100))
        delayed = await harness.start(delay_ms=100)
        for run_id in await harness.run_ids():
            await harness.change(run_id, Cancel())
        await harness.advance(1_000)
        assert await harness.claim() == []
        assert await harness.state(delayed.run_id) is RunState.CANCELLED

    async def test_a_cancelled_run_takes_no_signal(self, harness: Harness) -> None:
        run = await harness.parked()
        await harness.change(run.run_id, Cancel())
        assert await harness.signal(run.run_id) == Delivered(RunState.CANCELLED)

    async def test_a_cancelled_child_counts_as_failed_and_wakes_its_parent(self, harness: Harness) -> None:
        parent, (child,) = await harness.parent(children=1, need=1)
        await harness.save(park(parent))
        changed = await harness.change(child, Cancel())
        assert changed.parent_id == parent.run_id
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)
        assert [(group.got, group.failed) for group in (await harness.look(parent.run_id)).waits] == [(0, 1)]

    @cases(
        command={"cancel": Cancel(), "pause": Pause(), "resume": Resume(), "time out": TimeOut(VERDICT)},
        state={str(state): state for state in sorted(ENDED)},
    )
    async def test_an_ended_run_stays_as_it_is(self, harness: Harness, command: Command, state: RunState) -> None:
        run = await harness.held(timeout_ms=1)
        await harness.save(end(run, state))
        await harness.advance(1)
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, command), IllegalMove)
        assert await harness.contents() == before

    async def test_a_run_past_its_deadline_fails_and_is_a_dead_letter(self, harness: Harness) -> None:
        run = await harness.held(timeout_ms=100)
        await harness.save(park(run, wait()))
        await harness.advance(100)
        changed = await harness.change(run.run_id, TimeOut(VERDICT))
        view = await harness.view(run.run_id)
        assert (changed.state, view.state, view.error) == (RunState.FAILED, RunState.FAILED, VERDICT.error)
        assert (await harness.event_types(run.run_id))[-4:] == [
            "exception_opened",
            "dlq_pending",
            "dlq_recorded",
            "failed",
        ]
        (letter,) = await harness.letters()
        assert letter[:5] == (run.run_id, 1, "acme", "order", 1)
        assert (letter.error_type, letter.message) == (VERDICT.error_type, VERDICT.message)

    async def test_a_child_past_its_deadline_counts_as_failed_and_is_no_dead_letter(self, harness: Harness) -> None:
        parent, (child,) = await harness.parent(children=1, need=1, timeout_ms=100)
        await harness.save(park(parent))
        await harness.advance(100)
        await harness.change(child, TimeOut(VERDICT))
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)
        assert await harness.letters() == []

    async def test_a_run_is_not_timed_out_before_its_deadline(self, harness: Harness) -> None:
        started = await harness.start(timeout_ms=100)
        await harness.advance(99)
        assert isinstance(await harness.refusal(started.run_id, TimeOut(VERDICT)), IllegalMove)
        assert await harness.state(started.run_id) is RunState.PENDING

    async def test_children_cancelled_by_one_call_wake_their_parent_once(self, harness: Harness) -> None:
        parent, children = await harness.parent(children=3, need=3)
        await harness.save(park(parent))
        await harness.store.change([Request(child, Cancel()) for child in children])
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)

    async def test_a_cancel_after_the_completion_changes_nothing(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, Cancel()), IllegalMove)
        assert await harness.contents() == before

    @cases(cancel_first={"the cancel first": True, "the completion first": False})
    async def test_of_a_cancel_and_a_completion_at_once_one_ends_the_run(
        self, harness: Harness, cancel_first: bool
    ) -> None:
        for _ in range(ROUNDS):
            run = await harness.held()
            cancel, complete = harness.answer(run.run_id, Cancel()), harness.save(end(run))
            if cancel_first:
                answer, (saving,) = await asyncio.gather(cancel, complete)
            else:
                (saving,), answer = await asyncio.gather(complete, cancel)
            is_cancelled = isinstance(answer, Changed)
            assert is_cancelled == (saving is Saving.LOST)
            winner = RunState.CANCELLED if is_cancelled else RunState.COMPLETED
            assert (await harness.store.outcomes([run.run_id]))[run.run_id].state is winner
            assert (await harness.event_types(run.run_id))[2:] == [winner]
