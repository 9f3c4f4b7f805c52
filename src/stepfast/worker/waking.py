"""A rest that a wake-up ends."""

from __future__ import annotations

import asyncio

from stepfast.kernel.ports import Clock


class WakeUp(asyncio.Event):
    """Set when something may be there to do; whoever rests until then looks after a while in any case."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    async def rest(self, pause_ms: int) -> None:
        """Wait for the wake-up, at most as long as told; it is set afterwards."""
        sleeper = asyncio.ensure_future(self._sleep_and_wake(pause_ms))
        try:
            await self.wait()
        finally:
            sleeper.cancel()

    async def _sleep_and_wake(self, pause_ms: int) -> None:
        await self._clock.sleep(pause_ms)
        self.set()
