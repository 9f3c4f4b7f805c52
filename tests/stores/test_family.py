"""Runs by their family: what may be taken of a run and of all that it has started."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Pause
from stepfast.kernel.durations import Instant
from stepfast.kernel.states import WaitKind
from stepfast.kernel.views import Family, Member
from tests.stores.harness import NOON, decide, end, joins, wait


async def have_children(harness, parent, number, **options):
    born = [harness.new_run(joins=joins(parent), **options) for _ in range(number)]
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN, need=number),), children=born))
    return [child.run_id for child in born]


@pytest.fixture
async def parent(harness):
    """A run that is held, beside others that are ready."""
    held = await harness.held()
    await harness.start_many(3)
    return held


async def taken(store, run_id):
    return [member.run_id for member in (await store.family(run_id)).ready]


async def test_a_run_without_children_is_its_own_family(harness, store):
    started = await harness.start()
    await harness.start_many(3)
    assert await store.family(started.run_id) == Family([Member(started.run_id, "default", "order@1", 0)], None)


async def test_children_and_their_children_are_of_the_family(harness, store, parent):
    first, second = await have_children(harness, parent, 2, queue="children")
    child = await harness.claim_run(first)
    grandchildren = await have_children(harness, child, 2, queue="children")
    assert sorted(await taken(store, parent.run_id)) == sorted([second, *grandchildren])


async def test_what_is_not_due_is_told_by_its_moment(harness, store, parent):
    children = await have_children(harness, parent, 2, queue="children", delay_ms=1_000)
    assert await store.family(parent.run_id) == Family([], Instant(NOON + 1_000))
    await harness.advance(1_000)
    assert await taken(store, parent.run_id) == children


async def test_what_has_ended_or_is_held_or_paused_cannot_be_taken(harness, store, parent):
    ended, held, paused = await have_children(harness, parent, 3, queue="children")
    await harness.save(end(await harness.claim_run(ended)))
    await harness.claim_run(held)
    await harness.change(paused, Pause())
    assert await store.family(parent.run_id) == Family([], None)


async def test_a_run_that_has_ended_has_no_family(harness, store, parent):
    await harness.save(end(parent))
    assert await store.family(parent.run_id) == Family([], None)


async def test_no_more_are_told_of_than_asked_for(harness, store, parent):
    children = await have_children(harness, parent, 5, queue="children")
    assert [member.run_id for member in (await store.family(parent.run_id, limit=2)).ready] == children[:2]


async def test_several_runs_are_claimed_at_once_without_those_that_are_not_free(harness, store, parent):
    ready = await harness.start_many(2)
    waiting = await harness.start(delay_ms=1_000)
    unknown = (await harness.start_many(1, code="other@1"))[0]
    asked = [parent.run_id, *ready, waiting.run_id, unknown]
    runs = await store.claim_runs(parent.worker_id, asked, ["order@1"])
    assert sorted(run.run_id for run in runs) == sorted(ready)


async def test_what_is_due_is_claimed_with_the_others(harness, store, parent):
    waiting = await harness.start(delay_ms=10)
    await harness.advance(10)
    runs = await store.claim_runs(parent.worker_id, [waiting.run_id], ["order@1"])
    assert [run.run_id for run in runs] == [waiting.run_id]
