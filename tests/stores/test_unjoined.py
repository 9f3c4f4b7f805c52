"""Groups of children that nobody will join: a row for each, until none of its children is open."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Cancel, Request
from stepfast.kernel.decisions import Continue
from tests.stores.harness import continued, decide, end, park, wait

ENDINGS = {
    "closed its wait": lambda parent: decide(parent, closed=(1,)),
    "ended": end,
    "was continued": lambda parent: continued(parent, Continue(1, "order@1", "{}")),
}


async def unjoined(harness, limit: int = 1_000):
    return (await harness.upkeep(limit=limit)).unjoined


async def rows(harness):
    return await harness.sql("select run_id, wait_id, tenant from stepfast.unjoined order by run_id, wait_id")


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
async def test_a_group_that_its_parent_joins_no_more_is_kept(harness, ending):
    parent, _ = await harness.parent(children=3, need=3)
    await harness.save(ending(parent))
    assert await rows(harness) == [(parent.run_id, 1, "acme")]


async def test_the_group_of_a_cancelled_parent_is_kept(harness):
    parent, _ = await harness.parent(children=3, need=3)
    await harness.save(park(parent))
    await harness.change(parent.run_id, Cancel())
    assert await rows(harness) == [(parent.run_id, 1, "acme")]


async def test_a_group_without_open_children_is_forgotten(harness, store):
    parent, children = await harness.parent(children=3, need=3)
    await harness.save(end(parent))
    await store.change([Request(run_id, Cancel()) for run_id in children])
    assert await unjoined(harness) == []
    assert await rows(harness) == []


async def test_a_group_with_open_children_is_not_forgotten(harness):
    parent, _ = await harness.parent(children=3, need=3)
    await harness.save(end(parent))
    await unjoined(harness)
    assert await rows(harness) == [(parent.run_id, 1, "acme")]


async def test_a_group_that_may_outlive_its_parent_is_forgotten_by_the_next_pass(harness):
    parent, _ = await harness.parent(children=3, need=3, leave=True)
    await harness.save(end(parent))
    await harness.upkeep()
    assert await rows(harness) == []


async def test_a_group_whose_children_have_all_ended_leaves_nothing_to_do(harness):
    parent, _ = await harness.parent(children=3, need=3)
    children = await harness.claim(queue="children")
    await harness.save(*(end(child) for child in children))
    await harness.save(decide(parent, closed=(1,)))
    assert await rows(harness) == []


async def test_a_wait_for_something_else_leaves_nothing_to_do(harness):
    parent = await harness.held()
    await harness.save(decide(parent, opened=(wait(),)))
    await harness.save(end(parent))
    assert await rows(harness) == []


async def test_a_pass_looks_at_no_more_groups_than_its_limit(harness, store):
    families = [await harness.parent(children=1, need=1) for _ in range(3)]
    for parent, _ in families:
        await harness.save(end(parent))
    for _, children in families:
        await harness.change(children[0], Cancel())
    await harness.upkeep(limit=2)
    assert [run_id for run_id, _, _ in await rows(harness)] == [families[2][0].run_id]


async def test_a_group_without_open_children_is_forgotten_beside_one_that_has_more_than_the_limit(harness):
    families = [await harness.parent(count, count) for count in (3, 1)]
    for parent, _ in families:
        await harness.save(end(parent))
    await harness.change(families[1][1][0], Cancel())
    assert await unjoined(harness, limit=2) == families[0][1][:2]
    assert [run_id for run_id, _, _ in await rows(harness)] == [families[0][0].run_id]
