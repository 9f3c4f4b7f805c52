"""P16 and L4 on real brokers: whatever happens to a broker or a publisher, every event arrives, in order."""

from __future__ import annotations

import asyncio
import json
import signal
import sys

import pytest

from stepfast import emit, workflow
from stepfast.engine.publishing import Publisher
from stepfast.kernel.sinks import Backoff
from stepfast.testing import engine
from tests.publishing.brokers.servers import SMALL
from tests.support.workflows import say

BACKOFF = Backoff(tries=3)


@workflow
async def complain() -> None:
    await emit("complaint", "x" * SMALL)


@pytest.fixture
async def opened(database):
    async with engine(database=database, workflows=[say, complain]) as opened:
        yield opened


def publisher(opened, sink) -> Publisher:
    return Publisher(opened.app.parts.store, opened.clock, sink, "first", BACKOFF, from_start=True)


async def published(opened, work: Publisher, rounds: int = 30) -> None:
    """Publish until nothing more goes, moving the clock over what is put off."""
    for _ in range(rounds):
        while await work.make_pass():
            pass
        opened.clock.advance("1m")


async def started(opened, count: int):
    runs = [await opened.start(say, str(number)) for number in range(count)]
    await opened.run_until_idle()
    return runs


async def written(opened, runs) -> list[list[int]]:
    return [[event.seq for event in await opened.events(run)] for run in runs]


async def first_arrivals(broker, runs) -> list[list[int]]:
    """Of each run, the numbers of its events in the order in which they came for the first time."""
    arrived = await broker.arrived()
    return [list(dict.fromkeys(int(each["sequence"]) for each in arrived if each["subject"] == run.id)) for run in runs]


async def test_what_happens_while_a_broker_is_away_arrives_when_it_is_back(opened, broker):
    sink = broker.sink(timeout="1s", connect_timeout="1s")
    work = publisher(opened, sink)
    runs = await started(opened, 3)
    await published(opened, work, 5)
    assert (await opened.app.sinks.get("place")).behind == 0
    await asyncio.to_thread(broker.stop)
    runs += await started(opened, 3)
    assert await work.make_pass() == 0
    assert (await opened.app.sinks.get("place")).tries == 1, "It is tried again later, and not at once."
    await asyncio.to_thread(broker.start)
    opened.clock.advance("1m")
    await published(opened, work, 5)
    await work.close()
    assert await first_arrivals(broker, runs) == await written(opened, runs)
    assert await opened.app.sinks.letters("place") == []


async def test_an_event_that_a_broker_does_not_take_is_a_dead_letter_and_arrives_when_it_is_replayed(opened, broker):
    sink = await asyncio.to_thread(broker.picky_sink)
    work = publisher(opened, sink)
    bitter = await opened.start(complain, tenant="bitter")
    sweet = await started(opened, 3)
    await published(opened, work)
    letters = await opened.app.sinks.letters("place")
    (written_of_bitter,) = await written(opened, [bitter])
    assert await first_arrivals(broker, sweet) == await written(opened, sweet)
    (arrived,) = await first_arrivals(broker, [bitter])
    assert letters, "Something of it was not taken."
    assert sorted(arrived + [view.letter.seq for view in letters]) == written_of_bitter
    await work.close()
    work = publisher(opened, await asyncio.to_thread(broker.grow_easy, sink))
    assert await opened.app.sinks.replay("place") == len(letters)
    await published(opened, work, 5)
    await work.close()
    (arrived,) = await first_arrivals(broker, [bitter])
    assert sorted(arrived) == written_of_bitter
    assert await opened.app.sinks.letters("place") == []


async def publish_and_die(database: str, broker, when: str, **options) -> None:
    given = {"database": database, "spec": broker.spec(), "die": when, **options}
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.publishing.brokers.publisher_victim", json.dumps(given)
    )
    try:
        assert await victim.wait() == (0 if when == "never" else -signal.SIGKILL)
    finally:
        if victim.returncode is None:
            victim.kill()


async def arrivals_after(database: str, opened, broker, deaths: list[str], **options):
    """What arrives when one publisher after the other is killed, and the next goes on."""
    runs = await started(opened, 15)
    for when in deaths:
        await publish_and_die(database, broker, when, **options)
    await publish_and_die(database, broker, "never")
    return runs, await first_arrivals(broker, runs)


@pytest.mark.timeout(120)
async def test_a_publisher_that_is_killed_loses_nothing_and_mixes_nothing_up(database, opened, broker):
    runs, arrived = await arrivals_after(database, opened, broker, ["before", "halfway", "delivered"])
    assert arrived == await written(opened, runs)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_the_broken_twin_that_records_before_the_broker_has_answered_loses_events(database, opened, broker):
    runs, arrived = await arrivals_after(database, opened, broker, ["halfway"], broken=True)
    assert arrived != await written(opened, runs)
