"""The trail as people search it: events of all runs, by who did what, where and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stepfast import Invalid
from stepfast.kernel.errors import EventNotFound
from stepfast.kernel.trail import HIGHEST
from stepfast.stores import trail
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.sqlite.store import SqliteStore
from tests.audit.test_verify import sealing
from tests.support.sql import tamper
from tests.support.workflows import say


@pytest.fixture
async def opened(database):
    """A run that ann asked for, and one of another tenant."""
    async with sealing(database) as opened:
        await opened.run(say, "one", actor="ann", correlation_id="case-7")
        await opened.run(say, "two", tenant="other")
        yield opened


async def test_a_list_has_the_events_of_all_runs_newest_first(opened):
    found = await opened.app.audit.list()
    assert [event.position for event in found] == sorted((event.position for event in found), reverse=True)
    assert {event.tenant for event in found} == {"default", "other"}
    assert (found[0].type, found[-1].type) == ("completed", "queued")


async def test_pages_hold_every_event_once(opened, monkeypatch):
    monkeypatch.setattr(trail, "LOOKED_THROUGH", 2)
    pages = [await opened.app.audit.list(limit=3)]
    while pages[-1]:
        pages.append(await opened.app.audit.list(limit=3, cursor=pages[-1][-1].position))
    assert [event for page in pages for event in page] == await opened.app.audit.list(limit=1_000)


async def test_events_are_found_by_what_was_asked_for(opened):
    (run,) = await opened.app.runs(tenant="default")
    own = await opened.app.audit.list(run_id=run.run_id)
    assert own[::-1] == await opened.app.get(run.run_id).history()
    assert await opened.app.audit.list(correlation_id="case-7") == own
    assert await opened.app.audit.list(tenant="default") == own
    assert {event.type for event in await opened.app.audit.list(actor="ann")} >= {"queued"}
    ends = await opened.app.audit.list(type=["queued", "completed"])
    assert [event.type for event in ends] == ["completed", "queued"] * 2
    assert [event.type for event in await opened.app.audit.list(type="completed", tenant="other")] == ["completed"]


async def test_events_are_found_by_when_they_were_written(opened):
    (first, *_) = (await opened.app.audit.list())[::-1]
    then = datetime.fromtimestamp(first.at / 1_000, UTC)
    assert await opened.app.audit.list(until=then) == []
    assert first in await opened.app.audit.list(since=then)
    assert await opened.app.audit.list(since=then + timedelta(days=1)) == []


async def test_an_event_is_shown_by_its_position(opened):
    for event in await opened.app.audit.list():
        assert await opened.app.audit.get(event.position) == event


@pytest.mark.parametrize("tenant", [None, "default"])
async def test_a_position_without_an_event_is_not_found(opened, tenant):
    newest = (await opened.app.audit.list(limit=1))[0].position
    with pytest.raises(EventNotFound, match="stepfast audit list"):
        await opened.app.audit.get(newest + (tenant is None), tenant=tenant)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"since": "yesterday"}, "since is 'yesterday'; give a datetime"),
        ({"until": datetime.now(UTC).replace(tzinfo=None)}, "of no time zone"),
        ({"type": [1]}, "type"),
        ({"cursor": "x"}, "cursor"),
        ({"limit": 0}, "limit"),
        ({"actor": "\0"}, "actor"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused_by_name(opened, given, named):
    with pytest.raises(Invalid, match=named):
        await opened.app.audit.list(**given)


async def test_an_event_is_shown_without_a_look_through_the_trail(opened, monkeypatch):
    (newest, *_) = await opened.app.audit.list(limit=1)
    monkeypatch.setattr(opened.app.parts.store, "find_events", None)
    assert await opened.app.audit.get(newest.position, tenant="other") == newest
    with pytest.raises(EventNotFound):
        await opened.app.audit.get(newest.position, tenant="nobody")


async def parts_looked_through(opened, database, monkeypatch) -> int:
    """How many parts of a trail are looked through for two events that are a million positions apart."""
    await tamper(database, "update stepfast.event set position = position + 1000000 where position > 3")
    parts: list[str] = []
    for kind in (SqliteStore, PostgresStore):
        monkeypatch.setattr(kind, "_ask", counting(parts, kind._ask))
    found = await opened.app.audit.list(type="queued")
    assert [event.type for event in found] == ["queued"] * 2
    return parts.count("find_events")


def counting(asked, ask):
    async def counted(self, name, *given):
        asked.append(name)
        return await ask(self, name, *given)

    return counted


async def test_positions_that_no_event_has_any_more_are_stepped_over(opened, database, monkeypatch):
    assert await parts_looked_through(opened, database, monkeypatch) < 5


async def test_the_broken_twin_that_goes_on_below_looks_through_all_of_them(opened, database, monkeypatch):
    below = trail.TrailReads._top_below

    async def next_below(self, position):
        return await below(self, position) if position in (HIGHEST, 1) else position

    monkeypatch.setattr(trail, "LOWEST", 0)
    monkeypatch.setattr(trail.TrailReads, "_top_below", next_below)
    assert await parts_looked_through(opened, database, monkeypatch) >= 1_000_000 // trail.LOOKED_THROUGH


async def parts_looked_through_since(opened, monkeypatch, since) -> int:
    """How many small parts of a trail are looked through for events of its first run since a moment."""
    monkeypatch.setattr(trail, "LOOKED_THROUGH", 3)
    parts: list[str] = []
    for kind in (SqliteStore, PostgresStore):
        monkeypatch.setattr(kind, "_ask", counting(parts, kind._ask))
    await opened.app.audit.list(type="queued", since=since)
    return parts.count("find_events")


async def test_a_look_for_what_was_written_lately_ends_where_all_is_older(opened, monkeypatch):
    (newest, *_) = await opened.app.audit.list(limit=1)
    lately = datetime.fromtimestamp(newest.at / 1_000, UTC) + timedelta(hours=1)
    assert await parts_looked_through_since(opened, monkeypatch, lately) == 1


async def test_one_event_that_claims_to_be_old_hides_none_behind_it(opened, database, monkeypatch):
    events = await opened.app.audit.list()
    await tamper(database, f"update stepfast.event set at = 0 where position = {events[0].position}")
    monkeypatch.setattr(trail, "LOOKED_THROUGH", 3)
    since = datetime.fromtimestamp(events[-1].at / 1_000, UTC)
    assert await opened.app.audit.list(since=since, type="queued") == [each for each in events if each.type == "queued"]


async def test_an_event_that_somebody_put_in_front_of_all_others_ends_a_list_too(opened, database):
    await tamper(database, "update stepfast.event set position = -5 where position = 1")
    assert await opened.app.audit.list(actor="nobody") == []
    assert (await opened.app.audit.list())[-1].position == -5


async def test_events_at_the_very_ends_keep_no_other_from_being_listed(opened, database):
    await tamper(database, f"update stepfast.event set position = {1 - 2**63} - 1 where position = 1")
    await tamper(database, f"update stepfast.event set position = {2**63 - 1} where position = 2")
    assert min(event.position for event in await opened.app.audit.list(tenant="default")) == 3
