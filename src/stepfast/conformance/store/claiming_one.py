"""Claiming one given run, whatever stands in front of it."""

from __future__ import annotations

from stepfast.conformance.store.acts import end, park, step, told_by, wait, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Pause
from stepfast.kernel.exchange import Saving
from stepfast.kernel.states import RunState


@on_fresh_stores
class ClaimingOneSuite(StoreSuite):
    """A given run is claimed if it could be claimed at all."""

    async def test_a_given_run_is_claimed_before_those_that_stand_in_front_of_it(self, harness: Harness) -> None:
        await harness.enrol()
        _, _, last = await harness.start_many(3)
        run = await harness.claim_run(last)
        assert run is not None
        assert (run.run_id, run.worker_id, run.token, run.claims) == (last, worker("w1"), 1, 1)
        event = await harness.last_event(last)
        assert (event.seq, event.type, event.token) == (run.last_event, "claimed", run.token)
        assert told_by(event) == {"worker": worker("w1"), "label": "first"}

    async def test_a_given_run_that_is_claimed_is_held_like_any_other(self, harness: Harness) -> None:
        await harness.enrol()
        run = await harness.claim_run((await harness.start()).run_id)
        assert run is not None
        assert await harness.claim() == []
        assert await harness.save(step(run)) == [Saving.SAVED]
        assert [held.run_id for held in (await harness.store.beat(run.worker_id)).holdings] == [run.run_id]

    async def test_a_given_run_that_is_due_is_claimed(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start(delay_ms=500)
        assert await harness.claim_run(started.run_id) is None
        await harness.advance(500)
        assert await harness.claim_run(started.run_id) is not None
        assert (await harness.look(started.run_id)).waits == []

    async def test_a_given_run_that_is_a_suspect_is_claimed(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.bury()
        await harness.enrol("w2")
        again = await harness.claim_run(run.run_id, "w2")
        assert again is not None
        assert again.crashes == 1

    async def test_a_given_run_that_waits_is_not_claimed(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(park(run, wait()))
        assert await harness.claim_run(run.run_id) is None

    async def test_a_given_run_that_a_worker_holds_is_not_claimed(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.enrol("w2")
        assert await harness.claim_run(run.run_id, "w2") is None

    async def test_a_given_run_that_is_paused_is_not_claimed(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start()
        await harness.change(started.run_id, Pause())
        assert await harness.claim_run(started.run_id) is None

    async def test_a_given_run_of_code_that_the_worker_lacks_is_not_claimed(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start()
        assert await harness.claim_run(started.run_id, codes=("other@1",)) is None

    async def test_a_given_run_that_has_ended_or_never_was_is_not_claimed(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        assert await harness.claim_run(run.run_id) is None
        assert await harness.claim_run(harness.new_run().run_id) is None

    async def test_a_dead_worker_is_not_given_a_run(self, harness: Harness) -> None:
        await harness.store.retire(await harness.enrol())
        started = await harness.start()
        assert await harness.claim_run(started.run_id) is None
        assert await harness.state(started.run_id) is RunState.PENDING
