"""What a worker does now and then: one pass after the other, each some time after the last."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod

from stepfast.kernel.ports import Clock

# Passes of many workers spread out: one finds something to do, and the others little.
SPREAD = 0.5


class PassLoop(ABC):
    """Makes one pass after the other, until it is cancelled; one that fails is told, and never the end of the loop."""

    def __init__(self, clock: Clock, interval_ms: int) -> None:
        self._clock = clock
        self._interval_ms = interval_ms

    async def run(self) -> None:
        while True:
            # Also after trouble: whatever it is has as long to pass as there is between two passes.
            await self._clock.sleep(round(self._interval_ms * (1 + SPREAD * random.random())))
            await self.make_pass()

    async def make_pass(self) -> int:
        """How much was done: nothing where it failed."""
        try:
            return await self._do()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next pass must come
            self._tell(error)
        return 0

    @abstractmethod
    async def _do(self) -> int:
        """One pass; how much it did."""

    @abstractmethod
    def _tell(self, error: Exception) -> None:
        """Write to the log that a pass has failed."""
