"""Sinks that take only so much in a time, or complain of what no store can hold: all that can arrive does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from stepfast.engine import offering, publishing
from stepfast.engine.offering import Offering, told
from stepfast.engine.publishing import Publisher
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import SinkAway
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import Backoff, HeldBack, Refusal, after_outage, wait_out
from stepfast.kernel.views import EventView
from tests.publishing.harness import BACKOFF, NOBODY_THERE, Place, published, publisher, wanted
from tests.support.workflows import say

RUN = RunId("01977420-dc00-7000-8000-000000000001")


def event(seq: int) -> EventView:
    return EventView(seq, seq, RUN, "acme", 1, "progress", Instant(0), None, None, 1, None, None)


class Limited(Place):
    """Takes one event after the other, so many until it is asked again later, and says then that it is away."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = self.left = most

    async def deliver(self, events: Sequence[EventView]) -> None:
        for each in events:
            if not self.left:
                raise SinkAway("too many requests")
            self.left -= 1
            self.got.append(each)


async def said(opened, count: int) -> list[Any]:
    runs = [await opened.start(say, str(number)) for number in range(count)]
    await opened.run_until_idle()
    return runs


async def missing_at(opened, limited: Limited, is_away_first: bool = False) -> list[int]:
    """What has not arrived at a sink with a limit after a while."""
    runs = await said(opened, 6)
    work = Publisher(opened.app.parts.store, opened.clock, limited, "first", BACKOFF, from_start=True, page=16)
    for number in range(80):
        limited.left = 0 if is_away_first and number < 4 * BACKOFF.tries else limited.most
        await work.make_pass()
        opened.clock.advance("10m")
    return sorted({seq for run in runs for seq in await wanted(opened, run) if seq not in limited.of(run)})


@pytest.mark.parametrize("is_away_first", [False, True])
@pytest.mark.parametrize("most", [1, 5])
async def test_a_sink_that_takes_less_than_a_page_in_a_time_gets_all_of_it(opened, most, is_away_first):
    assert await missing_at(opened, Limited(most), is_away_first) == []


async def test_the_broken_twin_that_offers_as_much_again_never_gets_on(opened, monkeypatch):
    monkeypatch.setattr(Publisher, "_adapt", lambda self, offered: None)
    assert await missing_at(opened, Limited(5)) != []


async def letters_after_an_outage(opened, place) -> int:
    """Dead letters of a sink that fails for long, without saying that it is away, while two runs wait."""
    await said(opened, 2)
    place.troubles["deliver"] = NOBODY_THERE
    work = Publisher(opened.app.parts.store, opened.clock, place, "first", BACKOFF, from_start=True, page=8)
    await published(opened, work)
    return len(await opened.app.sinks.letters("place"))


async def test_a_small_part_of_what_waits_does_not_prove_that_an_event_is_to_blame(opened, place):
    assert await letters_after_an_outage(opened, place) == 0


async def test_the_broken_twin_that_judges_by_such_a_part_gives_events_up(opened, place, monkeypatch):
    def blame(taken, refused, now, backoff, may_be_poison):
        return after_outage(taken, refused, now, backoff, True)

    monkeypatch.setattr(publishing, "after_outage", blame)
    assert await letters_after_an_outage(opened, place) > 0


def test_what_was_tried_of_one_event_does_not_count_for_the_next():
    held = HeldBack(RUN, 3, BACKOFF.tries - 1, Instant(0), "too bitter")
    after = wait_out(held, Refusal(event(5), "away"), Instant(0), BACKOFF)
    assert (after.seq, after.tries) == (5, 1)


def test_a_run_that_is_put_off_waits_longer_each_time():
    backoff, held = Backoff(), HeldBack(RUN, 3, 1, Instant(0), "too bitter")
    dues = [wait_out(held, Refusal(event(3), "away"), Instant(0), backoff, times).due_at for times in range(1, 20)]
    assert dues == sorted(dues)
    assert (dues[0], dues[3], dues[-1]) == (backoff.base_ms, 8 * backoff.base_ms, backoff.cap_ms)


async def asked_in_a_minute_away(opened, place: Place, work) -> int:
    """How often a sink is asked to take something in a minute for which it is away."""
    place.troubles["deliver"] = SinkAway("it is full")
    place.deliveries = 0
    for _ in range(60):
        opened.clock.advance("1s")
        await work.make_pass()
    return place.deliveries


async def test_a_sink_that_is_away_is_not_asked_every_second_for_the_runs_that_wait(opened, place):
    runs = await said(opened, 2)
    place.poison.add((runs[0].id, 3))
    work = publisher(opened, place)
    await work.make_pass()
    assert 3 <= await asked_in_a_minute_away(opened, place, work) <= 7


async def left_to_come(opened, place, monkeypatch) -> list[int]:
    """What is missing of a run that waited, at a sink that takes one event of it each second."""
    slow, _ = await said(opened, 2)
    place.poison.add((slow.id, 1))
    work = publisher(opened, place)
    await work.make_pass()
    place.poison.clear()
    limited = Limited(1)
    monkeypatch.setattr(place, "deliver", limited.deliver)
    for _ in await wanted(opened, slow):
        opened.clock.advance("1s")
        limited.left = 1
        await work.make_pass()
    return [seq for seq in await wanted(opened, slow) if seq not in limited.of(slow)]


async def test_a_run_that_comes_on_bit_by_bit_waits_no_longer_each_time(opened, place, monkeypatch):
    assert await left_to_come(opened, place, monkeypatch) == []


async def test_the_broken_twin_that_counts_on_makes_it_wait_ever_longer(opened, place, monkeypatch):
    class Unforgetting(Counter[RunId]):
        def pop(self, *_: object) -> int:
            return 0

    monkeypatch.setattr(publishing, "Counter", Unforgetting)
    assert await left_to_come(opened, place, monkeypatch) != []


async def test_more_runs_that_wait_than_are_kept_in_mind_wait_longer_each_time_too(opened, place, monkeypatch):
    monkeypatch.setattr(publishing, "MAX_HELD", 1)
    runs = await said(opened, 3)
    place.poison = {(run.id, 3) for run in runs[:2]}
    before, work = publisher(opened, place), publisher(opened, place, "second")
    await before.make_pass()
    await before.close()
    assert 6 <= await asked_in_a_minute_away(opened, place, work) <= 14


@pytest.mark.parametrize("error", [ValueError("\0" * 9_999), ValueError("\ud800" * 9_999)], ids=["nul", "surrogate"])
def test_an_error_is_not_kept_longer_for_what_it_is_made_of(error):
    assert len(told(error)) == offering.MAX_ERROR


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "error", [ValueError("a\0b"), ValueError("\ud800"), Unspeakable()], ids=["nul", "surrogate", "unspeakable"]
)
async def test_an_error_that_no_store_can_hold_does_not_keep_a_sink_for_ever(opened, place, monkeypatch, error):
    bitter, sweet = await said(opened, 2)
    deliver = place.deliver

    async def choose(events: Sequence[EventView]) -> None:
        if any((each.run_id, each.seq) == (bitter.id, 3) for each in events):
            raise error
        await deliver(events)

    monkeypatch.setattr(place, "deliver", choose)
    await published(opened, publisher(opened, place))
    assert place.of(sweet) == await wanted(opened, sweet)
    (letter,) = await opened.app.sinks.letters("place")
    assert (letter.letter.seq, letter.letter.error.startswith("E-SINK-001 ")) == (3, True)


class Careful(Place):
    """Must be opened again after each delivery that failed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False

    async def open(self) -> None:
        self.is_open = True

    async def deliver(self, events: Sequence[EventView]) -> None:
        if not self.is_open:
            raise ConnectionError("open it first")
        try:
            await super().deliver(events)
        except ValueError:
            self.is_open = False
            raise


async def test_a_sink_is_opened_again_before_other_runs_are_tried_side_by_side(opened):
    careful = Careful()
    runs = await said(opened, 6)
    careful.poison = {(runs[2].id, 1)}
    await publisher(opened, careful).make_pass()
    others = [run for run in runs if run is not runs[2]]
    assert [careful.of(run) for run in others] == [await wanted(opened, run) for run in others]


class Gone(Place):
    """Takes one event at a time, until it is gone for good: then it takes long to say that it cannot be opened."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most, self.opened = most, 0
        self.asked, self.hangs = asyncio.Event(), asyncio.Event()

    async def open(self) -> None:
        if len(self.got) < self.most:
            return
        self.opened += 1
        self.asked.set()
        await self.hangs.wait()
        raise ConnectionError("nobody there")

    async def deliver(self, events: Sequence[EventView]) -> None:
        if len(events) > 1 or len(self.got) >= self.most:
            raise ConnectionError("nobody there")
        await super().deliver(events)


async def times_opened(gone: Gone) -> int:
    """How often a sink is opened in vain that goes away while events of many runs are delivered side by side."""
    runs = [event(1)._replace(run_id=RunId(f"{RUN[:-3]}{number:03}")) for number in range(100, 140)]
    offered = asyncio.ensure_future(Offering(gone).offer(runs))
    async with asyncio.timeout(60):
        await gone.asked.wait()
        gone.hangs.set()
        assert len((await offered).refused) == len(runs) - gone.most
    return gone.opened


async def test_those_who_wait_for_a_sink_to_be_opened_go_by_one_answer():
    assert await times_opened(Gone(most=offering.PROBES)) < 3


async def test_the_broken_twin_in_which_each_opens_it_asks_once_for_every_run(monkeypatch):
    async def own(self: Offering) -> object:
        return None if self._is_open else await self._open_anew()

    monkeypatch.setattr(Offering, "_opened", own)
    assert await times_opened(Gone(most=offering.PROBES)) >= offering.AT_ONCE


async def test_a_dead_letter_that_is_asked_for_while_the_sink_is_away_is_delivered_when_it_is_back(
    opened, place, monkeypatch
):
    bitter, _ = await said(opened, 2)
    place.poison.add((bitter.id, 3))
    work = publisher(opened, place)
    await published(opened, work)
    place.poison.clear()
    await opened.app.sinks.replay("place")

    async def refuse(*_: object) -> None:
        raise SinkAway("it is full")

    with monkeypatch.context() as patched:
        patched.setattr(place, "deliver", refuse)
        for _ in range(10):
            opened.clock.advance("6s")
            await work.make_pass()
    (letter,) = await opened.app.sinks.letters("place")
    assert (letter.letter.tries, letter.replay_at is not None) == (BACKOFF.tries, True)
    await published(opened, work)
    assert sorted(place.of(bitter)) == await wanted(opened, bitter)
