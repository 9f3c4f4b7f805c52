"""Claiming: who gets which runs, in which order."""

from __future__ import annotations

import asyncio

from stepfast.conformance.store.acts import HOUR_MS, NOON, continued, hand_back, step, told_by, wait, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Pause
from stepfast.kernel.decisions import Continue, Joins
from stepfast.kernel.exchange import Claim, QueueRoom
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState, WaitKind

PARENT = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")


@on_fresh_stores
class ClaimingSuite(StoreSuite):
    """A ready run goes to one living worker, in turn."""

    async def test_a_claimed_run_is_running(self, harness: Harness) -> None:
        run = await harness.held()
        assert await harness.state(run.run_id) is RunState.RUNNING

    async def test_a_claim_hands_out_what_the_run_was_started_with(self, harness: Harness) -> None:
        given = dict(actor="ann", correlation_id="c", causation_id="k", thread_id="th", subject="s", metadata='{"m":1}')
        run = await harness.held(input='{"n":7}', version=3, **given)
        assert (run.input, run.version, run.kind, run.queue) == ('{"n":7}', 3, "workflow", "default")
        assert {name: getattr(run, name) for name in given} == given

    async def test_a_claim_names_the_group_that_the_run_joins(self, harness: Harness) -> None:
        run = await harness.held(joins=Joins(PARENT, 4))
        assert run.joins == Joins(PARENT, 4)

    async def test_a_claim_hands_out_the_deadline(self, harness: Harness) -> None:
        run = await harness.held(timeout_ms=1_000)
        assert (run.queued_at, run.deadline_at) == (NOON, NOON + 1_000)

    async def test_the_deadline_of_a_delayed_run_counts_from_the_moment_it_falls_due(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(delay_ms=500, timeout_ms=1_000)
        await harness.advance(500)
        assert [run.deadline_at for run in await harness.claim()] == [NOON + 1_500]

    async def test_a_claim_writes_its_event_and_counts_it(self, harness: Harness) -> None:
        run = await harness.held()
        event = await harness.last_event(run.run_id)
        assert (event.seq, event.type, event.token) == (run.last_event, "claimed", run.token) == (2, "claimed", 1)
        assert told_by(event) == {"worker": worker("w1"), "label": "first"}

    async def test_every_claim_raises_the_token(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(hand_back(run))
        (again,) = await harness.claim()
        assert again.token > run.token

    async def test_a_claim_tells_how_far_the_records_go(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), step(run), hand_back(run))
        (again,) = await harness.claim()
        assert (again.last_seq, again.last_event, again.claims) == (2, 6, 2)

    async def test_a_run_is_claimed_once(self, harness: Harness) -> None:
        await harness.enrol("w2")
        await harness.held("w1")
        assert await harness.claim(worker="w2") == []

    async def test_an_unknown_worker_gets_nothing(self, harness: Harness) -> None:
        await harness.start()
        assert await harness.claim(worker="nobody") == []

    async def test_a_dead_worker_gets_nothing(self, harness: Harness) -> None:
        await harness.store.retire(await harness.enrol())
        await harness.start()
        assert await harness.claim() == []

    async def test_a_run_of_another_queue_is_not_claimed(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(queue="slow")
        assert await harness.claim() == []

    async def test_several_queues_are_served_in_one_claim(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        await harness.start(queue="slow")
        await harness.start(queue="fast")
        claimed = await harness.store.claim(
            Claim(worker_id, [QueueRoom("fast", 1), QueueRoom("slow", 1)], ["order@1"], 10)
        )
        assert [run.queue for run in claimed.runs] == ["fast", "slow"]

    async def test_no_more_runs_are_claimed_than_there_is_room(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(5)
        assert len(await harness.claim(room=3)) == 3

    async def test_a_claim_without_room_takes_nothing(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start()
        assert await harness.claim(room=0) == []

    async def test_code_that_the_worker_lacks_is_passed_over(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(20, code="unknown@1")
        known = await harness.start()
        assert [run.run_id for run in await harness.claim(room=5)] == [known.run_id]

    async def test_runs_of_several_codes_come_by_place(self, harness: Harness) -> None:
        await harness.enrol()
        expected = []
        for code in ("b@1", "a@1", "b@1", "a@1"):
            await harness.advance(1)
            expected.append((await harness.start(code=code)).run_id)
        assert [run.run_id for run in await harness.claim(codes=["a@1", "b@1"])] == expected

    async def test_a_long_line_of_several_codes_stays_in_order_over_many_bursts(self, harness: Harness) -> None:
        await harness.enrol()
        expected = []
        for number in range(30):
            await harness.advance(1)
            expected.append((await harness.start(code="a@1" if number % 5 else "b@1")).run_id)
        assert [run.run_id for run in await harness.claim(codes=["a@1", "b@1"], burst=2)] == expected

    async def test_higher_priority_goes_first(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start()
        urgent = await harness.start(priority=1)
        assert [run.run_id for run in await harness.claim(room=1)] == [urgent.run_id]

    async def test_an_hour_of_waiting_makes_up_for_a_level_of_priority(self, harness: Harness) -> None:
        await harness.enrol()
        patient = await harness.start()
        await harness.advance(HOUR_MS + 1)
        await harness.start(priority=1)
        assert [run.run_id for run in await harness.claim(room=1)] == [patient.run_id]

    async def test_a_run_handed_back_keeps_its_place(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.advance(1)
        await harness.start()
        await harness.save(hand_back(run))
        assert [held.run_id for held in await harness.claim(room=1)] == [run.run_id]

    async def test_tenants_take_turns_by_bursts(self, harness: Harness) -> None:
        await harness.enrol()
        for tenant in ("a", "b", "c"):
            await harness.start_many(5, tenant=tenant)
        assert [run.tenant for run in await harness.claim(room=6, burst=2)] == list("aabbcc")

    async def test_the_turn_begins_after_the_tenant_served_last(self, harness: Harness) -> None:
        await harness.enrol()
        for tenant in ("a", "b", "c"):
            await harness.start_many(2, tenant=tenant)
        assert [run.tenant for run in await harness.claim(room=3, burst=1, after="b")] == ["c", "a", "b"]

    async def test_room_left_after_a_round_is_filled_by_the_next(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start_many(1, tenant="a")
        await harness.start_many(5, tenant="b")
        assert [run.tenant for run in await harness.claim(room=5, burst=1)] == list("abbbb")

    async def test_one_tenant_alone_is_not_slowed_by_the_burst(self, harness: Harness) -> None:
        await harness.enrol()
        ids = await harness.start_many(50)
        assert [run.run_id for run in await harness.claim(room=50, burst=1)] == ids

    async def test_only_the_tenants_asked_for_are_served(self, harness: Harness) -> None:
        await harness.enrol()
        for tenant in ("a", "b", "c", "d"):
            await harness.start_many(2, tenant=tenant)
        assert {run.tenant for run in await harness.claim(tenants=["d", "b", "x"])} == {"b", "d"}

    async def test_no_tenants_are_none(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start()
        assert await harness.claim(tenants=[]) == []

    async def test_a_delayed_run_is_not_claimed_early(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(delay_ms=500)
        await harness.advance(499)
        assert await harness.claim() == []

    async def test_a_delayed_run_is_claimed_when_it_falls_due(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start(delay_ms=500)
        await harness.advance(500)
        assert [run.run_id for run in await harness.claim()] == [started.run_id]

    async def test_a_claimed_run_waits_for_its_delay_no_more(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(delay_ms=500)
        await harness.advance(500)
        (run,) = await harness.claim()
        assert (await harness.look(run.run_id)).waits == []

    async def test_a_claim_leaves_what_the_run_itself_waits_for(self, harness: Harness) -> None:
        await harness.parked(wait(kind=WaitKind.TIME, due_in_ms=100))
        await harness.advance(100)
        (run,) = await harness.claim()
        assert [open_wait.kind for open_wait in (await harness.look(run.run_id)).waits] == [WaitKind.TIME]

    async def test_a_due_run_that_a_person_holds_stays(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start(delay_ms=500)
        await harness.change(started.run_id, Pause())
        await harness.advance(500)
        assert await harness.claim() == []

    async def test_a_claim_tells_when_the_next_run_falls_due(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(delay_ms=700)
        await harness.start(delay_ms=500, code="unknown@1")
        assert (await harness.ask()).next_due_at == NOON + 500

    async def test_a_claim_tells_nothing_of_other_queues(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(delay_ms=700, queue="slow")
        assert (await harness.ask()).next_due_at is None

    @cases(count={"the second": 1, "the eighth": 7})
    async def test_a_later_generation_is_claimed_with_its_own_input_and_version(
        self, harness: Harness, count: int
    ) -> None:
        run = await harness.held()
        for number in range(count):
            await harness.save(continued(run, Continue(9, "order@9", f'{{"n":{number}}}')))
            (run,) = await harness.claim(codes=["order@9"])
        assert (run.generation, run.version, run.input) == (1 + count, 9, f'{{"n":{count - 1}}}')

    async def test_a_delayed_run_has_the_place_of_the_moment_at_which_it_falls_due(self, harness: Harness) -> None:
        await harness.enrol()
        delayed = await harness.start(delay_ms=500)
        await harness.advance(400)
        earlier = await harness.start()
        await harness.advance(200)
        later = await harness.start()
        expected = [earlier.run_id, delayed.run_id, later.run_id]
        assert [run.run_id for run in await harness.claim()] == expected

    async def test_of_several_that_claim_at_once_each_run_goes_to_one(self, harness: Harness) -> None:
        names = [f"w{number}" for number in range(4)]
        for name in names:
            await harness.enrol(name)
        ids = await harness.start_many(40)
        claims = await asyncio.gather(*(harness.claim(worker=name, room=20) for name in names))
        # Who finds a run in another's hands may pass over it, and over others beside it.
        rest = await harness.claim()
        assert sorted(run.run_id for runs in (*claims, rest) for run in runs) == ids
