"""Of a cancel and a completion one ends the run, and the other is told so."""

from __future__ import annotations

import asyncio

import pytest

from stepfast.kernel.commands import Cancel, Changed, Resume
from stepfast.kernel.errors import IllegalMove, StepfastError
from stepfast.kernel.exchange import Saving
from stepfast.kernel.states import RunState
from stepfast.stores.postgres import commands
from stepfast.stores.sqlite import changing
from tests.stores.harness import end

ROUNDS = 10


@pytest.fixture
def an_old_look(monkeypatch):
    """Both stores with commands that go by their first look at a run, taken before they have its lock."""
    find, look = changing._find, commands._look
    found, seen = {}, {}

    def find_once(connection, request, now):
        if request.run_id not in found:
            found[request.run_id] = find(connection, request, now)
        return found[request.run_id]

    async def look_once(connection, requests, now):
        for request in requests:
            if request.run_id not in seen:
                seen.update(await look(connection, requests, now))
        return {request.run_id: seen[request.run_id] for request in requests}

    monkeypatch.setattr(changing, "_find", find_once)
    monkeypatch.setattr(commands, "_look", look_once)


async def is_refused_in_order(harness) -> bool:
    """Whether a cancel that comes after the completion is told so, and leaves the history as it was."""
    run = await harness.held()
    assert isinstance(await harness.change(run.run_id, Resume()), IllegalMove)
    assert await harness.save(end(run)) == [Saving.SAVED]
    try:
        answer = await harness.change(run.run_id, Cancel())
    except StepfastError as error:
        answer = error
    return isinstance(answer, IllegalMove) and (await harness.event_types(run.run_id))[-1] == "completed"


async def test_a_cancel_after_the_completion_changes_nothing(harness):
    assert await is_refused_in_order(harness)


@pytest.mark.usefixtures("an_old_look")
async def test_the_broken_twin_that_looks_before_it_locks_does_not_see_the_completion(harness):
    assert not await is_refused_in_order(harness)


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_of_a_cancel_and_a_completion_at_once_one_ends_the_run(harness, cancel_first):
    for _ in range(ROUNDS):
        run = await harness.held()
        cancel, complete = harness.change(run.run_id, Cancel()), harness.save(end(run))
        if cancel_first:
            changed, (saving,) = await asyncio.gather(cancel, complete)
        else:
            (saving,), changed = await asyncio.gather(complete, cancel)
        is_cancelled = isinstance(changed, Changed)
        assert is_cancelled == (saving is Saving.LOST)
        winner = RunState.CANCELLED if is_cancelled else RunState.COMPLETED
        assert await harness.sql("select state from stepfast.outcome where run_id = :id", id=run.run_id) == [(winner,)]
        assert (await harness.event_types(run.run_id))[2:] == [winner]
