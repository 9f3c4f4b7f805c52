"""Delivering: what comes for a run is kept, wakes it, and is never lost."""

from __future__ import annotations

import asyncio

from stepfast.conformance.running import refused
from stepfast.conformance.store.acts import MANY, ROUNDS, end, park, told_by, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Cancel, Rerun
from stepfast.kernel.errors import KeyReused
from stepfast.kernel.exchange import Saving
from stepfast.kernel.states import RunState, TaskState


@on_fresh_stores
class DeliveringSuite(StoreSuite):
    """A message wakes its run, in whatever state that is."""

    async def test_a_signal_that_a_run_waits_for_makes_it_ready(self, harness: Harness) -> None:
        run = await harness.parked()
        delivered = await harness.signal(run.run_id)
        assert (delivered.state, delivered.queue, delivered.worker_id) == (RunState.WAITING, "default", None)
        assert await harness.standing(run.run_id) == (TaskState.READY, 1)
        assert [(again.run_id, again.wakes) for again in await harness.claim()] == [(run.run_id, 1)]

    async def test_a_signal_that_a_run_does_not_wait_for_is_kept_and_leaves_it_waiting(self, harness: Harness) -> None:
        run = await harness.parked()
        await harness.signal(run.run_id, "other")
        assert await harness.standing(run.run_id) == (TaskState.WAITING, 1)
        assert [message.name for message in (await harness.look(run.run_id)).inbox] == ["other"]

    async def test_signals_are_kept_in_the_order_in_which_they_came(self, harness: Harness) -> None:
        run = await harness.parked()
        for value in ("1", "2", "3"):
            await harness.signal(run.run_id, value=value)
        inbox = (await harness.look(run.run_id)).inbox
        assert [(message.n, message.value) for message in inbox] == [(1, "1"), (2, "2"), (3, "3")]

    async def test_many_signals_at_once_are_all_kept(self, harness: Harness) -> None:
        run = await harness.parked()
        values = [str(number) for number in range(MANY)]
        await asyncio.gather(*(harness.signal(run.run_id, value=value) for value in values))
        look = await harness.look(run.run_id)
        assert sorted(message.value or "" for message in look.inbox) == sorted(values)
        assert [message.n for message in look.inbox] == list(range(1, MANY + 1))

    async def test_of_a_park_and_a_signal_at_once_the_run_goes_on(self, harness: Harness) -> None:
        for _ in range(ROUNDS):
            run = await harness.held()
            (saving,), _ = await asyncio.gather(harness.save(park(run, wait())), harness.signal(run.run_id))
            expected = TaskState.READY if saving is Saving.SAVED else TaskState.LEASED
            assert await harness.standing(run.run_id) == (expected, 1)
            await harness.change(run.run_id, Cancel())

    async def test_the_holder_of_a_run_is_named_and_hears_of_a_signal_by_its_heartbeat(self, harness: Harness) -> None:
        run = await harness.held()
        assert (await harness.signal(run.run_id)).worker_id == run.worker_id
        assert [holding.wakes for holding in (await harness.store.beat(run.worker_id)).holdings] == [1]

    async def test_a_signal_for_no_run_or_the_run_of_another_tenant_is_answered_so(self, harness: Harness) -> None:
        run = await harness.held()
        nobody = await harness.signal(harness.new_run().run_id)
        other = await harness.signal(run.run_id, tenant="other")
        assert (nobody.state, other.state) == (None, None)
        assert (await harness.look(run.run_id)).inbox == []

    async def test_a_signal_for_an_ended_run_is_answered_with_its_end_and_changes_nothing(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.save(end(run))
        before = await harness.contents()
        assert (await harness.signal(run.run_id)).state is RunState.COMPLETED
        assert await harness.contents() == before

    async def test_a_delivery_that_comes_again_is_answered_as_the_first_time(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.enrol()
        first = await harness.signal(started.run_id, key="k", digest="d")
        await harness.claim()
        again = await harness.signal(started.run_id, key="k", digest="d")
        assert first.state is again.state is RunState.PENDING
        assert len((await harness.look(started.run_id)).inbox) == 1

    async def test_a_delivery_that_comes_again_after_the_end_is_answered_as_the_first_time(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        first = await harness.signal(run.run_id, key="k", digest="d")
        await harness.save(end(run))
        again = await harness.signal(run.run_id, key="k", digest="d")
        assert first.state is again.state is RunState.RUNNING

    async def test_a_key_that_was_used_for_another_delivery_is_refused_after_the_end_too(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.signal(run.run_id, key="k", digest="d")
        await harness.save(end(run))
        with refused(KeyReused, "another value"):
            await harness.signal(run.run_id, value="2", key="k", digest="other")

    async def test_a_delivery_to_an_ended_run_uses_up_no_key(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(end(run))
        assert (await harness.signal(run.run_id, key="k", digest="d")).state is RunState.COMPLETED
        await harness.change(run.run_id, Rerun())
        assert (await harness.signal(run.run_id, key="k", digest="d")).state is RunState.PENDING
        assert len((await harness.look(run.run_id)).inbox) == 1

    async def test_the_reason_of_a_delivery_is_in_its_event(self, harness: Harness) -> None:
        started = await harness.start()
        await harness.signal(started.run_id, reason='by "phone"')
        (_, event) = await harness.store.events(started.run_id)
        assert told_by(event) == {"name": "paid", "n": 1, "reason": 'by "phone"'}

    async def test_a_delivery_to_a_held_run_keeps_its_reason_for_the_holder(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.signal(run.run_id, reason="by phone")
        await harness.signal(run.run_id, value="2")
        assert [message.reason for message in (await harness.look(run.run_id)).inbox] == ["by phone", None]
