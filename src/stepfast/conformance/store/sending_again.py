"""Sending decisions again, and batches that the store refuses whole."""

from __future__ import annotations

from dataclasses import replace

from stepfast.conformance.running import refused
from stepfast.conformance.store.acts import decide, end, record, step, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import RowsRefused
from stepfast.kernel.exchange import Saving


@on_fresh_stores
class SendingAgainSuite(StoreSuite):
    """What is sent twice is saved once, and a refused batch leaves nothing."""

    async def test_sending_again_what_was_saved_counts_as_saved(self, harness: Harness) -> None:
        run = await harness.held()
        decision = step(run)
        await harness.save(decision)
        before = await harness.contents()
        assert await harness.save(decision, again=True) == [Saving.SAVED]
        assert await harness.contents() == before

    async def test_sending_an_end_again_counts_as_saved(self, harness: Harness) -> None:
        run = await harness.held()
        batch = (step(run), end(run))
        await harness.save(*batch)
        assert await harness.save(*batch, again=True) == [Saving.SAVED, Saving.SAVED]

    async def test_sending_again_what_never_arrived_saves_it(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.save(step(run), again=True) == [Saving.SAVED]
        assert len(await harness.store.steps(run.run_id)) == 1

    async def test_sending_again_after_the_run_was_lost_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        decision = step(run)
        await harness.store.retire(worker("w1"))
        assert await harness.save(decision, again=True) == [Saving.LOST]

    async def test_sending_again_after_the_worker_was_buried_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        decision = step(run)
        await harness.bury()
        assert await harness.save(decision, again=True) == [Saving.LOST]

    async def test_a_number_used_twice_refuses_the_batch(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(2)
        one, two = await harness.claim()
        await harness.save(step(one))
        before = await harness.contents()
        twice = replace(step(one), first_seq=1)
        with refused(RowsRefused, "a number used twice"):
            await harness.save(step(two), twice)
        assert await harness.contents() == before

    async def test_text_that_cannot_be_stored_refuses_the_batch(self, harness: Harness) -> None:
        run = await harness.held()
        before = await harness.contents()
        with refused(RowsRefused, "half a character"):
            await harness.save(step(run, value="\ud800"))
        assert await harness.contents() == before

    async def test_a_number_that_cannot_be_stored_refuses_the_batch(self, harness: Harness) -> None:
        run = await harness.held()
        with refused(RowsRefused, "a moment beyond 64 bits"):
            await harness.save(decide(run, records=(record()._replace(due_at=Instant(2**70)),)))

    async def test_the_store_goes_on_after_a_refused_batch(self, harness: Harness) -> None:
        run = await harness.held()
        bad = step(run, value="\ud800")
        with refused(RowsRefused, "half a character"):
            await harness.save(bad)
        run.last_seq, run.last_event = bad.first_seq - 1, bad.first_event - 1
        assert await harness.save(step(run)) == [Saving.SAVED]
