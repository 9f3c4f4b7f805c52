"""Starting runs: keys, delays, and being born leased."""

from __future__ import annotations

import asyncio

from stepfast.conformance.running import refused
from stepfast.conformance.store.acts import MANY, NOON, end, told_by, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Pause
from stepfast.kernel.errors import KeyReused, RowsRefused
from stepfast.kernel.states import RunState, TaskState, WaitKind
from stepfast.kernel.views import RunFilter


@on_fresh_stores
class StartingSuite(StoreSuite):
    """Runs are stored once, whole, and as they were given."""

    async def test_a_started_run_is_pending(self, harness: Harness) -> None:
        started = await harness.start()
        assert await harness.state(started.run_id) is RunState.PENDING

    async def test_a_started_run_was_queued_at_the_moment_of_the_store(self, harness: Harness) -> None:
        await harness.advance(5)
        assert (await harness.start()).queued_at == NOON + 5

    async def test_a_started_run_keeps_all_that_was_said_of_it(self, harness: Harness) -> None:
        given = dict(actor="ann", correlation_id="c", causation_id="k", thread_id="th", subject="s", metadata='{"m":1}')
        started = await harness.start(**given)
        view = await harness.view(started.run_id)
        assert {name: getattr(view, name) for name in given} == given

    async def test_the_first_event_says_what_was_queued(self, harness: Harness) -> None:
        started = await harness.start(actor="ann")
        (event,) = await harness.store.events(started.run_id)
        assert (event.seq, event.type, event.actor, told_by(event)) == (
            1,
            "queued",
            "ann",
            {"workflow": "order", "version": 1},
        )

    async def test_answers_come_in_the_order_of_the_runs(self, harness: Harness) -> None:
        runs = [harness.new_run() for _ in range(5)]
        answers = await harness.store.start(runs, None)
        assert [answer.run_id for answer in answers] == [run.run_id for run in runs]

    async def test_the_same_key_answers_with_the_earlier_run(self, harness: Harness) -> None:
        first = await harness.start(key="k")
        await harness.advance(1_000)
        again = await harness.start(key="k")
        assert (again.run_id, again.fresh, again.queued_at) == (first.run_id, False, first.queued_at)

    async def test_the_same_key_stores_no_second_run(self, harness: Harness) -> None:
        first = await harness.start(key="k")
        await harness.start(key="k")
        assert await harness.run_ids() == [first.run_id]

    async def test_the_same_key_twice_in_one_batch_is_one_run(self, harness: Harness) -> None:
        first, second = await harness.store.start([harness.new_run(key="k"), harness.new_run(key="k")], None)
        assert (second.run_id, first.fresh, second.fresh) == (first.run_id, True, False)

    async def test_the_same_key_of_another_tenant_is_another_run(self, harness: Harness) -> None:
        first = await harness.start(key="k")
        other = await harness.start(key="k", tenant="globex")
        assert (other.fresh, other.run_id == first.run_id) == (True, False)

    async def test_the_same_key_with_another_body_names_the_run_it_belongs_to(self, harness: Harness) -> None:
        first = await harness.start(key="k")
        with refused(KeyReused, "another body", naming=first.run_id):
            await harness.start(key="k", digest="other")

    async def test_the_same_key_with_another_body_stores_none_of_the_batch(self, harness: Harness) -> None:
        first = await harness.start(key="k")
        with refused(KeyReused, "another body"):
            await harness.store.start([harness.new_run(), harness.new_run(key="k", digest="other")], None)
        assert await harness.run_ids() == [first.run_id]

    async def test_another_body_within_one_batch_is_refused(self, harness: Harness) -> None:
        with refused(KeyReused, "another body"):
            await harness.store.start([harness.new_run(key="k"), harness.new_run(key="k", digest="other")], None)
        assert await harness.run_ids() == []

    async def test_a_key_stays_taken_after_its_run_has_ended(self, harness: Harness) -> None:
        run = await harness.held(key="k")
        await harness.save(end(run))
        again = await harness.start(key="k")
        assert (again.run_id, again.fresh) == (run.run_id, False)

    async def test_a_run_id_that_exists_is_refused(self, harness: Harness) -> None:
        run = harness.new_run()
        await harness.store.start([run], None)
        with refused(RowsRefused, "the same run id"):
            await harness.store.start([run], None)

    async def test_a_tag_said_twice_is_one_tag(self, harness: Harness) -> None:
        started = await harness.start(tags=("a", "a", "b"))
        for tag in ("a", "b"):
            assert [view.run_id for view in await harness.store.runs(RunFilter(tag=tag))] == [started.run_id]

    async def test_a_delayed_run_is_pending(self, harness: Harness) -> None:
        started = await harness.start(delay_ms=500)
        assert await harness.state(started.run_id) is RunState.PENDING

    async def test_a_delayed_run_waits_for_its_moment(self, harness: Harness) -> None:
        started = await harness.start(delay_ms=500)
        assert await harness.standing(started.run_id) == (TaskState.WAITING, 0)
        waits = (await harness.look(started.run_id)).waits
        assert [(put_off.kind, put_off.due_at) for put_off in waits] == [(WaitKind.DELAY, NOON + 500)]

    async def test_a_run_of_an_idle_queue_is_born_leased(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start(holder="w1")
        view = await harness.view(started.run_id)
        assert started.token == 1
        assert (view.state, view.worker_id, view.token, view.claims) == (RunState.RUNNING, worker("w1"), 1, 1)

    async def test_a_run_born_leased_has_the_event_of_its_claim(self, harness: Harness) -> None:
        await harness.enrol()
        started = await harness.start(holder="w1")
        queued, claimed = await harness.store.events(started.run_id)
        assert (queued.type, claimed.seq, claimed.type, claimed.token) == ("queued", 2, "claimed", 1)
        assert told_by(claimed)["worker"] == worker("w1")

    async def test_all_runs_of_a_batch_are_born_leased(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        answers = await harness.store.start([harness.new_run(), harness.new_run()], worker_id)
        assert [answer.token for answer in answers] == [1, 1]

    async def test_a_run_is_not_born_leased_while_its_queue_has_something_ready(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start()
        assert (await harness.start(holder="w1")).token is None

    async def test_something_ready_in_another_queue_does_not_matter(self, harness: Harness) -> None:
        await harness.enrol()
        await harness.start(queue="slow")
        assert (await harness.start(holder="w1")).token == 1

    async def test_something_ready_that_a_person_holds_does_not_matter(self, harness: Harness) -> None:
        await harness.enrol()
        held = await harness.start()
        await harness.change(held.run_id, Pause())
        assert (await harness.start(holder="w1")).token == 1

    async def test_a_delayed_run_is_not_born_leased(self, harness: Harness) -> None:
        await harness.enrol()
        assert (await harness.start(holder="w1", delay_ms=1)).token is None

    async def test_an_unknown_worker_gets_no_run_at_birth(self, harness: Harness) -> None:
        (started,) = await harness.store.start([harness.new_run()], worker("nobody"))
        assert started.token is None

    async def test_a_dead_worker_gets_no_run_at_birth(self, harness: Harness) -> None:
        await harness.store.retire(await harness.enrol())
        assert (await harness.start(holder="w1")).token is None

    async def test_a_run_born_leased_is_among_the_holdings_of_its_worker(self, harness: Harness) -> None:
        worker_id = await harness.enrol()
        started = await harness.start(holder="w1")
        assert [held.run_id for held in (await harness.store.beat(worker_id)).holdings] == [started.run_id]

    async def test_one_key_started_by_many_at_once_is_one_run(self, harness: Harness) -> None:
        answers = await asyncio.gather(*(harness.start(key="k") for _ in range(MANY)))
        assert [answer.fresh for answer in answers].count(True) == 1
        assert {answer.run_id for answer in answers} == set(await harness.run_ids())
        assert len(await harness.run_ids()) == 1
