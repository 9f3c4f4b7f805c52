"""Heartbeats that fail: each is sent, and a line in the log tells of many."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, cast

import pytest

from stepfast.engine.clock import SystemClock
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnavailable
from stepfast.kernel.exchange import Beat
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.ports import Store
from stepfast.log import QUIET_S, Failures
from stepfast.worker import heartbeat as heartbeat_module
from stepfast.worker.heartbeat import Heartbeat, pause_after_failure_s
from tests.support.apps import app_on
from tests.support.open_files import no_file_to_spare
from tests.support.workflows import say

MANY = 8
AWAY = StoreUnavailable("away")


def test_the_first_failure_is_told_at_once_and_those_behind_it_together():
    moments = [0.0, 0.1, QUIET_S - 0.1, QUIET_S, QUIET_S + 0.1, 3 * QUIET_S]
    failures = Failures(iter(moments).__next__)
    assert [failures.add(AWAY) for _ in moments] == [1, 0, 0, 3, 0, 2]


def test_lines_about_what_stays_away_become_seldom_and_never_stop():
    moments = [0.0]
    failures = Failures(lambda: moments[-1])
    told = []
    for second in range(3_600):
        moments.append(second)
        told += [second] if failures.add(AWAY) else []
    apart = [later - earlier for earlier, later in pairwise(told)]
    assert apart == [30, 60, 120, 240, 480, 600, 600, 600, 600]


def test_a_failure_for_another_reason_is_told_at_once():
    failures = Failures(lambda: 0.0)
    assert [failures.add(AWAY), failures.add(AWAY), failures.add(ValueError("other"))] == [1, 0, 1]


def test_a_failure_after_an_answer_is_a_first_one():
    failures = Failures(lambda: 0.0)
    assert (failures.add(AWAY), failures.add(AWAY)) == (1, 0)
    failures.end()
    assert (failures.add(AWAY), failures.add(AWAY)) == (1, 0)


@pytest.mark.parametrize(("apart_ms", "pause_s"), [(10, 0.05), (10_000, 1), (1_200_000, 2), (8_640_000_000, 2)])
def test_a_heartbeat_that_failed_is_followed_soon_by_the_next_however_far_apart_they_are(apart_ms, pause_s):
    assert pause_after_failure_s(apart_ms) == pause_s


class AwayAtFirst:
    """A store that does not answer the first heartbeat."""

    def __init__(self) -> None:
        self.asked = 0

    async def beat(self, worker_id: str) -> Beat:
        self.asked += 1
        if self.asked == 1:
            raise AWAY
        return Beat(Instant(0), True, [])


async def test_a_store_that_is_back_hears_two_heartbeats_soon_however_far_apart_they_are(monkeypatch):
    monkeypatch.setattr(heartbeat_module, "LONGEST_PAUSE_MS", 10)
    heard = asyncio.Semaphore(0)
    store = cast(Store, cast(Any, AwayAtFirst()))
    heartbeat = Heartbeat(store, WorkerId("w1"), 3_600_000, SystemClock(), lambda beat, number: heard.release())
    heartbeat.start()
    async with asyncio.timeout(30):
        await heard.acquire()
        await heard.acquire()
    await heartbeat.stop()


async def test_a_store_that_stays_away_is_one_line_for_a_while(database, caplog, monkeypatch):
    failed = threading.Semaphore(0)

    async def away(worker_id):
        failed.release()
        raise StoreUnavailable("away")

    async with app_on(database, [say]) as app:
        monkeypatch.setattr(app._open_parts().store, "beat", away)
        for _ in range(MANY):
            assert await asyncio.to_thread(failed.acquire, timeout=30)
        lines = [record.msg for record in caplog.records if record.name == "stepfast.heartbeat"]
    assert [line.fields["failures"] for line in lines] == [1]


# A loop that could not be made complains when it goes.
HALF_MADE = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Answering:
    """A store that answers heartbeats."""

    async def beat(self, worker_id: str) -> Beat:
        return Beat(Instant(0), True, [])


class Told(logging.Handler):
    """Hears the first line of a log."""

    def __init__(self) -> None:
        super().__init__()
        self.line = ""
        self.once = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.line = self.line or record.getMessage()
        self.once.set()


@pytest.fixture
def told() -> Iterator[Told]:
    handler = Told()
    logging.getLogger("stepfast.heartbeat").addHandler(handler)
    yield handler
    logging.getLogger("stepfast.heartbeat").removeHandler(handler)


async def begun_without_a_file_to_spare(told: Told) -> tuple[Heartbeat, asyncio.Event]:
    """A heartbeat that has failed to begin as no file could be opened, and what is set by its first answer."""
    heard = asyncio.Event()
    store, clock = cast(Store, cast(Any, Answering())), SystemClock()
    heartbeat = Heartbeat(store, WorkerId("w1"), 10, clock, lambda beat, number: heard.set())
    with no_file_to_spare():
        heartbeat.start()
        assert await asyncio.to_thread(told.once.wait, 30)
    assert "Too many open files" in told.line
    return heartbeat, heard


@HALF_MADE
async def test_a_heartbeat_begins_when_the_process_can_open_files_again(told):
    heartbeat, heard = await begun_without_a_file_to_spare(told)
    async with asyncio.timeout(30):
        await heard.wait()
    await heartbeat.stop()


@HALF_MADE
async def test_a_heartbeat_that_could_not_begin_is_stopped_all_the_same(told):
    with no_file_to_spare():
        heartbeat, _ = await begun_without_a_file_to_spare(told)
        async with asyncio.timeout(30):
            await heartbeat.stop()
