"""Dead letters: listed until somebody has seen to them."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Changed, Discard, Rerun, RetryRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import IllegalMove
from stepfast.kernel.states import RunState
from stepfast.kernel.views import LetterFilter, LetterView
from tests.stores.harness import NOON, end, fail


async def letter(harness, error_type: str = "ValueError", step: str | None = None, **changes):
    """A run that has just become a dead letter."""
    run = await harness.held(**changes)
    await harness.save(fail(run, step, error_type))
    return run


async def listed(harness, **where) -> list[str]:
    return [view.run_id for view in await harness.store.dead_letters(LetterFilter(**where))]


async def test_a_dead_letter_is_listed_as_it_was_recorded(harness, store):
    run = await letter(harness, step="ship#1")
    view = LetterView(run.run_id, 1, "acme", "order", 1, "ship#1", "ValueError", "no", NOON, None, None, None)
    assert await store.dead_letters(LetterFilter()) == [view]


async def test_a_run_that_ended_well_is_no_dead_letter(harness):
    run = await harness.held()
    await harness.save(end(run))
    assert await listed(harness) == []


async def test_the_newest_run_comes_first(harness):
    runs = [await letter(harness) for _ in range(3)]
    assert await listed(harness) == [run.run_id for run in reversed(runs)]


async def test_a_list_goes_on_where_the_page_before_ended(harness):
    oldest, middle, newest = [(await letter(harness)).run_id for _ in range(3)]
    assert await listed(harness, limit=2) == [newest, middle]
    assert await listed(harness, limit=2, before=middle) == [oldest]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"tenant": "other"}, {"tenant": "other"}),
        ({"workflow": "mail"}, {"workflow": "mail"}),
        ({"step": "ship#1"}, {"step": "ship#1"}),
        ({"error_type": "KeyError"}, {"error_type": "KeyError"}),
    ],
    ids=["tenant", "workflow", "step", "error_type"],
)
async def test_a_list_holds_only_what_is_asked_for(harness, changes, where):
    await letter(harness)
    wanted = await letter(harness, **changes)
    assert await listed(harness, **where) == [wanted.run_id]


async def test_one_run_may_be_asked_for(harness):
    wanted, _ = await letter(harness), await letter(harness)
    assert await listed(harness, run_id=wanted.run_id) == [wanted.run_id]


async def test_only_those_recorded_lately_may_be_asked_for(harness):
    await letter(harness)
    await harness.advance(5)
    late = await letter(harness)
    assert await listed(harness, recorded_after=Instant(NOON)) == [late.run_id]


async def test_a_discarded_letter_is_out_of_the_list_and_its_run_stays_failed(harness, store):
    run = await letter(harness)
    await harness.advance(5)
    changed = await harness.change(run.run_id, Discard(), actor="ann", reason="known")
    assert changed == Changed(run.run_id, RunState.FAILED, 1, "default", Instant(NOON + 5))
    assert await harness.state(run.run_id) is RunState.FAILED
    assert await listed(harness) == []


async def test_a_discarded_letter_says_who_discarded_it_and_when(harness, store):
    run = await letter(harness)
    await harness.advance(5)
    await harness.change(run.run_id, Discard(), actor="ann")
    (view,) = await store.dead_letters(LetterFilter(resolved=True))
    assert (view.run_id, view.resolution, view.actor, view.resolved_at) == (run.run_id, "discarded", "ann", NOON + 5)


async def test_discarding_is_told_with_the_token_of_the_end(harness, store):
    run = await letter(harness)
    await harness.change(run.run_id, Discard(), actor="ann")
    event = (await store.events(run.run_id))[-1]
    assert (event.seq, event.type, event.actor) == (run.last_event + 1, "dlq_discarded", "ann")
    assert (event.token, event.generation) == (run.token, 1)


async def test_a_letter_is_discarded_once(harness):
    run = await letter(harness)
    await harness.change(run.run_id, Discard())
    before = await harness.contents()
    assert isinstance(await harness.change(run.run_id, Discard()), IllegalMove)
    assert await harness.contents() == before


async def test_a_run_that_is_no_letter_is_not_discarded(harness):
    started = await harness.start()
    assert isinstance(await harness.change(started.run_id, Discard()), IllegalMove)


@pytest.mark.parametrize("command", [RetryRun(), Rerun()], ids=lambda command: command.name)
async def test_a_letter_whose_run_is_reopened_is_replayed(harness, store, command):
    run = await letter(harness)
    await harness.change(run.run_id, command, actor="ann")
    assert await listed(harness) == []
    (view,) = await store.dead_letters(LetterFilter(resolved=True))
    assert (view.generation, view.resolution, view.actor, view.resolved_at) == (1, "replayed", "ann", NOON)


async def test_a_discarded_letter_that_is_replayed_stays_discarded(harness, store):
    run = await letter(harness)
    await harness.change(run.run_id, Discard(), actor="ann")
    await harness.change(run.run_id, RetryRun(), actor="ben")
    (view,) = await store.dead_letters(LetterFilter(resolved=True))
    assert (view.resolution, view.actor) == ("discarded", "ann")


async def test_a_replayed_run_that_fails_again_is_a_letter_again(harness, store):
    run = await letter(harness)
    await harness.change(run.run_id, RetryRun())
    (run,) = await harness.claim()
    await harness.save(fail(run))
    assert [(view.run_id, view.generation) for view in await store.dead_letters(LetterFilter())] == [(run.run_id, 2)]
    both = await store.dead_letters(LetterFilter(resolved=True))
    assert [(view.generation, view.resolution) for view in both] == [(2, None), (1, "replayed")]
