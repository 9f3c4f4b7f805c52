"""A clock that moves only when it is told to."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import timedelta

from stepfast.kernel.durations import Duration, Instant, span_ms

START = Instant(1_750_000_000_000)


class VirtualClock:
    """Time for tests: whoever sleeps by it wakes when the test has moved it far enough, the earliest first."""

    def __init__(self, start: Instant = START) -> None:
        self._now = start
        self._numbers = itertools.count()
        self._sleepers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        self._stirring = 0
        self.on_sleep: Callable[[], None] = lambda: None
        """Called when somebody begins to sleep."""

    def now(self) -> Instant:
        return self._now

    def local(self) -> Instant:
        return self._now

    def follow(self, store_now: Instant, asked_at: Instant) -> None:
        """Nobody sets this clock but the test."""

    async def sleep(self, span_ms: int) -> None:
        if span_ms <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (Instant(self._now + span_ms), next(self._numbers), woken))
        self.on_sleep()
        try:
            await woken
        finally:
            if not woken.cancelled():
                self._stirring -= 1

    def advance(self, duration: Duration = 0, **parts: float) -> None:
        """Move on; everyone whose moment has come wakes, the earliest first.

        By a duration, or by the parts that a `timedelta` has: `advance("5m")` is `advance(minutes=5)`.
        """
        self._now = Instant(self._now + span_ms(duration) + span_ms(timedelta(**parts)))
        while self._sleepers and self._sleepers[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
                self._stirring += 1

    @property
    def is_stirring(self) -> bool:
        """Whether somebody was woken who has not gone on yet."""
        return self._stirring > 0

    def spans_ahead_ms(self) -> list[int]:
        """How long each sleeper still has to sleep, the shortest first."""
        return sorted(due_at - self._now for due_at, _, woken in self._sleepers if not woken.done())
