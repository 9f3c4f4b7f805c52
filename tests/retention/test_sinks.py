"""Events that a sink still has to have are not pruned away under it."""

from __future__ import annotations

from importlib.resources import files

import pytest

from stepfast.engine.publishing import Publisher
from stepfast.kernel.sinks import Backoff
from tests.publishing.harness import Place
from tests.retention.test_pruning import ended, prune
from tests.support.sql import execute

TRIES = 3


@pytest.fixture
def place():
    return Place()


@pytest.fixture
async def publisher(opened, place):
    """Somebody who publishes from the beginning, and has done nothing yet but taken the sink up."""
    await opened.app.retention.set("1d")
    publisher = Publisher(opened.app.parts.store, opened.clock, place, "me", Backoff(tries=TRIES), True)
    await opened.app.parts.store.take_sink(place.name, "me", 1_000, True)
    return publisher


async def published(opened, publisher, passes: int = 1) -> None:
    for _ in range(passes):
        while await publisher.make_pass():
            pass
        opened.clock.advance("10m")


async def test_a_run_stays_until_its_sink_has_had_it(opened, publisher):
    await ended(opened)
    opened.clock.advance("2d")
    assert (await prune(opened)).held == {"sink": 1}
    await published(opened, publisher)
    assert (await prune(opened)).runs == 1


async def test_a_run_stays_while_its_events_are_held_back_or_dead_letters(opened, publisher, place):
    run_id = await ended(opened)
    await ended(opened)
    place.poison.add((run_id, 3))
    opened.clock.advance("2d")
    await published(opened, publisher)
    first = await prune(opened)
    assert (first.runs, first.held) == (1, {"sink": 1})
    await published(opened, publisher, TRIES + 1)
    assert len(await opened.app.sinks.letters(place.name)) == 1
    assert (await prune(opened)).held == {"sink": 1}
    place.poison.clear()
    await opened.app.sinks.replay(place.name)
    await published(opened, publisher)
    assert (await prune(opened)).runs == 1


async def test_what_went_keeps_nobody_from_publishing_the_rest(opened, publisher, place):
    await ended(opened)
    opened.clock.advance("2d")
    await published(opened, publisher)
    await prune(opened)
    run_id = await ended(opened)
    await published(opened, publisher, 3)
    assert [event.type for event in place.got if event.run_id == run_id][-1] == "completed"
    assert [event.type for event in place.got].count("pruned") == 1


async def test_a_sink_that_was_removed_keeps_nothing_back(opened, publisher, place):
    await ended(opened)
    opened.clock.advance("2d")
    await opened.app.sinks.remove(place.name, reason="sold", actor="ann")
    assert (await prune(opened)).runs == 1


async def without_a_look_at_cursors(database: str) -> None:
    """The rule for what may go, but for how far sinks have got."""
    kind = "sqlite" if database.startswith("sqlite") else "postgres"
    file = "0007_retention.sql" if kind == "sqlite" else "0013_retention.sql"
    script = (files("stepfast.stores") / kind / "migrations" / file).read_text()
    view = script[script.index("create view") :].partition(";")[0].replace("s.cursor <", "0 >")
    if kind == "sqlite":
        await execute(database, "drop view run_keeping")
        await execute(database, view)
    else:
        await execute(database, view.replace("create view", "create or replace view"))


async def test_the_broken_twin_that_does_not_look_at_cursors_loses_events(opened, publisher, place, database):
    await without_a_look_at_cursors(database)
    run_id = await ended(opened)
    opened.clock.advance("2d")
    assert (await prune(opened)).runs == 1
    await published(opened, publisher, 3)
    assert [event for event in place.got if event.run_id == run_id] == []
