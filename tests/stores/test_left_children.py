"""Children that may outlive their parent: when they fail, a person sees it, whether or not anybody awaits them."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import TimeOut
from stepfast.kernel.states import WaitKind
from stepfast.kernel.views import LetterFilter
from tests.stores.harness import VERDICT, decide, joins, wait


async def born(harness, leave: bool, **changes):
    """The held child of a parent that waits for it."""
    parent = await harness.held("parent")
    child = harness.new_run(joins=joins(parent), queue="children", leave=leave, **changes)
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN),), children=(child,)))
    await harness.enrol("child")
    (held,) = await harness.claim(worker="child", queue="children")
    return held


@pytest.mark.parametrize("leave", [True, False])
async def test_a_claim_says_whether_the_run_may_outlive_its_parent(harness, leave):
    assert (await born(harness, leave)).leave is leave


@pytest.mark.parametrize("leave", [True, False])
async def test_one_that_has_spent_its_crashes_is_a_dead_letter(harness, store, leave):
    child = await born(harness, leave)
    report = await harness.bury("child", max_crashes=1)
    assert child.run_id in report.failed
    letters = [letter.run_id for letter in await store.dead_letters(LetterFilter())]
    assert letters.count(child.run_id) == leave


@pytest.mark.parametrize("leave", [True, False])
async def test_one_that_did_not_end_in_time_is_a_dead_letter(harness, store, leave):
    child = await born(harness, leave, timeout_ms=100)
    await harness.advance(100)
    await harness.change(child.run_id, TimeOut(VERDICT))
    assert [letter.run_id for letter in await store.dead_letters(LetterFilter())] == [child.run_id] * leave
