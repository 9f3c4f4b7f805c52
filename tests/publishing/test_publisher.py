"""One sink and its publisher: every event arrives, those of a run in order, whatever the sink does."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from stepfast.engine import publishing
from stepfast.engine.publishing import LEASE_MS, Publisher
from stepfast.kernel.errors import SinkAway, StoreUnavailable
from stepfast.kernel.sinks import SinkStep, hold_on
from stepfast.worker.publishing import PublishLoop
from tests.publishing.harness import BACKOFF, NOBODY_THERE, published, publisher, wanted
from tests.support.workflows import say


async def test_every_event_arrives_in_the_order_of_the_trail(opened, place):
    runs = [await opened.start(say, words) for words in ("one", "two", "three")]
    await opened.run_until_idle()
    await published(opened, publisher(opened, place))
    assert [place.of(run) for run in runs] == [await wanted(opened, run) for run in runs]
    positions = [event.position for event in place.got]
    assert positions == sorted(positions)


async def test_what_was_delivered_does_not_come_again(opened, place):
    await opened.run(say, "once")
    await published(opened, publisher(opened, place))
    before = len(place.got)
    await published(opened, publisher(opened, place))
    assert len(place.got) == before


async def test_what_was_delivered_just_before_a_worker_stops_does_not_come_again(opened, place, monkeypatch):
    await opened.run(say, "once")
    store, is_delivered, may_go_on = opened.app.parts.store, asyncio.Event(), asyncio.Event()
    advance = store.advance_sink

    async def advance_slowly(*given):
        is_delivered.set()
        await may_go_on.wait()
        return await advance(*given)

    work = loop(opened, place)
    with monkeypatch.context() as patched:
        patched.setattr(store, "advance_sink", advance_slowly)
        work.start()
        await is_delivered.wait()
        stopping = asyncio.create_task(work.stop())
        may_go_on.set()
        await stopping
    before = len(place.got)
    await published(opened, publisher(opened, place, "second"))
    assert (before > 0, len(place.got)) == (True, before)


async def test_an_event_that_the_sink_does_not_take_holds_back_its_own_run_alone(opened, place):
    bitter, sweet = await opened.start(say, "bitter"), await opened.start(say, "sweet")
    await opened.run_until_idle()
    place.poison.add((bitter.id, 3))
    work = publisher(opened, place)
    await work.make_pass()
    assert place.of(sweet) == await wanted(opened, sweet)
    assert max(place.of(bitter)) < 3
    place.poison.clear()
    await published(opened, work)
    assert place.of(bitter) == await wanted(opened, bitter)


async def test_an_event_that_is_never_taken_becomes_a_dead_letter_and_its_run_goes_on(opened, place):
    bitter, sweet = await opened.start(say, "bitter"), await opened.start(say, "sweet")
    await opened.run_until_idle()
    place.poison.add((bitter.id, 3))
    await published(opened, publisher(opened, place))
    (letter,) = await opened.app.parts.store.sink_letters("place", True, 0, 10)
    assert (letter.letter.run_id, letter.letter.seq, letter.letter.tries) == (bitter.id, 3, BACKOFF.tries)
    assert place.of(bitter) == [seq for seq in await wanted(opened, bitter) if seq != 3]
    assert place.of(sweet) == await wanted(opened, sweet)


def loop(opened, place) -> PublishLoop:
    return PublishLoop(publisher(opened, place), place.name, opened.clock)


def lines(caplog) -> list[str]:
    return [record.getMessage().split()[0] for record in caplog.records if record.name == "stepfast.publishing"]


async def test_the_log_tells_of_each_time_a_sink_is_found_away(opened, place, caplog):
    for words in ("one", "two"):
        await opened.run(say, words)
    place.troubles["deliver"] = NOBODY_THERE
    work = loop(opened, place)
    await work.make_pass()
    await work.make_pass()  # its time has not come
    assert lines(caplog) == ["sink_away"]
    assert "nobody there" in caplog.text


async def test_the_log_tells_of_an_event_that_is_not_taken_until_it_is_a_dead_letter(opened, place, caplog):
    bitter, _ = await opened.start(say, "bitter"), await opened.start(say, "sweet")
    await opened.run_until_idle()
    place.poison.add((bitter.id, 3))
    work = loop(opened, place)
    for _ in range(8):
        await work.make_pass()
        opened.clock.advance("1m")
    assert lines(caplog) == [*["events_not_taken"] * (BACKOFF.tries - 1), "sink_letter_recorded"]
    assert bitter.id in caplog.text


async def test_the_log_tells_of_a_dead_letter_of_a_pass_that_failed_behind_it(opened, place, caplog, monkeypatch):
    bitter, _ = await opened.start(say, "bitter"), await opened.start(say, "sweet")
    await opened.run_until_idle()
    place.poison.add((bitter.id, 3))
    work = loop(opened, place)

    async def away(*_: object) -> int:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(Publisher, "_replay", away)
    for _ in range(BACKOFF.tries):
        await work.make_pass()
        opened.clock.advance("1m")
    assert lines(caplog).count("sink_letter_recorded") == 1


async def test_a_sink_that_takes_everything_is_no_line_in_the_log(opened, place, caplog):
    await opened.run(say, "sweet")
    await loop(opened, place).make_pass()
    assert (lines(caplog), place.got != []) == ([], True)


async def test_a_sink_that_is_away_loses_nothing_and_makes_no_dead_letters(opened, place):
    runs = [await opened.start(say, words) for words in ("one", "two", "three", "four")]
    await opened.run_until_idle()
    place.troubles["deliver"] = NOBODY_THERE
    work = publisher(opened, place)
    for _ in range(BACKOFF.tries - 1):
        assert await work.make_pass() == 0
        opened.clock.advance("10m")
    place.troubles.clear()
    await published(opened, work)
    assert [place.of(run) for run in runs] == [await wanted(opened, run) for run in runs]
    assert await opened.app.parts.store.sink_letters("place", True, 0, 10) == []


async def test_a_sink_that_is_away_is_asked_more_and_more_seldom(opened, place):
    await opened.run(say, "lost")
    place.troubles["deliver"] = NOBODY_THERE
    work = publisher(opened, place)
    await work.make_pass()
    place.troubles.clear()
    assert await work.make_pass() == 0, "It is not asked before its pause is over."
    opened.clock.advance("1s")
    assert await work.make_pass() > 0


async def test_a_lone_event_that_is_never_taken_becomes_a_dead_letter_too(opened, place):
    bitter = await opened.start(say, "bitter")
    await opened.run_until_idle()
    place.poison.add((bitter.id, 1))
    await published(opened, publisher(opened, place))
    assert place.of(bitter) == [seq for seq in await wanted(opened, bitter) if seq != 1]


async def test_a_dead_letter_is_delivered_when_somebody_asks_for_it(opened, place):
    bitter = await opened.start(say, "bitter")
    await opened.run_until_idle()
    place.poison.add((bitter.id, 1))
    work = publisher(opened, place)
    await published(opened, work)
    place.poison.clear()
    store = opened.app.parts.store
    assert await store.replay_letters("place", None, 10) == 1
    await published(opened, work)
    assert sorted(place.of(bitter)) == await wanted(opened, bitter)
    assert await store.sink_letters("place", True, 0, 10) == []


async def test_one_publisher_at_a_time_has_a_sink(opened, place):
    await opened.run(say, "one")
    first, second = publisher(opened, place, "first"), publisher(opened, place, "second")
    assert await first.make_pass() > 0
    assert await second.make_pass() == 0
    await opened.run(say, "two")
    assert await second.make_pass() == 0
    opened.clock.advance((LEASE_MS + 1) / 1_000)
    assert await second.make_pass() > 0


async def test_a_publisher_that_has_lost_its_sink_moves_nothing(opened, place):
    await opened.run(say, "one")
    second = publisher(opened, place, "second")
    store = opened.app.parts.store
    taken = await store.take_sink("place", "first", LEASE_MS, True)
    opened.clock.advance((LEASE_MS + 1) / 1_000)
    await published(opened, second)
    (view,) = await store.sinks()
    assert not await store.advance_sink(taken, SinkStep(1), LEASE_MS)
    assert (await store.sinks())[0].cursor == view.cursor


async def test_a_publisher_that_leaves_is_followed_at_once(opened, place):
    await opened.run(say, "one")
    first, second = publisher(opened, place, "first"), publisher(opened, place, "second")
    await first.make_pass()
    await opened.run(say, "two")
    await first.close()
    assert await second.make_pass() > 0


async def test_what_was_delivered_and_not_recorded_comes_once_more(opened, place, monkeypatch):
    run = await opened.start(say, "twice")
    await opened.run_until_idle()
    work = publisher(opened, place)
    with monkeypatch.context() as patched:
        patched.setattr(Publisher, "_save", dies)
        with pytest.raises(KeyboardInterrupt):
            await work.make_pass()
    await published(opened, publisher(opened, place))
    assert place.of(run) == (await wanted(opened, run)) * 2


@pytest.fixture
def asked(opened, monkeypatch):
    """How often the store was asked for what, about sinks and the trail."""
    counts: Counter[str] = Counter()
    store = opened.app.parts.store
    for name in ("take_sink", "held_back", "trail", "due_letters", "advance_sink"):
        monkeypatch.setattr(store, name, counting(counts, name, getattr(store, name)))
    return counts


def counting(counts, name, call):
    async def counted(*given):
        counts[name] += 1
        return await call(*given)

    return counted


async def test_a_publisher_with_nothing_to_do_sends_one_statement_a_pass(opened, place, asked):
    work = publisher(opened, place)
    await work.make_pass()
    asked.clear()
    for _ in range(4):
        opened.clock.advance("1s")
        await work.make_pass()
    assert asked == {"trail": 4}


async def test_a_publisher_that_does_not_have_the_sink_asks_for_it_now_and_then(opened, place, asked):
    first, second = publisher(opened, place), publisher(opened, place, "second")
    await first.make_pass()
    await second.make_pass()
    asked.clear()
    for _ in range(4):
        opened.clock.advance("1s")
        await second.make_pass()
    assert not asked
    opened.clock.advance("1s")
    await second.make_pass()
    assert asked == {"take_sink": 1}


async def test_an_idle_publisher_keeps_its_sink(opened, place):
    first, second = publisher(opened, place), publisher(opened, place, "second")
    for _ in range(30):
        await first.make_pass()
        await second.make_pass()
        opened.clock.advance("6s")
    (view,) = await opened.app.sinks.list()
    assert view.publisher == "first"


async def test_a_publisher_that_slept_over_its_lease_asks_before_it_goes_on(opened, place):
    first, second = publisher(opened, place), publisher(opened, place, "second")
    await first.make_pass()
    opened.clock.advance("2m")
    await second.make_pass()
    run = await opened.start(say, "words")
    await opened.run_until_idle()
    assert await first.make_pass() == 0
    assert place.of(run) == []


async def test_a_pass_gives_no_more_events_than_it_may(opened, place):
    await opened.start(say, "words")
    await opened.run_until_idle()
    work = Publisher(opened.app.parts.store, opened.clock, place, "first", BACKOFF, from_start=True, page=2)
    assert await work.make_pass() <= 2
    assert work.has_more


async def test_a_sink_is_opened_before_the_first_delivery_and_again_after_one_that_failed(opened, place, monkeypatch):
    told: list[str] = []

    async def note_open():
        told.append("open")

    monkeypatch.setattr(place, "open", note_open)
    await opened.start(say, "one")
    await opened.run_until_idle()
    work = publisher(opened, place)
    await published(opened, work)
    assert told == ["open"]
    place.troubles["deliver"] = NOBODY_THERE
    await opened.start(say, "two")
    await opened.run_until_idle()
    await work.make_pass()
    place.troubles.clear()
    told.clear()
    await published(opened, work)
    assert told == ["open"]


async def test_a_sink_that_cannot_be_opened_is_away(opened, place, monkeypatch):
    async def refuse():
        raise PermissionError("not you")

    monkeypatch.setattr(place, "open", refuse)
    await opened.start(say, "words")
    await opened.run_until_idle()
    assert await publisher(opened, place).make_pass() == 0
    (view,) = await opened.app.sinks.list()
    assert (view.error, view.letters, place.got) == ("E-SINK-001 PermissionError: not you", 0, [])


async def dies(self, taken, step):
    raise KeyboardInterrupt


class RecordsFirst(Publisher):
    """The broken twin: what is to be delivered is recorded before it was."""

    async def _go_on(self, taken):
        page = await self._store.trail(taken.cursor, 500)
        await self._save(taken, SinkStep(page.reached))
        await self._sink.deliver(page.events)
        return len(page.events), False


AWAY = pytest.mark.parametrize(
    ("call", "error"), [("open", ConnectionError("nobody there")), ("deliver", SinkAway("it is full"))]
)


async def held_while_away(opened, place, call, error) -> list[int]:
    """A run that was held back, and then the sink is away for long, and nothing new is written."""
    bitter, _ = await opened.start(say, "bitter"), await opened.start(say, "sweet")
    await opened.run_until_idle()
    place.poison.add((bitter.id, 3))
    work = publisher(opened, place)
    await work.make_pass()

    place.troubles[call] = error
    await published(opened, work)
    place.troubles.clear()
    place.poison.clear()
    await published(opened, work)
    missing = {*await wanted(opened, bitter)} - {*place.of(bitter)}
    return sorted(missing)


@AWAY
async def test_a_run_that_is_held_back_costs_no_tries_while_the_sink_is_away(opened, place, call, error):
    assert await held_while_away(opened, place, call, error) == []


@AWAY
async def test_the_broken_twin_that_counts_such_tries_gives_events_up(opened, place, monkeypatch, call, error):
    monkeypatch.setattr(publishing, "wait_out", lambda *given: hold_on(*given[:4]))
    assert 3 in await held_while_away(opened, place, call, error)


async def test_a_lone_event_is_not_to_blame_while_the_sink_says_that_it_is_away(opened, place):
    run = await opened.start(say, "alone")
    await opened.run_until_idle()
    work = publisher(opened, place)
    place.troubles["deliver"] = SinkAway("it is full")
    for _ in range(3 * BACKOFF.tries):
        await work.make_pass()
        opened.clock.advance("10m")
    place.troubles.clear()
    (view,) = await opened.app.sinks.list()
    assert (view.letters, view.error) == (0, "E-SINK-002 SinkAway: it is full")
    await published(opened, work)
    assert place.of(run) == await wanted(opened, run)


async def test_the_broken_twin_that_records_before_it_delivers_loses_events(opened, place):
    run = await opened.start(say, "lost")
    await opened.run_until_idle()
    place.troubles["deliver"] = NOBODY_THERE
    twin = RecordsFirst(opened.app.parts.store, opened.clock, place, "first", BACKOFF, from_start=True)
    with pytest.raises(ConnectionError):
        await twin.make_pass()
    place.troubles.clear()
    await published(opened, publisher(opened, place))
    assert place.of(run) == []
