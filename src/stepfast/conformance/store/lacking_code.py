"""Runs that wait for code: only code, or a person, brings them back to the line, and nothing is lost meanwhile."""

from __future__ import annotations

from stepfast.conformance.store.acts import HOUR_MS, NOON, asked, end, park, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Pause, Resume, RetryRun
from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.exchange import Saving
from stepfast.kernel.reviews import Decide, Expire, Owner, Verdict
from stepfast.kernel.states import RunState, TaskState, WaitKind

FOR_CODE = wait(-1, WaitKind.CODE, name="order@1")
FOR_TIME = wait(1, WaitKind.TIME, name="sleep", due_in_ms=1_000)


@on_fresh_stores
class LackingCodeSuite(StoreSuite):
    """A run whose records do not fit the code that it met would meet the same code again, whatever else comes."""

    async def test_a_run_that_waits_for_code_is_woken_by_a_worker_that_has_it(self, harness: Harness) -> None:
        run = await harness.parked(FOR_CODE)
        assert await harness.state(run.run_id) is RunState.WAITING
        await harness.enrol("other", codes=("other@1",))
        assert await harness.state(run.run_id) is RunState.WAITING
        await harness.enrol("w2")
        assert [again.run_id for again in await harness.claim(worker="w2")] == [run.run_id]
        assert (await harness.look(run.run_id)).waits == []

    async def test_a_run_that_waits_for_code_is_woken_when_one_of_two_workers_that_have_it_leaves(
        self, harness: Harness
    ) -> None:
        await harness.enrol("w2")
        run = await harness.parked(FOR_CODE)
        await harness.store.retire(run.worker_id)
        assert [again.run_id for again in await harness.claim(worker="w2")] == [run.run_id]

    async def test_a_run_that_waits_for_code_is_left_alone_when_the_last_worker_that_has_it_leaves(
        self, harness: Harness
    ) -> None:
        await harness.enrol("w2", codes=("other@1",))
        run = await harness.parked(FOR_CODE)
        await harness.store.retire(run.worker_id)
        assert await harness.state(run.run_id) is RunState.WAITING

    async def test_a_run_that_waits_for_code_is_woken_when_one_of_two_workers_that_have_it_is_buried(
        self, harness: Harness
    ) -> None:
        await harness.enrol("w2", lease_ms=HOUR_MS)
        run = await harness.parked(FOR_CODE)
        assert (await harness.bury()).buried == [run.worker_id]
        assert [again.run_id for again in await harness.claim(worker="w2")] == [run.run_id]

    async def test_a_run_that_waits_for_code_is_left_alone_when_the_last_worker_that_has_it_is_buried(
        self, harness: Harness
    ) -> None:
        await harness.enrol("w2", lease_ms=HOUR_MS, codes=("other@1",))
        run = await harness.parked(FOR_CODE)
        assert (await harness.bury()).buried == [run.worker_id]
        assert await harness.state(run.run_id) is RunState.WAITING

    async def test_a_moment_that_comes_does_not_wake_a_run_that_waits_for_code(self, harness: Harness) -> None:
        run = await harness.parked(FOR_CODE, FOR_TIME)
        await harness.advance(1_000)
        claimed = await harness.ask()
        assert (claimed.runs, claimed.next_due_at) == ([], None)
        assert await harness.claim_run(run.run_id) is None

    async def test_a_signal_for_a_run_that_waits_for_code_is_kept_and_does_not_wake_it(self, harness: Harness) -> None:
        run = await harness.parked(FOR_CODE, wait(1))
        await harness.signal(run.run_id)
        assert await harness.standing(run.run_id) == (TaskState.WAITING, 1)
        assert [message.name for message in (await harness.look(run.run_id)).inbox] == ["paid"]

    async def test_the_end_of_a_child_is_counted_and_does_not_wake_a_run_that_waits_for_code(
        self, harness: Harness
    ) -> None:
        parent, _ = await harness.parent(children=1, need=1)
        await harness.save(park(parent, FOR_CODE))
        (child,) = await harness.claim(queue="children")
        await harness.save(end(child))
        assert await harness.standing(parent.run_id) == (TaskState.WAITING, 1)
        assert [group.got for group in (await harness.look(parent.run_id)).waits if group.wait_id == 1] == [1]

    async def test_a_verdict_for_a_run_that_waits_for_code_is_kept_and_does_not_wake_it(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(asked(run), park(run, FOR_CODE))
        await harness.change(run.run_id, Decide(1, Verdict.CONTINUE))
        assert await harness.standing(run.run_id) == (TaskState.WAITING, 1)
        assert [message.kind for message in (await harness.look(run.run_id)).inbox] == ["review"]

    async def test_a_review_that_is_escalated_gives_a_run_that_waits_for_code_no_alarm(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(asked(run, expires_ms=HOUR_MS, on_expiry="escalate", escalate_to=Owner("bob", None)))
        await harness.save(park(run, FOR_CODE))
        await harness.advance(HOUR_MS)
        await harness.change(run.run_id, Expire(1))
        assert (await harness.ask()).next_due_at is None

    async def test_whoever_has_the_code_finds_all_that_came_for_the_run(self, harness: Harness) -> None:
        run = await harness.parked(FOR_CODE, FOR_TIME, wait(2))
        await harness.signal(run.run_id)
        await harness.advance(1_000)
        await harness.enrol("w2")
        (again,) = await harness.claim(worker="w2")
        look = await harness.look(run.run_id)
        assert (again.wakes, [message.n for message in look.inbox]) == (1, [1])
        assert [(left.wait_id, left.due_at) for left in look.waits] == [(1, NOON + 1_000), (2, None)]

    async def test_a_run_that_has_its_code_is_woken_by_its_moment_again(self, harness: Harness) -> None:
        run = await harness.parked(FOR_CODE, FOR_TIME)
        await harness.enrol("w2")
        (again,) = await harness.claim(worker="w2")
        await harness.save(park(again))
        await harness.advance(1_000)
        assert [held.run_id for held in await harness.claim(worker="w2")] == [run.run_id]

    async def test_a_run_can_wait_for_code_again_when_the_code_that_came_does_not_fit(self, harness: Harness) -> None:
        await harness.parked(FOR_CODE, FOR_TIME)
        await harness.enrol("w2")
        (again,) = await harness.claim(worker="w2")
        assert await harness.save(park(again, FOR_CODE)) == [Saving.SAVED]
        await harness.advance(1_000)
        assert await harness.claim(worker="w2") == []

    async def test_a_person_lets_a_run_that_waits_for_code_try_again(self, harness: Harness) -> None:
        run = await harness.parked(FOR_CODE, FOR_TIME)
        await harness.change(run.run_id, Pause())
        await harness.change(run.run_id, Resume())
        assert [held.run_id for held in await harness.claim()] == [run.run_id]

    async def test_a_run_that_waits_for_code_is_retried_as_it_is(self, harness: Harness) -> None:
        run = await harness.parked(FOR_CODE, FOR_TIME)
        changed = await harness.change(run.run_id, RetryRun())
        assert (changed.state, changed.generation) == (RunState.RUNNING, run.generation)
        (again,) = await harness.claim()
        assert (again.run_id, again.last_seq) == (run.run_id, run.last_seq)
        assert [left.kind for left in (await harness.look(run.run_id)).waits] == [WaitKind.TIME]

    async def test_a_run_that_waits_for_something_else_is_not_retried(self, harness: Harness) -> None:
        run = await harness.parked(FOR_TIME)
        assert isinstance(await harness.refusal(run.run_id, RetryRun()), IllegalMove)

    async def test_a_run_that_waits_for_code_is_reported_past_its_deadline(self, harness: Harness) -> None:
        run = await harness.held(timeout_ms=100)
        await harness.save(park(run, FOR_CODE, FOR_TIME))
        await harness.advance(100)
        assert (await harness.upkeep()).overdue == [run.run_id]
