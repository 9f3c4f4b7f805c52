"""Queues as people see them, and a store in order, which has no findings."""

from __future__ import annotations

from stepfast.conformance.store.acts import NOON, end, fail, hand_back, park, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Pause
from stepfast.kernel.durations import Instant
from stepfast.kernel.views import QueueView


@on_fresh_stores
class QueuesSuite(StoreSuite):
    """Queues are counted from what their runs do now."""

    async def test_a_queue_is_counted_by_what_its_runs_do(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(6)
        first, *_ = await harness.claim(room=3)
        await harness.save(park(first, wait()))
        assert await harness.store.queues() == [QueueView("default", 3, 2, 1, 0, 0, NOON)]

    async def test_paused_runs_are_counted_apart_once_nobody_holds_them(self, harness: Harness) -> None:
        run = await harness.held()
        started = await harness.start()
        for run_id in (run.run_id, started.run_id):
            await harness.change(run_id, Pause())
        assert await harness.store.queues() == [QueueView("default", 0, 1, 0, 1, 0, None)]

    async def test_suspects_are_counted_apart_from_the_ready(self, harness: Harness) -> None:
        await harness.held()
        await harness.bury()
        await harness.start()
        assert await harness.store.queues() == [QueueView("default", 1, 0, 0, 0, 1, Instant(harness.now))]

    async def test_a_queue_tells_since_when_the_first_of_its_ready_runs_is_so(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.advance(5)
        await harness.start()
        await harness.advance(5)
        await harness.save(hand_back(run))
        (queue,) = await harness.store.queues()
        assert (queue.ready, queue.oldest_at) == (2, NOON + 5)

    async def test_queues_are_listed_by_name_and_only_while_they_have_open_runs(self, harness: Harness) -> None:
        for queue in ("slow", "fast"):
            await harness.start(queue=queue)
        run = await harness.held()
        await harness.save(end(run))
        assert [queue.queue for queue in await harness.store.queues()] == ["fast", "slow"]

    async def test_a_store_in_order_has_no_findings(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(park(run, wait()))
        failed = await harness.held("w2")
        await harness.save(fail(failed))
        held = await harness.held("w3")
        paused = await harness.start(delay_ms=500)
        for run_id in (held.run_id, paused.run_id):
            await harness.change(run_id, Pause())
        assert await harness.store.findings() == []
