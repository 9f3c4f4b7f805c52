"""Children that are started with a decision, and the joins that their ends decide."""

from __future__ import annotations

from stepfast.conformance.running import refused
from stepfast.conformance.store.acts import decide, end, park
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Pause
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.errors import RowsRefused
from stepfast.kernel.exchange import Saving
from stepfast.kernel.states import RunState, TaskState


async def parent_of(
    harness: Harness, children: int, need: int, spare: int = 0, parked: bool = True
) -> tuple[HeldRun, list[HeldRun]]:
    """A parent that waits for a group of children, and the children as their worker holds them."""
    parent, _ = await harness.parent(children, need, spare)
    if parked:
        await harness.save(park(parent))
    return parent, await harness.claim(queue="children")


@on_fresh_stores
class ChildrenSuite(StoreSuite):
    """The end of a child is counted once, and a decided join wakes its parent once."""

    async def test_children_are_started_with_the_decision(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=3, need=3)
        assert (len(children), (await harness.view(children[0].run_id)).parent_id) == (3, parent.run_id)

    async def test_a_decision_that_is_lost_starts_no_children(self, harness: Harness) -> None:
        run = await harness.held()
        decision = decide(run, children=(harness.new_run(),))
        decision.fence = decision.fence._replace(token=9)
        await harness.save(decision)
        assert await harness.run_ids() == [run.run_id]

    async def test_a_child_whose_key_belongs_to_another_body_refuses_the_batch(self, harness: Harness) -> None:
        run = await harness.held()
        taken = await harness.start(key="k", queue="other")
        with refused(RowsRefused, "a child's key with another body", naming=taken.run_id):
            await harness.save(decide(run, children=(harness.new_run(key="k", digest="other"),)))

    async def test_the_parent_waits_while_the_join_is_open(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=3, need=3)
        await harness.save(end(children[0]), end(children[1]))
        assert await harness.standing(parent.run_id) == (TaskState.WAITING, 0)

    async def test_the_last_child_needed_wakes_the_parent(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=3, need=3)
        await harness.save(end(children[0]), end(children[1]))
        await harness.save(end(children[2]))
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)

    async def test_a_join_decided_by_one_batch_wakes_once(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=5, need=2)
        await harness.save(*(end(child) for child in children))
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)

    async def test_children_that_end_after_the_join_wake_nobody(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=3, need=1)
        await harness.save(end(children[0]))
        await harness.save(end(children[1]))
        await harness.save(end(children[2], RunState.FAILED))
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)

    async def test_a_join_that_can_no_longer_be_met_wakes_the_parent(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=3, need=2, spare=1)
        await harness.save(end(children[0], RunState.FAILED))
        assert await harness.standing(parent.run_id) == (TaskState.WAITING, 0)
        await harness.save(end(children[1], RunState.CANCELLED))
        assert await harness.standing(parent.run_id) == (TaskState.READY, 1)

    async def test_all_children_are_counted(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=4, need=4)
        await harness.save(end(children[0]), end(children[1], RunState.FAILED), end(children[2]))
        assert [(group.got, group.failed) for group in (await harness.look(parent.run_id)).waits] == [(2, 1)]

    async def test_a_parent_that_still_runs_learns_by_its_wakes(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=1, need=1, parked=False)
        await harness.save(end(children[0]))
        assert await harness.standing(parent.run_id) == (TaskState.LEASED, 1)
        assert await harness.save(park(parent)) == [Saving.WOKEN]

    async def test_a_parent_that_a_person_holds_is_not_made_ready(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=1, need=1)
        await harness.change(parent.run_id, Pause())
        await harness.save(end(children[0]))
        assert (await harness.look(parent.run_id)).wakes == 1
        assert await harness.state(parent.run_id) is RunState.PAUSED
        assert await harness.claim() == []

    async def test_a_child_may_end_after_its_parent(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=1, need=1, parked=False)
        await harness.save(end(parent))
        assert await harness.save(end(children[0])) == [Saving.SAVED]

    async def test_the_woken_parent_is_claimed_again(self, harness: Harness) -> None:
        parent, children = await parent_of(harness, children=1, need=1)
        await harness.save(end(children[0]))
        assert [(run.run_id, run.wakes) for run in await harness.claim()] == [(parent.run_id, 1)]

    @cases(child_first={"the child first": True, "the parent first": False})
    async def test_a_child_that_ends_in_the_batch_in_which_its_parent_parks_is_not_lost(
        self, harness: Harness, child_first: bool
    ) -> None:
        parent, (child,) = await parent_of(harness, children=1, need=1, parked=False)
        batch = [end(child), park(parent)] if child_first else [park(parent), end(child)]
        answers = dict(zip((decision.fence.run_id for decision in batch), await harness.save(*batch), strict=True))
        expected = TaskState.READY if answers[parent.run_id] is Saving.SAVED else TaskState.LEASED
        assert await harness.standing(parent.run_id) == (expected, 1)
