"""Children that nobody will join: upkeep tells which of them are still open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepfast.conformance.store.acts import continued, decide, end, joins, park, wait
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Cancel, Request
from stepfast.kernel.decisions import Continue, Decision, HeldRun
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import WaitKind

ENDINGS: dict[str, Callable[[HeldRun], Decision]] = {
    "closed its wait": lambda parent: decide(parent, closed=(1,)),
    "ended": end,
    "was continued": lambda parent: continued(parent, Continue(1, "order@1", "{}")),
}


async def family(harness: Harness, children: int = 3, **changes: Any) -> tuple[HeldRun, list[RunId]]:
    """A parent as its holder knows it, and the ids of the children that it waits for."""
    return await harness.parent(children, children, **changes)


async def unjoined(harness: Harness, limit: int = 1_000) -> list[RunId]:
    return (await harness.upkeep(limit=limit)).unjoined


@on_fresh_stores
class UnjoinedSuite(StoreSuite):
    """Upkeep tells of open children until they have ended."""

    async def test_children_that_have_all_ended_are_reported_no_more(self, harness: Harness) -> None:
        parent, children = await family(harness)
        await harness.save(end(parent))
        await harness.store.change([Request(run_id, Cancel()) for run_id in children])
        assert await unjoined(harness) == []

    async def test_a_pass_tells_of_no_more_groups_than_its_limit_and_the_next_goes_on(self, harness: Harness) -> None:
        families = [await family(harness, children=count) for count in (3, 1)]
        for parent, _ in families:
            await harness.save(end(parent))
        await harness.change(families[1][1][0], Cancel())
        assert await unjoined(harness, limit=2) == families[0][1][:2]
        await harness.store.change([Request(run_id, Cancel()) for run_id in families[0][1][:2]])
        assert await unjoined(harness, limit=2) == families[0][1][2:]

    @cases(ending=ENDINGS)
    async def test_children_of_a_parent_that_joins_them_no_more_are_reported(
        self, harness: Harness, ending: Callable[[HeldRun], Decision]
    ) -> None:
        parent, children = await family(harness)
        await harness.save(ending(parent))
        assert await unjoined(harness) == children

    async def test_children_of_a_cancelled_parent_are_reported(self, harness: Harness) -> None:
        parent, children = await family(harness)
        await harness.save(park(parent))
        await harness.change(parent.run_id, Cancel())
        assert await unjoined(harness) == children

    async def test_children_of_a_parent_that_crashed_too_often_are_reported(self, harness: Harness) -> None:
        _, children = await family(harness)
        assert (await harness.bury(max_crashes=1)).unjoined == children

    async def test_children_that_are_waited_for_are_not_reported(self, harness: Harness) -> None:
        parent, _ = await family(harness)
        await harness.save(park(parent))
        assert await unjoined(harness) == []

    async def test_children_are_reported_until_they_have_ended(self, harness: Harness) -> None:
        parent, children = await family(harness)
        await harness.save(end(parent))
        assert await unjoined(harness) == await unjoined(harness) == children
        await harness.store.change([Request(run_id, Cancel()) for run_id in children[:2]])
        assert await unjoined(harness) == children[2:]

    async def test_children_that_may_outlive_their_parent_are_left_alone(self, harness: Harness) -> None:
        parent, _ = await family(harness, leave=True)
        await harness.save(end(parent))
        assert await unjoined(harness) == []

    async def test_a_pass_reports_no_more_than_its_limit(self, harness: Harness) -> None:
        parent, children = await family(harness, children=5)
        await harness.save(end(parent))
        assert await unjoined(harness, limit=2) == children[:2]

    async def test_groups_are_reported_in_the_order_of_their_parents(self, harness: Harness) -> None:
        families = [await family(harness, children=2) for _ in range(2)]
        for parent, _ in reversed(families):
            await harness.save(end(parent))
        assert await unjoined(harness, limit=3) == [*families[0][1], families[1][1][0]]

    async def test_a_pass_that_forgets_a_group_leaves_those_behind_its_limit_to_the_next(
        self, harness: Harness
    ) -> None:
        families = [await family(harness, children=1) for _ in range(2)]
        for parent, _ in families:
            await harness.save(end(parent))
        await harness.change(families[0][1][0], Cancel())
        assert [await unjoined(harness, limit=1) for _ in range(2)] == [[], families[1][1]]

    async def test_each_group_of_a_parent_counts_for_itself(self, harness: Harness) -> None:
        parent, first = await family(harness, children=1)
        second = [harness.new_run(joins=joins(parent, 2), queue="children")]
        await harness.save(decide(parent, opened=(wait(2, WaitKind.CHILDREN),), children=second))
        await harness.save(decide(parent, closed=(1,)))
        assert await unjoined(harness) == first
