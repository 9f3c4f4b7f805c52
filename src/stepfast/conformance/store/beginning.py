"""What a claim says of whether a run's code has begun, so that its history tells of it once in each generation."""

from __future__ import annotations

from stepfast.conformance.store.acts import NOON, continued, decide, fail, hand_back, park, step, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.rewriting import PLAN, SHIP, failed
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Pause, Rerun, Resume, RetryRun, Skip
from stepfast.kernel.decisions import Continue, Decision, HeldRun
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.states import RunState

CHARGE = Skip("charge", "1", PLAN)


def begin(run: HeldRun) -> Decision:
    return decide(run, EventType.STARTED)


def hand_back_begun(run: HeldRun) -> Decision:
    """A run that is handed back before anything is recorded, with what rode along."""
    decision = hand_back(run)
    decision.events = (Event(EventType.STARTED, NOON), *decision.events)
    return decision


async def claimed_again(harness: Harness, *decisions: Decision) -> HeldRun:
    await harness.save(*decisions)
    (again,) = await harness.claim()
    return again


@on_fresh_stores
class BeginningSuite(StoreSuite):
    """A run has begun when its history tells so in this generation, however often it was claimed."""

    async def test_a_run_that_nobody_had_has_not_begun(self, harness: Harness) -> None:
        assert not (await harness.held()).begun

    async def test_a_run_that_was_claimed_and_handed_back_has_not_begun(self, harness: Harness) -> None:
        again = await claimed_again(harness, hand_back(await harness.held()))
        assert (again.claims, again.begun) == (2, False)
        assert not (await claimed_again(harness, hand_back(again))).begun

    async def test_a_run_that_was_born_leased_and_handed_back_has_not_begun(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        started = await harness.start("w1")
        await harness.store.give_back(worker_id, [started.run_id])
        assert [(run.claims, run.begun) for run in await harness.claim()] == [(2, False)]

    async def test_a_run_whose_holder_died_before_it_saved_anything_has_not_begun(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.bury()
        await harness.enrol("w2")
        again = await harness.claim_run(run.run_id, "w2")
        assert again is not None
        assert (again.claims, again.begun) == (2, False)

    async def test_a_run_that_was_handed_back_without_a_record_has_begun(self, harness: Harness) -> None:
        again = await claimed_again(harness, hand_back_begun(await harness.held()))
        assert (again.last_seq, again.begun) == (0, True)
        assert (await claimed_again(harness, hand_back(again))).begun

    async def test_a_run_whose_holder_died_after_it_began_has_begun(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(begin(run))
        await harness.bury()
        await harness.enrol("w2")
        again = await harness.claim_run(run.run_id, "w2")
        assert again is not None
        assert again.begun

    async def test_a_run_with_records_has_begun(self, harness: Harness) -> None:
        run = await harness.held()
        assert (await claimed_again(harness, begin(run), step(run), hand_back(run))).begun

    async def test_a_run_that_was_woken_has_begun(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(begin(run), park(run, wait()))
        await harness.signal(run.run_id)
        assert [run.begun for run in await harness.claim()] == [True]

    async def test_each_generation_begins_anew(self, harness: Harness) -> None:
        run = await harness.held()
        release = Continue(1, "order@1", "{}")
        again = await claimed_again(harness, begin(run), step(run), continued(run, release))
        assert (again.generation, again.begun) == (2, False)
        again = await claimed_again(harness, hand_back(again))
        assert (again.claims, again.begun) == (2, False)
        assert (await claimed_again(harness, hand_back_begun(again))).begun

    async def test_a_run_that_is_run_again_from_a_step_begins_anew(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, Rerun("ship"))
        (again,) = await harness.claim()
        again = await claimed_again(harness, hand_back(again))
        assert (again.generation, again.claims, again.kept_seq, again.begun) == (2, 2, run.last_seq, False)
        assert (await claimed_again(harness, begin(again), step(again), hand_back(again))).begun

    async def test_a_generation_that_is_no_retry_is_a_new_epoch(self, harness: Harness) -> None:
        run, epochs = await harness.held(), list[int]()
        again = Continue(1, "order@1", "{}", "retry", RunState.FAILED, None, ())
        for release in (again, Continue(1, "order@1", "{}"), again):
            run = await claimed_again(harness, begin(run), step(run), continued(run, release))
            epochs.append(run.epoch)
        assert epochs == [1, 3, 3]

    async def test_a_rerun_is_a_new_epoch_unless_something_is_kept(self, harness: Harness) -> None:
        run, epochs = await failed(harness), list[int]()
        for command in (Rerun("ship"), Rerun(), RetryRun()):
            await harness.change(run.run_id, command)
            (run,) = await harness.claim()
            epochs.append(run.epoch)
            await harness.save(begin(run), step(run), fail(run, "charge#1"))
        assert epochs == [1, 3, 3]

    async def test_a_step_that_a_person_did_is_no_beginning(self, harness: Harness) -> None:
        run = await failed(harness)
        await harness.change(run.run_id, SHIP)
        (again,) = await harness.claim()
        again = await claimed_again(harness, hand_back(again))
        assert (again.last_seq > again.kept_seq, again.begun) == (True, False)
        assert (await claimed_again(harness, hand_back_begun(again))).begun

    async def test_a_step_that_a_person_did_before_the_first_beginning_is_none(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(hand_back(run))
        await harness.change(run.run_id, Pause())
        await harness.change(run.run_id, CHARGE)
        assert await harness.state(run.run_id) is RunState.PAUSED
        await harness.change(run.run_id, Resume())
        (again,) = await harness.claim()
        assert (again.last_seq, again.begun) == (1, False)
        assert (await claimed_again(harness, hand_back_begun(again))).begun
