"""Time limits of steps: how long an attempt may take, and all attempts together, by the host's clock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from stepfast.errands import begin_errand
from stepfast.kernel.durations import Duration, Instant, span_ms
from stepfast.kernel.errors import Invalid, InvalidDefinition, StepTimeout

if TYPE_CHECKING:
    from stepfast.kernel.ports import Clock

# How long a body that was cancelled may take to tidy up before it is left behind.
UNWINDING_S = 1.0

# Bodies that went on after they were cancelled: a task that nobody refers to may vanish in the middle of its cleaning.
LEFT_BEHIND: set[asyncio.Task[Any]] = set()

Body = Callable[[Callable[[], None]], Coroutine[Any, Any, Any]]
"""Runs the body of a step, and calls what it is given when the body has really begun."""


class Limits(NamedTuple):
    """How long a step may take, in milliseconds: each attempt, and all of them together; None: as long as it likes."""

    attempt_ms: int | None = None
    total_ms: int | None = None

    def end(self, begun_at: Instant) -> Instant | None:
        """When the last attempt must have ended, if the first began then."""
        return None if self.total_ms is None else Instant(begun_at + self.total_ms)


UNLIMITED = Limits()


class Limit(NamedTuple):
    """How long one attempt may take, and whether it was the last by that."""

    span_ms: int
    is_final: bool


class OutOfTime(Exception):
    """An attempt has reached its limit."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class BodyThreads(ThreadPoolExecutor):
    """The threads that the bodies of `def` steps run in; one that is left to a stuck body takes nobody's place."""

    _counting = threading.Lock()

    async def run(self, call: Callable[[], Any]) -> Any:
        """What the call returns; a thread cannot be interrupted, so whoever is cancelled here leaves it behind."""
        future = self.submit(call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.running():
                self._leave(future)
            raise

    def _leave(self, future: Future[Any]) -> None:
        """Make room for one thread more until this one has come to the end of its body."""
        self._count(1)
        # Whoever stands in line already gets a thread now, not when the next one comes.
        self._adjust_thread_count()
        future.add_done_callback(lambda _: self._count(-1))

    def _count(self, threads: int) -> None:
        with self._counting:
            self._max_workers += threads


def check_limit(what: str, duration: Duration | None) -> int | None:
    """A limit in milliseconds; one that nothing could keep is refused where it is written."""
    if duration is None:
        return None
    try:
        limit_ms = span_ms(duration, what)
    except Invalid as error:
        raise InvalidDefinition(str(error)) from None
    if limit_ms == 0:
        raise InvalidDefinition(f"{what} is {duration!r}, which nothing can keep; leave it out for no limit.")
    return limit_ms


def attempt_limit(limits: Limits, begun_at: Instant, now: Instant) -> Limit | None:
    """How long an attempt that begins now may take; its step's first attempt began at `begun_at`."""
    if limits.attempt_ms is None and limits.total_ms is None:
        return None
    end = limits.end(begun_at)
    left_ms = None if end is None else max(end - now, 0)
    if left_ms is not None and (limits.attempt_ms is None or left_ms <= limits.attempt_ms):
        return Limit(left_ms, is_final=True)
    return None if limits.attempt_ms is None else Limit(limits.attempt_ms, is_final=False)


async def run_within(limit: Limit, clock: Clock, body: Body) -> Any:
    """What the body returns or raises; OutOfTime when it takes longer, counted from when it really began."""
    if limit.span_ms <= 0:
        raise OutOfTime(limit)
    begun = asyncio.Event()
    running = begin_errand(caught(body, begun.set))
    timer = begin_errand(_expire(begun, clock, limit.span_ms))
    try:
        await asyncio.wait({running, timer}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            await asyncio.wait({running}, timeout=UNWINDING_S)
            raise OutOfTime(limit)
    finally:
        timer.cancel()
        leave_behind(running)
    value, error = running.result()
    if error is not None:
        raise error
    return value


async def caught(body: Body, begun: Callable[[], None]) -> tuple[Any, BaseException | None]:
    """What a body returned or raised, as data: a task that raises SystemExit would end the worker."""
    try:
        return await body(begun), None
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever called the step
        return None, error


async def _expire(begun: asyncio.Event, clock: Clock, span_ms: int) -> None:
    await begun.wait()
    end = clock.now() + span_ms
    while (left_ms := end - clock.now()) > 0:
        await clock.sleep(left_ms)


def leave_behind(running: asyncio.Task[Any]) -> None:
    """Call a task off that has not ended, and wait for it no longer."""
    if not running.done():
        running.cancel()
        LEFT_BEHIND.add(running)
        running.add_done_callback(_ended_late)


def _ended_late(running: asyncio.Task[Any]) -> None:
    LEFT_BEHIND.discard(running)
    if not running.cancelled():
        running.exception()


def timed_out(step: str, attempt: int, limits: Limits, is_final: bool) -> StepTimeout:
    """The error of an attempt that took too long."""
    if is_final:
        return StepTimeout(
            f"Step {step} was given up in attempt {attempt}: all its attempts together took longer than "
            f"its total_timeout of {limits.total_ms} ms."
        )
    return StepTimeout(f"Attempt {attempt} of step {step} took longer than its timeout of {limits.attempt_ms} ms.")


def given_up(step: str, attempt: int, limits: Limits) -> StepTimeout:
    """The error of a step whose next attempt would begin when its time is over."""
    return StepTimeout(
        f"Step {step} was given up after attempt {attempt}: the next would begin after "
        f"its total_timeout of {limits.total_ms} ms."
    )
