"""A review is opened whole, by the holder of its run alone, and has an end however its wait goes away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepfast.conformance.store.acts import asked
from stepfast.kernel.commands import Cancel, Rerun
from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.errors import RowsRefused
from stepfast.kernel.exchange import Saving
from stepfast.kernel.reviews import Decide, Owner, Verdict
from stepfast.stores.postgres import reviews as postgres_reviews
from stepfast.stores.sqlite import changing
from tests.stores.harness import HOUR_MS, Harness, continued, decide, end, fail, park, record, try_again
from tests.stores.test_twin_letters import allow, refuse
from tests.support.guards import take_out_fence, url_of

STATES = "select state from stepfast.review order by run_id, wait_id"
WAITS = "select count(*) from stepfast.wait where kind = 'review'"
ITEMS = "select count(*) from stepfast.exception_item where resolved_at is null and cause like 'review:%'"

WAYS = {
    "the run completes": end,
    "the run fails": fail,
    "the code takes another way": lambda run: decide(run, records=(record(nth=2),), closed=(1,)),
    "the run begins anew by itself": lambda run: continued(run, try_again(run)),
}


async def opened(harness: Harness) -> HeldRun:
    run = await harness.held()
    assert await harness.save(asked(run)) == [Saving.SAVED]
    return run


async def left_open(harness: Harness) -> tuple[int, int]:
    """Reviews that are open, and items for them, although nobody waits."""
    assert await harness.sql(WAITS) == [(0,)]
    states = [state for (state,) in await harness.sql(STATES)]
    return states.count("open"), (await harness.sql(ITEMS))[0][0]


@pytest.fixture
async def without_withdrawals(harness):
    """Both stores without the trigger that ends the reviews that nobody waits for."""
    await harness.sql("drop trigger withdraw_review" + ("" if url_of(harness) is None else " on stepfast.wait"))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_review_that_nobody_waits_for_is_withdrawn_with_its_item(harness, way):
    run = await opened(harness)
    await harness.save(way(run))
    assert await left_open(harness) == (0, 0)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.usefixtures("without_withdrawals")
async def test_the_broken_twin_without_withdrawals_leaves_it_open(harness, way):
    run = await opened(harness)
    await harness.save(way(run))
    assert await left_open(harness) == (1, 1)


async def test_a_cancelled_run_asks_nobody(harness):
    run = await opened(harness)
    await harness.change(run.run_id, Cancel())
    assert await left_open(harness) == (0, 0)


@pytest.mark.usefixtures("without_withdrawals")
async def test_the_broken_twin_without_withdrawals_asks_for_a_cancelled_run(harness):
    run = await opened(harness)
    await harness.change(run.run_id, Cancel())
    assert await left_open(harness) == (1, 1)


@pytest.fixture
async def without_the_fence(harness, monkeypatch):
    """Both stores with the check of token and holder taken out."""
    await take_out_fence(url_of(harness), monkeypatch)


async def reviews_asked_for_late(harness: Harness, *commands: Cancel | Rerun) -> int:
    """What the holder of a run asks that does not know yet what others have done to it."""
    stale = await harness.held()
    for command in commands:
        await harness.change(stale.run_id, command)
    stale.last_event += len(commands)
    await harness.save(asked(stale))
    return len(await harness.sql(STATES))


@pytest.mark.parametrize("commands", [(Cancel(),), (Cancel(), Rerun())], ids=["cancelled", "and rerun"])
async def test_who_held_a_run_that_was_cancelled_asks_nobody(harness, commands):
    assert await reviews_asked_for_late(harness, *commands) == 0


@pytest.mark.parametrize("commands", [(Cancel(),), (Cancel(), Rerun())], ids=["cancelled", "and rerun"])
@pytest.mark.usefixtures("without_the_fence")
async def test_the_broken_twin_without_the_fence_asks_after_the_cancel(harness, commands):
    assert await reviews_asked_for_late(harness, *commands) == 1


ROWS = {
    "its wait": ("wait", "new.kind = 'review'"),
    "its review": ("review", "true"),
    "its item": ("exception_item", "true"),
    "its event": ("event", "new.type = 'review_requested'"),
}


@pytest.mark.parametrize("row", ROWS)
async def test_a_review_of_which_a_row_is_refused_leaves_nothing_and_is_whole_the_next_time(harness, row):
    run = await harness.held()
    asking = asked(run)
    before = await harness.contents()
    await refuse(harness, *ROWS[row])
    with pytest.raises(RowsRefused):
        await harness.save(asking)
    assert await harness.contents() == before
    await allow(harness, ROWS[row][0])
    assert await harness.save(asking) == [Saving.SAVED]
    assert await harness.sql(STATES) == [("open",)]


@pytest.mark.parametrize("row", ["its review", "its item"])
async def test_the_broken_twin_that_opens_it_in_two_commits_waits_for_what_nobody_is_asked(harness, row):
    run = await harness.held()
    asking = asked(run)
    await refuse(harness, *ROWS[row])
    await harness.save(replace(asking, reviews=()))
    with pytest.raises(RowsRefused):
        await harness.save(review_alone(asking))
    assert (await harness.sql(WAITS), await harness.sql(STATES)) == ([(1,)], [])


def review_alone(asking: Decision) -> Decision:
    # A wait that does not exist is closed, as reviews are written with waits and never alone.
    return replace(asking, records=(), events=(), opened=(), closed=(10**6,))


@pytest.fixture
def without_the_new_moment(monkeypatch):
    """Both stores with runs that are woken at the moment at which their review was due at first."""
    monkeypatch.setitem(changing.REVIEW_SQL, "move_task", unmoved(changing.REVIEW_SQL["move_task"]))
    texts = postgres_reviews._texts()
    monkeypatch.setitem(texts, "move_task", unmoved(texts["move_task"]))
    postgres_reviews._joined.cache_clear()
    yield
    postgres_reviews._joined.cache_clear()


def unmoved(text: str) -> str:
    return f"{text.rstrip(' ;')} and false"


async def claimed_at_the_first_moment(harness: Harness) -> int:
    """A review is escalated halfway, and the moment passes at which it was due before."""
    run = await harness.held()
    await harness.save(asked(run, expires_ms=HOUR_MS), park(run))
    await harness.advance(HOUR_MS // 2)
    await harness.change(run.run_id, Decide(1, Verdict.ESCALATE, to=Owner("eve")))
    await harness.advance(HOUR_MS // 2)
    return len(await harness.claim())


async def test_a_run_whose_review_was_escalated_is_not_claimed_before_its_new_moment(harness):
    assert await claimed_at_the_first_moment(harness) == 0
    await harness.advance(HOUR_MS // 2)
    assert len(await harness.claim()) == 1


@pytest.mark.usefixtures("without_the_new_moment")
async def test_the_broken_twin_that_keeps_the_first_moment_is_claimed_for_nothing(harness):
    assert await claimed_at_the_first_moment(harness) == 1
