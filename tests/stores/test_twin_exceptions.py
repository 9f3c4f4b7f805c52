"""Exception items are opened and resolved with their causes, by triggers: without one of them the queue goes astray."""

from __future__ import annotations

import pytest

from stepfast.conformance.store.acts import asked
from stepfast.kernel.commands import Discard
from stepfast.kernel.reviews import Decide, Verdict
from stepfast.kernel.states import WaitKind
from tests.stores.harness import Harness, fail, park, wait
from tests.support.guards import url_of

# Each trigger with its table.
TRIGGERS = {
    "open_failed_item": "dead_letter",
    "resolve_failed_item": "dead_letter",
    "open_review_item": "review",
    "follow_review_item": "review",
    "open_blocked_item": "wait",
    "resolve_blocked_item": "wait",
}
CAUSES = """
select cast(run_id as text), 'failed:' || generation from stepfast.dead_letter where resolved_at is null
 union all
select cast(run_id as text), 'review:' || wait_id from stepfast.review where state = 'open'
 union all
select cast(run_id as text), 'blocked:' || generation from stepfast.wait where kind = 'code'
"""
ITEMS = "select cast(run_id as text), cause from stepfast.exception_item where resolved_at is null"


async def work(harness: Harness) -> None:
    """Of each kind of cause one that is open and one that has ended."""
    failed = [await harness.held() for _ in range(2)]
    for run in failed:
        await harness.save(fail(run))
    await harness.change(failed[0].run_id, Discard())
    reviewed = [await harness.held() for _ in range(2)]
    for run in reviewed:
        await harness.save(asked(run))
    await harness.change(reviewed[0].run_id, Decide(1, Verdict.CONTINUE))
    unfit = [await harness.held() for _ in range(2)]
    await harness.save(park(unfit[0], wait(-1, WaitKind.CODE)))
    await harness.enrol("w2")
    await harness.save(park(unfit[1], wait(-1, WaitKind.CODE)))


async def strays(harness: Harness) -> set[tuple[str, str]]:
    """Causes without an item, and items without a cause."""
    causes, items = await harness.sql(CAUSES), await harness.sql(ITEMS)
    return {tuple(row) for row in causes} ^ {tuple(row) for row in items}


async def test_the_queue_has_what_is_open_and_nothing_else(harness):
    await work(harness)
    assert len(await harness.sql(ITEMS)) == 3
    assert await strays(harness) == set()


@pytest.mark.parametrize("trigger", TRIGGERS)
async def test_the_broken_twin_without_a_trigger_goes_astray(harness, trigger):
    on = "" if url_of(harness) is None else f" on stepfast.{TRIGGERS[trigger]}"
    await harness.sql(f"drop trigger {trigger}{on}")
    await work(harness)
    assert len(await strays(harness)) == 1
