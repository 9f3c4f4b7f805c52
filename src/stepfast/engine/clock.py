"""The engine's clock: this machine's time, set right by the store's."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stepfast.kernel.durations import Instant

# Of a rest until a moment that was reckoned by a clock that was wrong just then, no more than this is too much.
LOOK_S = 10.0
SET_BY_MS = 1_000


class SystemClock:
    """Real time; learns from each heartbeat how far the store's clock is ahead of this machine's."""

    def __init__(self) -> None:
        # Of any type, so that a sum with it need not be declared a moment by a call, which would cost as much again.
        self._offset_ms: Any = 0

    def now(self) -> Instant:
        now: Instant = self._offset_ms + time.time_ns() // 1_000_000
        return now

    async def sleep(self, span_ms: int) -> None:
        ends_at, ahead_ms = time.monotonic() + max(span_ms, 0) / 1_000, self._ahead_ms()
        while (left_s := ends_at - time.monotonic()) > LOOK_S:
            await asyncio.sleep(LOOK_S)
            if abs(self._ahead_ms() - ahead_ms) > SET_BY_MS:
                return
        await asyncio.sleep(max(left_s, 0))

    def _ahead_ms(self) -> float:
        """How far this clock is ahead of one that nobody sets."""
        return self.now() - time.monotonic() * 1_000

    def local(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)

    def follow(self, store_now: Instant, asked_at: Instant) -> None:
        """Go by the store's clock from here on, as far as this proves that it goes otherwise.

        It said so at some moment between the question and now. An answer that came late, in a process that was stopped
        or behind a slow commit, would otherwise set the clock back by all that time.
        """
        least, most = store_now - self.local(), store_now - asked_at
        self._offset_ms = min(max(self._offset_ms, least), most)
