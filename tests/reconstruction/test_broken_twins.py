"""Whoever overlooks events of a kind is found out: what they say of a run is held against its rows."""

from __future__ import annotations

import pytest

from stepfast.kernel import rebuilding
from stepfast.kernel.events import EventType
from stepfast.testing import engine
from tests.reconstruction.lives import BODIES, EXECUTORS, WORKFLOWS, whole
from tests.reconstruction.watching import Watch

# The first event of a run says nothing that is not so anyway, progress is nowhere but in events, and a run with outside
# work may be looked after at any moment.
UNSEEN = {EventType.QUEUED, EventType.STEP_PROGRESS, EventType.CALLBACK_SUBMITTED}


async def differences_of_whole_lives(database: str) -> list[str]:
    watch = Watch()
    BODIES.clear()
    async with engine(database=database, workflows=WORKFLOWS, executors=EXECUTORS, around=watch.around) as opened:
        await whole(opened)
    return watch.found


async def test_whole_lives_agree_with_their_events(database):
    assert await differences_of_whole_lives(database) == []


@pytest.mark.parametrize("kind", sorted(rebuilding._HANDLERS.keys() - UNSEEN))
async def test_the_broken_twin_that_overlooks_events_of_a_kind_is_found_out(tmp_path, kind, monkeypatch):
    monkeypatch.setitem(rebuilding._HANDLERS, kind, lambda self, event, told: None)
    assert await differences_of_whole_lives(f"sqlite:///{tmp_path}/app.db")
