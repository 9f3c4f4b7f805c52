"""The engine's clock: this machine's time, set right by the store's."""

from __future__ import annotations

import asyncio
import time
from typing import cast

from stepfast.kernel.durations import Instant


class SystemClock:
    """Real time; learns from each heartbeat how far the store's clock is ahead of this machine's."""

    def __init__(self) -> None:
        self._offset_ms = 0

    def now(self) -> Instant:
        # Written out, for it is asked three times for every step.
        return cast(Instant, time.time_ns() // 1_000_000 + self._offset_ms)

    async def sleep(self, span_ms: int) -> None:
        await asyncio.sleep(max(span_ms, 0) / 1_000)

    def local(self) -> Instant:
        return Instant(time.time_ns() // 1_000_000)

    def follow(self, store_now: Instant) -> None:
        """Go by the store's clock from here on."""
        self._offset_ms = store_now - self.local()
