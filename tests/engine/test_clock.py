"""The engine's clock goes by the store's, as far as an answer of the store proves anything."""

from __future__ import annotations

import asyncio

import pytest

from stepfast.engine import clock as clocks
from stepfast.engine.clock import SystemClock
from stepfast.kernel.durations import Instant
from tests.support.turns import turn

ASKED_AT = Instant(1_000_000)
ANSWERED_AT = Instant(ASKED_AT + 6_000)


class StoppedClock(SystemClock):
    """This machine's time as the test sets it."""

    machine = ASKED_AT

    def local(self) -> Instant:
        return self.machine

    def now(self) -> Instant:
        return Instant(self.machine + self._offset_ms)


def told(store_ahead_ms: int, read_after_ms: int) -> StoppedClock:
    """A clock whose store reads its own at some moment between the question and the answer, six seconds later."""
    clock = StoppedClock()
    clock.machine = ANSWERED_AT
    clock.follow(Instant(ASKED_AT + read_after_ms + store_ahead_ms), ASKED_AT)
    return clock


@pytest.mark.parametrize("read_after_ms", [0, 3_000, 6_000])
def test_an_answer_that_took_long_does_not_set_back_a_clock_that_is_right(read_after_ms):
    assert told(0, read_after_ms).now() == ANSWERED_AT


@pytest.mark.parametrize("read_after_ms", [0, 3_000, 6_000])
@pytest.mark.parametrize("ahead_ms", [86_400_000, -86_400_000])
def test_a_clock_that_is_wrong_comes_as_near_as_an_answer_proves(ahead_ms, read_after_ms):
    assert abs(told(ahead_ms, read_after_ms).now() - (ANSWERED_AT + ahead_ms)) <= ANSWERED_AT - ASKED_AT


def test_a_quick_answer_sets_the_clock_right():
    clock = told(86_400_000, 0)
    clock.follow(Instant(clock.local() + 86_400_000), clock.local())
    assert clock.now() == ANSWERED_AT + 86_400_000


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
async def test_whoever_sleeps_looks_again_when_the_clock_was_set(monkeypatch, ahead_ms):
    """A span that was reckoned while the machine's clock was an hour behind is an hour too long."""
    monkeypatch.setattr(clocks, "LOOK_S", 0)
    clock = SystemClock()
    sleeper = asyncio.ensure_future(clock.sleep(86_400_000))
    await turn()
    clock.follow(Instant(clock.local() + ahead_ms), clock.local())
    async with asyncio.timeout(60):
        await sleeper


async def test_a_sleeper_whose_clock_goes_right_sleeps_on(monkeypatch):
    monkeypatch.setattr(clocks, "LOOK_S", 0)
    clock = SystemClock()
    sleeper = asyncio.ensure_future(clock.sleep(86_400_000))
    for _ in range(10):
        await turn()
        clock.follow(clock.local(), clock.local())
    assert not sleeper.done()
    sleeper.cancel()
