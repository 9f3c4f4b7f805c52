"""A rest that a wake-up ends."""

from __future__ import annotations

import asyncio

from stepfast.errands import begin_errand
from stepfast.kernel.ports import Clock


class WakeUp(asyncio.Event):
    """Set when something may be there to do; whoever rests until then looks after a while in any case."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock
        self._sleeper: asyncio.Future[None] | None = None
        self._ends_at = 0

    async def rest(self, pause_ms: int) -> None:
        """Wait for the wake-up, at most as long as told; it is set afterwards."""
        self._sleep(pause_ms)
        try:
            await self.wait()
        finally:
            self._end_sleep()

    def rest_until(self, moment: int) -> None:
        """Let a rest that is under way end at that moment, unless it ends sooner."""
        if self._sleeper is not None and moment < self._ends_at:
            self._end_sleep()
            self._sleep(moment - self._clock.now())

    def _sleep(self, pause_ms: int) -> None:
        self._ends_at = self._clock.now() + pause_ms
        self._sleeper = begin_errand(self._sleep_and_wake(self._ends_at, pause_ms))

    def _end_sleep(self) -> None:
        if self._sleeper is not None:
            self._sleeper.cancel()
            self._sleeper = None

    async def _sleep_and_wake(self, ends_at: int, most_ms: int) -> None:
        # Counted here, where the sleep begins: it is a turn of the loop later than where it was asked for. A clock that
        # was set back in between must not make it longer.
        await self._clock.sleep(min(max(ends_at - self._clock.now(), 0), most_ms))
        self.set()
