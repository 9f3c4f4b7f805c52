"""Sinks that are slow, away for long, break off or cannot say what they want: nothing is lost, and no run overtaken."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from stepfast.engine import offering, publishing
from stepfast.engine.publishing import Publisher
from stepfast.kernel.errors import StoreUnavailable
from stepfast.kernel.sinks import Backoff
from stepfast.kernel.views import EventView
from tests.publishing.harness import BACKOFF, NOBODY_THERE, Place, published, publisher, wanted
from tests.support.workflows import say


async def letters(opened) -> list[tuple[str, int]]:
    found = await opened.app.parts.store.sink_letters("place", True, 0, 100)
    return [(each.letter.run_id, each.letter.seq) for each in found]


async def said(opened, *words: str) -> list[Any]:
    runs = [await opened.start(say, each) for each in words]
    await opened.run_until_idle()
    return runs


async def test_a_sink_that_is_away_for_long_makes_no_dead_letters_while_several_runs_wait(opened, place):
    runs = await said(opened, "one", "two")
    place.troubles["deliver"] = NOBODY_THERE
    work = publisher(opened, place)
    await published(opened, work)
    assert await letters(opened) == []
    place.troubles.clear()
    await published(opened, work)
    assert [place.of(run) for run in runs] == [await wanted(opened, run) for run in runs]


async def test_a_sink_that_cannot_be_opened_makes_no_dead_letters(opened, place, monkeypatch):
    async def refuse():
        raise PermissionError("not you")

    await said(opened, "one")
    monkeypatch.setattr(place, "open", refuse)
    await published(opened, publisher(opened, place))
    assert await letters(opened) == []


async def test_more_bitter_runs_than_are_tried_at_first_hold_no_other_back_for_ever(opened, place):
    runs = await said(opened, *map(str, range(offering.PROBES + 2)))
    bitter, sweet = runs[:-1], runs[-1]
    place.poison = {(run.id, 1) for run in bitter}
    await published(opened, publisher(opened, place))
    assert place.of(sweet) == await wanted(opened, sweet)
    assert sorted(await letters(opened)) == sorted((run.id, 1) for run in bitter)


class Slow(Place):
    """Each delivery takes half a minute, in which another publisher looks whether it may."""

    def __init__(self, clock) -> None:
        super().__init__()
        self._clock = clock
        self.other: Publisher | None = None

    async def deliver(self, events: Sequence[EventView]) -> None:
        if len(events) > 1:
            raise TimeoutError
        await self._another_looks()
        await super().deliver(events)

    async def _another_looks(self) -> None:
        self._clock.advance("30s")
        other, self.other = self.other, None
        if other is not None:
            await other.make_pass()
            self.other = other


async def slowly(opened) -> Slow:
    slow = Slow(opened.clock)
    await said(opened, "one", "two")
    slow.other = publisher(opened, slow, "second")
    await publisher(opened, slow).make_pass()
    return slow


async def test_a_publisher_of_a_slow_sink_keeps_its_lease_while_it_delivers(opened):
    slow = await slowly(opened)
    assert len({(event.run_id, event.seq) for event in slow.got}) == len(slow.got) > 4
    (view,) = await opened.app.sinks.list()
    assert view.publisher == "first"


async def test_the_broken_twin_that_renews_no_lease_delivers_twice(opened, monkeypatch):
    monkeypatch.setattr(publishing, "RENEW_MS", 10**12)
    slow = await slowly(opened)
    assert len({(event.run_id, event.seq) for event in slow.got}) < len(slow.got)


class SlowToOpen(Slow):
    """Takes nothing, and after that it takes half a minute to say that it cannot be opened."""

    is_open = True

    async def open(self) -> None:
        if not self.is_open:
            await self._another_looks()
            raise ConnectionError("nobody there")

    async def deliver(self, events: Sequence[EventView]) -> None:
        self.is_open = False
        raise ConnectionError("nobody there")


async def publishes_to_one_slow_to_open(opened) -> str | None:
    slow = SlowToOpen(opened.clock)
    await said(opened, "one", "two", "three")
    slow.other = publisher(opened, slow, "second")
    await publisher(opened, slow).make_pass()
    (view,) = await opened.app.sinks.list()
    name: str | None = view.publisher
    return name


async def test_a_publisher_of_a_sink_that_is_slow_to_open_keeps_its_lease(opened):
    assert await publishes_to_one_slow_to_open(opened) == "first"


async def test_the_broken_twin_that_opens_without_a_look_at_its_lease_loses_it(opened, monkeypatch):
    async def opens(self):
        return await offering._failing_of(self._sink.open)

    monkeypatch.setattr(offering.Offering, "_open_anew", opens)
    assert await publishes_to_one_slow_to_open(opened) == "second"


async def test_a_sink_that_was_lost_on_the_way_gets_nothing_more_from_its_publisher(opened, place, monkeypatch):
    runs = await said(opened, "one", "two", "three")
    work = publisher(opened, place)
    place.poison = {(run.id, 1) for run in runs[:2]}
    await work.make_pass()
    opened.clock.advance("2m")
    await work.make_pass()
    place.poison.clear()
    opened.clock.advance("4s")
    place.got.clear()

    async def take(*args):
        return False

    monkeypatch.setattr(opened.app.parts.store, "advance_sink", take)
    await work.make_pass()
    assert len({event.run_id for event in place.got}) == 1


async def test_a_step_that_was_stored_without_an_answer_is_known_all_the_same(opened, place, monkeypatch):
    bitter, sweet = await said(opened, "bitter", "sweet")
    place.poison.add((bitter.id, 3))
    work, advance = publisher(opened, place), opened.app.parts.store.advance_sink

    async def stored_and_silent(*args):
        await advance(*args)
        raise StoreUnavailable("gone")

    monkeypatch.setattr(opened.app.parts.store, "advance_sink", stored_and_silent)
    with pytest.raises(StoreUnavailable):
        await work.make_pass()
    monkeypatch.setattr(opened.app.parts.store, "advance_sink", advance)
    place.poison.clear()
    await published(opened, work)
    (view,) = await opened.app.sinks.list()
    assert (view.held, place.of(bitter)) == (0, await wanted(opened, bitter))
    assert place.of(sweet) == await wanted(opened, sweet)


class Small(Place):
    """Takes two events at once, and acts on them before it complains of more."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        await super().deliver(events[:2])
        if len(events) > 2:
            raise TimeoutError


async def test_a_sink_for_which_a_page_is_too_much_is_offered_less(opened):
    small = Small()
    await said(opened, *map(str, range(20)))
    work = Publisher(opened.app.parts.store, opened.clock, small, "first", BACKOFF, from_start=True, page=8)
    sizes = []
    while await work.make_pass():
        sizes.append(work._amount)
    assert min(sizes) <= 2


async def test_a_filter_that_fails_holds_back_the_run_of_its_event_alone(opened, place, monkeypatch):
    bitter, sweet = await said(opened, "bitter", "sweet")

    def wants(event: EventView) -> bool:
        if (event.run_id, event.seq) == (bitter.id, 3):
            raise KeyError("colour")
        return event.type != "claimed"

    monkeypatch.setattr(place, "wants", wants)
    await published(opened, publisher(opened, place))
    assert place.of(sweet) == await wanted(opened, sweet)
    assert await letters(opened) == [(bitter.id, 3)]
    assert place.of(bitter) == [seq for seq in await wanted(opened, bitter) if seq != 3]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), ValueError("at once")])
async def test_a_sink_that_breaks_off_by_itself_is_away_and_not_the_end_of_publishing(opened, place, error):
    def breaks_off(events: Sequence[EventView]):
        raise error

    place.deliver = breaks_off
    await said(opened, "one", "two")
    assert await publisher(opened, place).make_pass() == 0
    (view,) = await opened.app.sinks.list()
    assert type(error).__name__ in str(view.error)


async def test_a_sink_that_hangs_over_its_end_is_left_all_the_same(opened, place, monkeypatch):
    async def hang():
        await asyncio.Event().wait()

    monkeypatch.setattr(offering, "DELIVERY_S", 0.01)
    monkeypatch.setattr(place, "close", hang)
    work = publisher(opened, place)
    await work.make_pass()
    await work.close()
    (view,) = await opened.app.sinks.list()
    assert view.publisher is None


async def test_a_clock_that_was_set_back_keeps_no_sink_waiting(opened, place, monkeypatch):
    (run,) = await said(opened, "one")
    place.troubles["deliver"] = NOBODY_THERE
    work = publisher(opened, place)
    await work.make_pass()
    place.troubles.clear()
    now = opened.clock.now()
    monkeypatch.setattr(opened.clock, "now", lambda: now - 3_600_000)
    await work.make_pass()
    assert place.of(run) == await wanted(opened, run)


def test_a_pause_is_never_longer_than_the_cap():
    backoff = Backoff()
    assert max(backoff.pause_ms(tries) for tries in range(1, 100)) == backoff.cap_ms
