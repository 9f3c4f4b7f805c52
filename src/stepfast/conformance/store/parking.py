"""Parking, and handing back."""

from __future__ import annotations

from stepfast.conformance.store.acts import NOON, decide, end, hand_back, park, step, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Rerun
from stepfast.kernel.exchange import Saving
from stepfast.kernel.states import RunState, TaskState, WaitKind


@on_fresh_stores
class ParkingSuite(StoreSuite):
    """A run waits only while nothing has come for it."""

    async def test_a_parked_run_is_waiting(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.save(park(run, wait())) == [Saving.SAVED]
        assert await harness.state(run.run_id) is RunState.WAITING

    async def test_a_parked_run_has_no_holder(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(park(run, wait()))
        assert (await harness.store.beat(run.worker_id)).holdings == []

    async def test_a_parked_run_is_not_claimed_while_nothing_comes(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(park(run, wait()))
        await harness.advance(10**9)
        assert await harness.claim() == []

    async def test_a_parked_run_waits_at_the_latest_for_the_first_of_its_waits(self, harness: Harness) -> None:
        run = await harness.parked(wait(1, due_in_ms=900), wait(2, due_in_ms=300), wait(3))
        assert (await harness.view(run.run_id)).updated_at == NOON
        assert (await harness.ask()).next_due_at == NOON + 300
        await harness.advance(299)
        assert await harness.claim() == []
        await harness.advance(1)
        assert [held.run_id for held in await harness.claim()] == [run.run_id]

    async def test_waits_opened_earlier_count_too(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(wait(1, due_in_ms=100),)))
        await harness.save(park(run, wait(2, due_in_ms=900)))
        assert (await harness.ask()).next_due_at == NOON + 100

    async def test_a_closed_wait_is_gone(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(wait(1), wait(2))))
        await harness.save(decide(run, closed=(1,)))
        assert [open_wait.wait_id for open_wait in (await harness.look(run.run_id)).waits] == [2]

    async def test_what_was_taken_from_the_inbox_is_gone(self, harness: Harness) -> None:
        run = await harness.held()
        for _ in range(2):
            await harness.signal(run.run_id)
        await harness.save(decide(run, taken=(1,)))
        assert [message.n for message in (await harness.look(run.run_id)).inbox] == [2]

    async def test_a_run_is_not_parked_when_something_has_come(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.signal(run.run_id)
        assert await harness.save(park(run, wait())) == [Saving.WOKEN]
        assert await harness.standing(run.run_id) == (TaskState.LEASED, 1)

    async def test_a_refused_park_writes_nothing(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.signal(run.run_id)
        before = await harness.contents()
        await harness.save(park(run, wait()))
        assert await harness.contents() == before

    async def test_a_park_that_has_seen_what_came_is_saved(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.signal(run.run_id, "other")
        assert await harness.save(park(run, wait(), wakes=1)) == [Saving.SAVED]

    async def test_a_decision_after_a_park_in_the_same_batch_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.save(park(run, wait()), step(run)) == [Saving.SAVED, Saving.LOST]

    async def test_a_run_handed_back_is_ready_with_its_token_raised(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(hand_back(run))
        view = await harness.view(run.run_id)
        assert (view.worker_id, view.token, view.crashes) == (None, run.token + 1, 0)
        assert await harness.standing(run.run_id) == (TaskState.READY, 0)

    async def test_a_run_handed_back_is_running_to_people(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(hand_back(run))
        assert await harness.state(run.run_id) is RunState.RUNNING

    async def test_a_run_handed_back_for_later_is_pending(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(hand_back(run, delay_ms=500))
        assert await harness.state(run.run_id) is RunState.PENDING

    async def test_a_run_handed_back_for_later_raises_its_token(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(hand_back(run, delay_ms=500))
        assert (await harness.view(run.run_id)).token == run.token + 1
        waits = (await harness.look(run.run_id)).waits
        assert [(put_off.kind, put_off.due_at) for put_off in waits] == [(WaitKind.BACKOFF, NOON + 500)]

    async def test_a_run_handed_back_for_later_is_not_claimed_early(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(hand_back(run, delay_ms=500))
        await harness.advance(499)
        assert await harness.claim() == []

    async def test_a_run_may_be_handed_back_for_later_again_and_again(self, harness: Harness) -> None:
        run = await harness.held()
        for _ in range(3):
            assert await harness.save(hand_back(run, delay_ms=500)) == [Saving.SAVED]
            await harness.advance(500)
            (run,) = await harness.claim()
        assert run.claims == 4

    async def test_what_follows_a_park_that_was_woken_is_not_saved_in_the_same_commit(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.signal(run.run_id)
        assert await harness.save(park(run, wait()), step(run)) == [Saving.WOKEN, Saving.LOST]

    async def test_an_ended_run_leaves_nothing_to_wait_for_but_the_signals_that_it_did_not_take(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(wait(1),)))
        await harness.signal(run.run_id)
        await harness.save(end(run))
        await harness.change(run.run_id, Rerun())
        look = await harness.look(run.run_id)
        assert (look.waits, [message.name for message in look.inbox]) == ([], ["paid"])
