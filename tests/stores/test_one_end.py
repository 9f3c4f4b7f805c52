"""A cancel that comes after the completion is told so, since it looks at its run when it has the lock."""

from __future__ import annotations

import pytest

from stepfast.kernel.commands import Cancel, Resume
from stepfast.kernel.errors import IllegalMove, StepfastError
from stepfast.kernel.exchange import Saving
from stepfast.stores.postgres import commands
from stepfast.stores.sqlite import changing
from tests.stores.harness import end


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
