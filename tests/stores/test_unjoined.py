"""Children that nobody will join: upkeep tells which of them are still open."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Cancel, Request
from stepfast.kernel.decisions import Continue
from stepfast.kernel.events import EventType
from stepfast.kernel.states import WaitKind
from tests.stores.harness import decide, end, joins, park, wait

ENDINGS = {
    "closed its wait": lambda parent: decide(parent, closed=(1,)),
    "ended": end,
    "was continued": lambda parent: decide(
        parent, EventType.CONTINUED, release=Continue(1, "order@1", "{}", "continue_as")
    ),
}


async def family(harness, children: int = 3, wait_id: int = 1, **changes):
    """A parent as its holder knows it, and the ids of the children it waits for."""
    parent = await harness.held()
    born = [harness.new_run(joins=joins(parent, wait_id), queue="children", **changes) for _ in range(children)]
    group = wait(wait_id, WaitKind.CHILDREN, need=children)
    await harness.save(decide(parent, opened=(group,), children=born))
    return parent, [child.run_id for child in born]


async def unjoined(harness, limit: int = 1_000):
    return (await harness.upkeep(limit=limit)).unjoined


async def rows(harness):
    return await harness.sql("select run_id, wait_id, tenant from stepfast.unjoined order by run_id, wait_id")


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_children_of_a_parent_that_joins_them_no_more_are_reported(harness, ending):
    parent, children = await family(harness)
    await harness.save(ending(parent))
    assert await rows(harness) == [(parent.run_id, 1, "acme")]
    assert await unjoined(harness) == children


async def test_children_of_a_cancelled_parent_are_reported(harness):
    parent, children = await family(harness)
    await harness.save(park(parent))
    await harness.change(parent.run_id, Cancel())
    assert await rows(harness) == [(parent.run_id, 1, "acme")]
    assert await unjoined(harness) == children


async def test_children_of_a_parent_that_crashed_too_often_are_reported(harness):
    _, children = await family(harness)
    assert (await harness.bury(max_crashes=1)).unjoined == children


async def test_children_that_are_waited_for_are_not_reported(harness):
    parent, _ = await family(harness)
    await harness.save(park(parent))
    assert await unjoined(harness) == []


async def test_children_are_reported_until_they_have_ended(harness, store):
    parent, children = await family(harness)
    await harness.save(end(parent))
    assert await unjoined(harness) == await unjoined(harness) == children
    await store.change([Request(run_id, Cancel()) for run_id in children[:2]])
    assert await unjoined(harness) == children[2:]


async def test_a_group_without_open_children_is_forgotten(harness, store):
    parent, children = await family(harness)
    await harness.save(end(parent))
    await store.change([Request(run_id, Cancel()) for run_id in children])
    assert await unjoined(harness) == []
    assert await rows(harness) == []


async def test_a_group_with_open_children_is_not_forgotten(harness):
    parent, _ = await family(harness)
    await harness.save(end(parent))
    await unjoined(harness)
    assert await rows(harness) == [(parent.run_id, 1, "acme")]


async def test_children_that_may_outlive_their_parent_are_left_alone(harness):
    parent, _ = await family(harness, leave=True)
    await harness.save(end(parent))
    assert await unjoined(harness) == []
    assert await rows(harness) == []


async def test_a_group_whose_children_have_all_ended_leaves_nothing_to_do(harness):
    parent, _ = await family(harness)
    children = await harness.claim(queue="children")
    await harness.save(*(end(child) for child in children))
    await harness.save(decide(parent, closed=(1,)))
    assert await rows(harness) == []


async def test_a_wait_for_something_else_leaves_nothing_to_do(harness):
    parent = await harness.held()
    await harness.save(decide(parent, opened=(wait(),)))
    await harness.save(end(parent))
    assert await rows(harness) == []


async def test_a_pass_reports_no_more_than_its_limit(harness):
    parent, children = await family(harness, children=5)
    await harness.save(end(parent))
    assert await unjoined(harness, limit=2) == children[:2]


async def test_groups_are_reported_in_the_order_of_their_parents(harness):
    families = [await family(harness, children=2) for _ in range(2)]
    for parent, _ in reversed(families):
        await harness.save(end(parent))
    assert await unjoined(harness, limit=3) == [*families[0][1], families[1][1][0]]


async def test_a_pass_looks_at_no_more_groups_than_its_limit(harness, store):
    families = [await family(harness, children=1) for _ in range(3)]
    for parent, _ in families:
        await harness.save(end(parent))
    for _, children in families:
        await harness.change(children[0], Cancel())
    await harness.upkeep(limit=2)
    assert [run_id for run_id, _, _ in await rows(harness)] == [families[2][0].run_id]


async def test_a_pass_that_forgets_a_group_leaves_those_behind_its_limit_to_the_next(harness):
    families = [await family(harness, children=1) for _ in range(2)]
    for parent, _ in families:
        await harness.save(end(parent))
    await harness.change(families[0][1][0], Cancel())
    assert [await unjoined(harness, limit=1) for _ in range(2)] == [[], families[1][1]]


async def test_a_group_without_open_children_is_forgotten_beside_one_that_has_more_than_the_limit(harness):
    families = [await family(harness, children=count) for count in (3, 1)]
    for parent, _ in families:
        await harness.save(end(parent))
    await harness.change(families[1][1][0], Cancel())
    assert await unjoined(harness, limit=2) == families[0][1][:2]
    assert [run_id for run_id, _, _ in await rows(harness)] == [families[0][0].run_id]


async def test_each_group_of_a_parent_counts_for_itself(harness):
    parent, first = await family(harness, children=1)
    second = [harness.new_run(joins=joins(parent, 2), queue="children")]
    await harness.save(decide(parent, opened=(wait(2, WaitKind.CHILDREN),), children=second))
    await harness.save(decide(parent, closed=(1,)))
    assert await unjoined(harness) == first
