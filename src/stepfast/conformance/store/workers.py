"""Workers: announced, heard of, gone."""

from __future__ import annotations

import asyncio

from stepfast.conformance.store.acts import HOUR_MS, LEASE_MS, NOON, end, step, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Pause
from stepfast.kernel.exchange import Holding, Saving
from stepfast.kernel.states import TaskState


@on_fresh_stores
class WorkersSuite(StoreSuite):
    """A worker is alive while it says so, and hears what it holds."""

    async def test_a_run_that_its_holder_knows_nothing_of_is_given_back(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.store.give_back(run.worker_id, [run.run_id])
        view = await harness.view(run.run_id)
        assert (view.worker_id, view.token, view.crashes) == (None, run.token + 1, 0)
        assert [again.run_id for again in await harness.claim()] == [run.run_id]
        assert await harness.save(step(run)) == [Saving.LOST]

    async def test_a_run_that_another_holds_is_not_given_back(self, harness: Harness) -> None:
        run = await harness.held()
        other = await harness.enrol("w2")
        before = await harness.contents()
        await harness.store.give_back(other, [run.run_id, harness.new_run().run_id])
        assert await harness.contents() == before

    async def test_an_enrolled_worker_is_listed_as_it_announced_itself(self, harness: Harness) -> None:
        await harness.enrol(queues=("a", "b"), codes=("x@1",), label="blue")
        (told,) = await harness.store.workers()
        assert (told.worker_id, told.label, told.queues, told.codes) == (worker("w1"), "blue", ("a", "b"), ("x@1",))
        assert (told.lease_ms, told.dead_at) == (LEASE_MS, None)

    async def test_enrolling_answers_with_the_moment(self, harness: Harness) -> None:
        await harness.advance(9)
        await harness.enrol()
        assert [worker.seen_at for worker in await harness.store.workers()] == [NOON + 9]

    async def test_a_worker_may_announce_itself_again_with_more_code(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.enrol(codes=("order@1", "order@2"))
        (worker,) = await harness.store.workers()
        assert worker.codes == ("order@1", "order@2")

    async def test_an_id_that_was_buried_stays_dead(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.bury()
        await harness.enrol()
        assert not (await harness.store.beat(worker_id)).alive

    async def test_workers_that_died_long_ago_are_not_listed(self, harness: Harness) -> None:
        await harness.store.retire(await harness.enrol())
        assert len(await harness.store.workers()) == 1
        await harness.advance(HOUR_MS)
        assert await harness.store.workers() == []

    async def test_a_heartbeat_answers_with_the_moment(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.advance(100)
        beat = await harness.store.beat(worker_id)
        assert (beat.now, beat.alive, beat.holdings) == (NOON + 100, True, [])

    async def test_a_heartbeat_lists_what_the_worker_holds(self, harness: Harness) -> None:
        run = await harness.held()
        assert (await harness.store.beat(run.worker_id)).holdings == [Holding(run.run_id, run.token, 0, False)]

    async def test_a_heartbeat_tells_of_wakes_and_hold(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.signal(run.run_id)
        await harness.change(run.run_id, Pause())
        assert (await harness.store.beat(run.worker_id)).holdings == [Holding(run.run_id, run.token, 2, True)]

    async def test_a_heartbeat_does_not_list_what_others_hold(self, harness: Harness) -> None:
        await harness.held("w1")
        assert (await harness.store.beat(await harness.enrol("w2"))).holdings == []

    async def test_an_unknown_worker_is_not_alive(self, harness: Harness) -> None:
        assert not (await harness.store.beat(worker("nobody"))).alive

    async def test_a_heartbeat_may_come_from_another_thread_and_loop(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        beat = await asyncio.to_thread(lambda: asyncio.run(harness.store.beat(worker_id)))
        assert beat.alive

    async def test_a_buried_worker_learns_it_from_its_heartbeat(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.bury()
        beat = await harness.store.beat(run.worker_id)
        assert (beat.alive, beat.holdings) == (False, [])

    async def test_a_worker_that_retires_hands_everything_back(self, harness: Harness) -> None:
        await harness.enrol()
        ids = await harness.start_many(3)
        await harness.claim()
        assert sorted(await harness.store.retire(worker("w1"))) == sorted(ids)
        for run_id in ids:
            view = await harness.view(run_id)
            assert (view.worker_id, view.token, view.crashes) == (None, 2, 0)
            assert await harness.standing(run_id) == (TaskState.READY, 0)

    async def test_a_worker_that_retires_is_dead(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.store.retire(worker_id)
        assert not (await harness.store.beat(worker_id)).alive

    async def test_a_run_handed_back_by_retiring_has_the_event(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.store.retire(run.worker_id)
        event = await harness.last_event(run.run_id)
        assert (event.seq, event.type, event.token) == (3, "handed_back", run.token + 1)

    async def test_retiring_twice_changes_nothing(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.store.retire(run.worker_id)
        assert await harness.store.retire(run.worker_id) == []

    async def test_an_ended_run_is_nobodys_holding(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        assert (await harness.store.beat(run.worker_id)).holdings == []
