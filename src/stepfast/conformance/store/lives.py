"""What is read of a run's lives and of the runs that it has started."""

from __future__ import annotations

from stepfast.conformance.store.acts import decide, end, fail, joins, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, on_fresh_stores
from stepfast.kernel.commands import Rerun
from stepfast.kernel.states import RunState, WaitKind

MARKED = '{"transformation": {"name": "docs.shorten", "version": 1}}'


@on_fresh_stores
class LivesSuite(StoreSuite):
    """A run's generations are all there, in order, and so are its children."""

    async def test_a_run_that_has_not_ended_has_one_open_generation(self, harness: Harness) -> None:
        started = await harness.start(input='{"n": 1}')
        (only,) = await harness.store.generations(started.run_id)
        assert (only.generation, only.cause, only.input, only.state) == (1, None, '{"n": 1}', None)

    async def test_each_generation_says_who_opened_it_and_how_it_ended(self, harness: Harness) -> None:
        run = await harness.held()
        await harness.save(fail(run))
        await harness.change(run.run_id, Rerun(), actor="ann", reason="once more")
        (again,) = await harness.claim()
        await harness.save(end(again))
        first, second = await harness.store.generations(run.run_id)
        assert (first.state, second.state, second.value) == (RunState.FAILED, RunState.COMPLETED, "1")
        assert (second.generation, second.cause, second.actor, second.reason) == (2, "rerun", "ann", "once more")

    async def test_a_run_that_does_not_exist_has_no_generations(self, harness: Harness) -> None:
        assert await harness.store.generations(harness.new_run().run_id) == []

    async def test_children_are_listed_in_the_order_of_their_starts(self, harness: Harness) -> None:
        parent, born = await harness.parent(children=3, need=3)
        found = await harness.store.children(parent.run_id)
        assert ([child.run_id for child in found], {child.parent_id for child in found}) == (
            sorted(born),
            {parent.run_id},
        )

    async def test_a_page_of_children_follows_the_one_before(self, harness: Harness) -> None:
        parent, born = await harness.parent(children=3, need=3)
        first = await harness.store.children(parent.run_id, limit=2)
        rest = await harness.store.children(parent.run_id, first[-1].run_id)
        assert [child.run_id for child in (*first, *rest)] == sorted(born)

    async def test_the_open_children_of_a_wait_come_newest_first_and_only_so_many_are_looked_at(
        self, harness: Harness
    ) -> None:
        parent, born = await harness.parent(children=3, need=3)
        oldest, middle, newest = sorted(born)
        held = await harness.claim_run(newest)
        assert held is not None
        await harness.save(end(held))
        found = await harness.store.open_children(parent.run_id, 1)
        assert [child.run_id for child in found] == [middle, oldest]
        assert [child.run_id for child in await harness.store.open_children(parent.run_id, 1, limit=2)] == [middle]
        assert await harness.store.open_children(parent.run_id, 2) == []
        assert (found[0].state, found[0].queue, found[0].waits_for_code) == (RunState.PENDING, "children", False)

    async def test_transformations_are_listed_without_the_other_children(self, harness: Harness) -> None:
        parent = await harness.held()
        kinds = (
            ("step", MARKED),
            ("step", None),
            ("workflow", MARKED),
            ("step", '{"step_policy": {}}'),
            ("step", MARKED),
        )
        born = [harness.new_run(joins=joins(parent), kind=kind, metadata=metadata) for kind, metadata in kinds]
        opened = (wait(1, WaitKind.CHILDREN, need=len(born)),)
        await harness.save(decide(parent, opened=opened, children=born))
        found = await harness.store.transformations(parent.run_id)
        assert [run.run_id for run in found] == [born[0].run_id, born[-1].run_id]
        assert await harness.store.transformations(parent.run_id, limit=1) == found[:1]
        assert await harness.store.transformations(born[0].run_id) == []
