"""Runs that are continued with new input, or tried again by their own policy."""

from __future__ import annotations

from stepfast.conformance.store.acts import NOON, continued, decide, fail, step, try_again, wait, worker
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Pause, RetryRun
from stepfast.kernel.decisions import CallId, Continue
from stepfast.kernel.exchange import Saving
from stepfast.kernel.states import RunState, TaskState, WaitKind


@on_fresh_stores
class ContinuingSuite(StoreSuite):
    """A holder ends its generation and opens the next in one commit."""

    async def test_the_generation_that_is_tried_again_is_no_dead_letter(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(continued(run, try_again(run)))
        assert await harness.letters(resolved=True) == []

    @cases(delay_ms={"at once": 0, "later": 300})
    async def test_a_continued_run_has_a_deadline_of_its_own_from_when_it_is_due(
        self, harness: Harness, delay_ms: int
    ) -> None:
        run = await harness.held(timeout_ms=1_000)
        await harness.advance(500)
        await harness.save(continued(run, try_again(run, delay_ms=delay_ms)))
        await harness.advance(delay_ms)
        assert [held.deadline_at for held in await harness.claim()] == [NOON + 500 + delay_ms + 1_000]

    async def test_a_continued_run_without_a_timeout_has_no_deadline(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(continued(run, try_again(run)))
        assert [held.deadline_at for held in await harness.claim()] == [None]

    async def test_a_continued_run_begins_anew_with_its_new_input(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run), continued(run, Continue(2, "order@2", '{"n":9}')))
        view = await harness.view(run.run_id)
        assert (view.state, view.generation, view.version, view.input) == (RunState.PENDING, 2, 2, '{"n":9}')
        assert await harness.records(run.run_id) == []

    async def test_messages_that_nobody_took_go_along_into_the_next_generation(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.signal(run.run_id)
        await harness.save(continued(run, Continue(1, "order@1", "{}")))
        assert [message.name for message in (await harness.look(run.run_id)).inbox] == ["paid"]

    async def test_waits_do_not_go_along_into_the_next_generation(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(decide(run, opened=(wait(),)))
        await harness.save(continued(run, Continue(1, "order@1", "{}")))
        assert (await harness.look(run.run_id)).waits == []

    async def test_a_run_that_is_tried_again_keeps_all_but_the_failure(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run, "charge"), step(run, "ship"))
        await harness.save(continued(run, try_again(run, CallId("", "ship", 1))))
        assert [saved.call.name for saved in await harness.records(run.run_id)] == ["charge"]
        assert (await harness.view(run.run_id)).state is RunState.PENDING

    async def test_a_run_that_is_tried_again_without_a_failed_step_keeps_all(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(step(run, "charge"), continued(run, try_again(run)))
        assert [saved.call.name for saved in await harness.records(run.run_id)] == ["charge"]

    async def test_tries_are_counted_and_handed_out_until_another_cause_begins_anew(self, harness: Harness) -> None:
        run = await harness.held()
        tries = [run.tries]
        for release in (try_again(run), try_again(run), Continue(1, "order@1", "{}")):
            await harness.save(continued(run, release))
            (run,) = await harness.claim()
            tries.append(run.tries)
        assert tries == [0, 1, 2, 0]

    async def test_a_run_that_is_tried_again_later_backs_off(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(continued(run, try_again(run, delay_ms=500)))
        view, look = await harness.view(run.run_id), await harness.look(run.run_id)
        assert (view.state, view.token, view.generation, view.claims) == (RunState.PENDING, run.token + 1, 2, 0)
        assert [(put_off.kind, put_off.due_at) for put_off in look.waits] == [(WaitKind.BACKOFF, NOON + 500)]
        assert await harness.standing(run.run_id) == (TaskState.WAITING, 0)

    async def test_a_run_that_is_tried_again_later_is_not_claimed_early(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(continued(run, try_again(run, delay_ms=500)))
        await harness.advance(499)
        assert await harness.claim() == []
        await harness.advance(1)
        assert [(held.run_id, held.generation) for held in await harness.claim()] == [(run.run_id, 2)]

    async def test_a_run_told_to_pause_that_is_continued_is_paused(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.change(run.run_id, Pause())
        await harness.save(continued(run, Continue(1, "order@1", "{}")))
        assert await harness.state(run.run_id) is RunState.PAUSED
        assert await harness.claim() == []

    async def test_a_run_that_waits_for_children_while_it_is_continued_joins_them_no_more(
        self, harness: Harness
    ) -> None:
        parent, children = await harness.parent(children=2, need=2)
        await harness.save(continued(parent, Continue(1, "order@1", "{}")))
        assert (await harness.upkeep()).unjoined == children

    async def test_a_decision_after_a_continuation_in_the_same_batch_is_lost(self, harness: Harness) -> None:
        run = await harness.held()
        batch = (continued(run, Continue(1, "order@1", "{}")), step(run))
        assert await harness.save(*batch) == [Saving.SAVED, Saving.LOST]

    async def test_sending_a_continuation_again_counts_as_saved(self, harness: Harness) -> None:
        run = await harness.held()
        decision = continued(run, try_again(run, delay_ms=500))
        await harness.save(decision)
        before = await harness.contents()
        assert await harness.save(decision, again=True) == [Saving.SAVED]
        assert await harness.contents() == before

    async def test_a_worker_that_continued_a_run_holds_it_no_more(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(continued(run, try_again(run)))
        assert (await harness.store.beat(worker("w1"))).holdings == []
        assert await harness.save(step(run)) == [Saving.LOST]

    async def test_a_run_that_failed_for_good_after_its_tries_is_retried_with_none_spent(
        self, harness: Harness
    ) -> None:
        run = await harness.held()
        await harness.save(continued(run, try_again(run)))
        (run,) = await harness.claim()
        await harness.save(fail(run))
        await harness.change(run.run_id, RetryRun())
        assert [(held.tries, held.generation) for held in await harness.claim()] == [(0, 3)]
