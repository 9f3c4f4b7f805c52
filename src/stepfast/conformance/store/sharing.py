"""Several stores on one database: what one has answered, the others see, and nobody gets what is another's."""

from __future__ import annotations

import asyncio

from stepfast.conformance.store.acts import MANY, ROUNDS, end, park, step, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Cancel, Changed, Request
from stepfast.kernel.exchange import Claim, Delivery, QueueRoom, Saving
from stepfast.kernel.states import RunState, TaskState


@on_fresh_stores
class SharingSuite(StoreSuite):
    """The database is the truth, and not what one process remembers."""

    async def test_what_was_answered_is_there_after_closing_and_opening(self, harness: Harness) -> None:
        run = harness.new_run(key="k")
        async with harness.another() as store:
            await store.start([run], None)
        async with harness.another() as store:
            (again,) = await store.start([harness.new_run(key="k")], None)
            assert (again.run_id, again.fresh) == (run.run_id, False)
            view = await store.run("acme", run.run_id)
            assert view is not None
            assert (view.state, view.input) == (RunState.PENDING, run.input)

    async def test_a_migrated_store_has_nothing_left_to_migrate(self, harness: Harness) -> None:
        await harness.start()
        before = await harness.contents()
        async with harness.another() as store:
            assert await store.migrate() == []
        assert await harness.contents() == before

    async def test_all_go_by_one_clock(self, harness: Harness) -> None:
        async with harness.another() as store:
            await harness.advance(77)
            assert await store.now() == await harness.store.now() == harness.now

    async def test_one_key_started_by_two_at_once_is_one_run(self, harness: Harness) -> None:
        async with harness.another() as other:
            for number in range(ROUNDS):
                runs = [harness.new_run(key=f"k{number}") for _ in range(2)]
                (one,), (two,) = await asyncio.gather(harness.store.start(runs[:1], None), other.start(runs[1:], None))
                assert one.run_id == two.run_id
                assert sorted([one.fresh, two.fresh]) == [False, True]

    async def test_each_run_that_two_claim_at_once_goes_to_one(self, harness: Harness) -> None:
        workers = [await harness.enrol(name) for name in ("w1", "w2")]
        ids = await harness.start_many(MANY)
        claims = [Claim(worker_id, [QueueRoom("default", MANY)], ["order@1"], 2) for worker_id in workers]
        async with harness.another() as other:
            one, two = await asyncio.gather(harness.store.claim(claims[0]), other.claim(claims[1]))
        # Who finds a run in another's hands may pass over it, and over others beside it.
        rest = await harness.claim()
        assert sorted(run.run_id for run in (*one.runs, *two.runs, *rest)) == ids

    async def test_of_a_cancel_by_one_and_a_completion_by_another_one_ends_the_run(self, harness: Harness) -> None:
        async with harness.another() as other:
            for _ in range(ROUNDS):
                run = await harness.held()
                (answer,), (saving,) = await asyncio.gather(
                    other.change([Request(run.run_id, Cancel())]), harness.save(end(run))
                )
                assert isinstance(answer, Changed) == (saving is Saving.LOST)
                winner = RunState.CANCELLED if saving is Saving.LOST else RunState.COMPLETED
                assert (await harness.event_types(run.run_id))[2:] == [winner]

    async def test_a_signal_by_one_is_not_lost_while_another_parks_its_run(self, harness: Harness) -> None:
        async with harness.another() as other:
            for _ in range(ROUNDS):
                run = await harness.held()
                paid = Delivery(run.run_id, None, "signal", "paid", "1")
                (saving,), _ = await asyncio.gather(harness.save(park(run, wait())), other.deliver(paid))
                expected = TaskState.READY if saving is Saving.SAVED else TaskState.LEASED
                assert await harness.standing(run.run_id) == (expected, 1)
                await harness.change(run.run_id, Cancel())

    async def test_what_another_took_from_a_worker_is_lost_to_it(self, harness: Harness) -> None:
        run = await harness.held()
        assert (await harness.store.beat(run.worker_id)).alive
        async with harness.another() as other:
            await other.retire(run.worker_id)
        assert await harness.save(step(run)) == [Saving.LOST]
        assert not (await harness.store.beat(run.worker_id)).alive

    async def test_a_hint_that_nobody_hears_hurts_nobody(self, harness: Harness) -> None:
        await harness.store.hint(["ended", "ready:default"])
        await harness.start()
        assert len(await harness.run_ids()) == 1

    async def test_nobody_hears_its_own_hints(self, harness: Harness) -> None:
        heard: list[str] = []
        await harness.store.hear(heard.append)
        await harness.store.hint(["mine"])
        await harness.start()
        assert heard == []
