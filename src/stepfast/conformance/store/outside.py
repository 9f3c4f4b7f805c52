"""Outside work: what is left of it when its run ends, and claims of runs that ask after it."""

from __future__ import annotations

from stepfast.conformance.store.acts import HOUR_MS, decide, end, told_by, try_again, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Cancel
from stepfast.kernel.decisions import Decision, HeldRun, Park
from stepfast.kernel.exchange import Saving
from stepfast.kernel.outside import LeftOutside
from stepfast.kernel.states import RunState, WaitKind

ASKING = '{"step": "launch#1", "handle": "job-1"}'
# By its room to spare a store sees that the work is to be stopped.
STOPPED = wait(1, WaitKind.OUTSIDE, name=ASKING, due_in_ms=1_000, spare=1, size=1)
NOT_STOPPED = STOPPED._replace(spare=0)


def asked_again(run: HeldRun) -> Decision:
    """A park of which nothing is told: the work is not done, and is asked after later."""
    later = STOPPED._replace(due_in_ms=2_000)
    return decide(run, events=(), closed=(1,), opened=(later,), release=Park(run.wakes))


@on_fresh_stores
class OutsideSuite(StoreSuite):
    """Work outside that is to be stopped is kept until that is seen to; questions that bring nothing leave no event."""

    async def test_work_is_left_when_its_run_is_cancelled(self, harness: Harness) -> None:
        run = await harness.parked(STOPPED)
        await harness.change(run.run_id, Cancel())
        assert await harness.store.left_outside() == [LeftOutside(run.run_id, 1, ASKING)]

    @cases(state={"well": RunState.COMPLETED, "badly": RunState.FAILED})
    async def test_work_is_left_when_its_run_ends(self, harness: Harness, state: RunState) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(STOPPED,)), end(run, state))
        assert await harness.store.left_outside() == [LeftOutside(run.run_id, 1, ASKING)]

    async def test_work_that_nothing_stops_is_not_left(self, harness: Harness) -> None:
        run = await harness.parked(NOT_STOPPED)
        await harness.change(run.run_id, Cancel())
        assert await harness.store.left_outside() == []

    async def test_work_whose_end_its_run_has_heard_of_is_not_left(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(STOPPED,)))
        await harness.save(decide(run, closed=(1,)))
        await harness.save(end(run))
        assert await harness.store.left_outside() == []

    async def test_work_of_a_run_that_goes_on_is_its_holder_s_affair(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(STOPPED,)), decide(run, release=try_again(run)))
        assert await harness.store.left_outside() == []

    async def test_work_that_was_seen_to_is_forgotten(self, harness: Harness) -> None:
        runs = [await harness.parked(STOPPED) for _ in range(2)]
        for run in runs:
            await harness.change(run.run_id, Cancel())
        await harness.store.forget_outside(runs[0].run_id, 1)
        await harness.store.forget_outside(runs[0].run_id, 1)
        assert await harness.store.left_outside() == [LeftOutside(runs[1].run_id, 1, ASKING)]

    async def test_no_more_is_listed_than_was_asked_for(self, harness: Harness) -> None:
        for _ in range(3):
            await harness.change((await harness.parked(STOPPED)).run_id, Cancel())
        assert len(await harness.store.left_outside(2)) == 2

    async def test_a_claim_to_ask_after_work_is_not_told(self, harness: Harness) -> None:
        run = await harness.parked(STOPPED)
        told = await harness.event_types(run.run_id)
        await harness.advance(1_000)
        (again,) = await harness.claim()
        assert (again.run_id, again.last_event) == (run.run_id, run.last_event)
        assert await harness.event_types(run.run_id) == told

    async def test_a_run_that_asks_again_leaves_no_event(self, harness: Harness) -> None:
        run = await harness.parked(STOPPED)
        told = await harness.event_types(run.run_id)
        for _ in range(3):
            await harness.advance(2_000)
            (run,) = await harness.claim()
            assert await harness.save(asked_again(run)) == [Saving.SAVED]
        assert await harness.state(run.run_id) is RunState.WAITING
        assert await harness.event_types(run.run_id) == told

    async def test_a_park_without_an_event_that_is_sent_again_changes_nothing(self, harness: Harness) -> None:
        await harness.parked(STOPPED)
        await harness.advance(1_000)
        (run,) = await harness.claim()
        parking = asked_again(run)
        await harness.save(parking)
        contents = await harness.contents()
        assert await harness.save(parking, again=True) == [Saving.LOST]
        assert await harness.contents() == contents

    async def test_a_claim_for_work_that_only_calls_back_is_told(self, harness: Harness) -> None:
        run = await harness.parked(STOPPED._replace(due_in_ms=None), wait(2, WaitKind.TIME, due_in_ms=HOUR_MS))
        await harness.advance(HOUR_MS)
        (again,) = await harness.claim()
        event = await harness.last_event(run.run_id)
        assert (event.type, event.seq) == ("claimed", again.last_event)
        assert told_by(event)["label"] == "first"
