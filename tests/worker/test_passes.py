"""What a worker does now and then comes again, whatever became of the last time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from stepfast.kernel.errors import StepfastError, StoreUnavailable
from stepfast.log import Log
from stepfast.testing import VirtualClock
from stepfast.worker.passes import SPREAD, PassLoop
from stepfast.worker.waking import WakeUp
from tests.support.turns import until_idle

INTERVAL_MS = 10_000
log = Log("passes")


class Passes(PassLoop):
    """Fails with what it is given, one error for each pass; then works."""

    def __init__(self, clock: VirtualClock, *troubles: Exception) -> None:
        super().__init__(clock, INTERVAL_MS)
        self.troubles = list(troubles)
        self.made = 0
        self.told: list[Exception] = []

    async def _do(self) -> int:
        self.made += 1
        if self.troubles:
            raise self.troubles.pop(0)
        return 7

    def _tell(self, error: Exception) -> None:
        self.told.append(error)


@pytest.fixture
async def tasks() -> AsyncIterator[list[asyncio.Task[None]]]:
    """Those that end with the test."""
    tasks: list[asyncio.Task[None]] = []
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def asleep(clock: VirtualClock) -> int:
    """How long the loop will sleep, once it does."""
    while not clock.spans_ahead_ms():
        await asyncio.to_thread(str)
    return clock.spans_ahead_ms()[0]


async def test_passes_come_one_after_the_other_also_after_trouble(tasks):
    clock = VirtualClock()
    passes = Passes(clock, StoreUnavailable("away"), ZeroDivisionError())
    tasks.append(asyncio.ensure_future(passes.run()))
    for number in range(4):
        pause_ms = await asleep(clock)
        assert INTERVAL_MS <= pause_ms <= INTERVAL_MS * (1 + SPREAD)
        assert passes.made == number
        clock.advance(pause_ms / 1_000)
    assert [type(error) for error in passes.told] == [StoreUnavailable, ZeroDivisionError]


async def test_a_pass_says_how_much_was_done_and_nothing_where_it_failed():
    passes = Passes(VirtualClock(), ZeroDivisionError())
    assert [await passes.make_pass(), await passes.make_pass()] == [0, 7]


async def test_a_loop_that_is_cancelled_in_a_pass_ends(tasks):
    clock = VirtualClock()
    begun = asyncio.Event()

    class Endless(Passes):
        async def _do(self) -> int:
            begun.set()
            await asyncio.Event().wait()
            return 0

    task = asyncio.ensure_future(Endless(clock).run())
    tasks.append(task)
    clock.advance(await asleep(clock) / 1_000)
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    ("error", "level", "has_traceback"),
    [(StepfastError("away"), logging.WARNING, False), (ZeroDivisionError(), logging.ERROR, True)],
    ids=["ours", "other"],
)
def test_an_error_of_ours_is_one_line_and_any_other_comes_with_its_traceback(caplog, error, level, has_traceback):
    log.failure("sweep_failed", error, worker_id="7")
    (record,) = caplog.records
    assert (record.levelno, bool(record.exc_info)) == (level, has_traceback)
    assert record.getMessage().startswith("sweep_failed worker_id=7")


async def test_a_rest_ends_with_its_time(tasks):
    clock = VirtualClock()
    rest = asyncio.ensure_future(WakeUp(clock).rest(1_000))
    tasks.append(rest)
    clock.advance(await asleep(clock) / 1_000)
    await rest


async def test_a_rest_ends_with_a_wake_up_and_leaves_nobody_asleep():
    clock = VirtualClock()
    wake = WakeUp(clock)
    wake.set()
    await wake.rest(1_000)
    await until_idle()
    assert clock.spans_ahead_ms() == []
