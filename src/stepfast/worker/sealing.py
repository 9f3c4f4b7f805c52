"""The seals of a worker: now and then it seals what was written since the last."""

from __future__ import annotations

import random

from stepfast.engine.sealing import Sealer
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Clock
from stepfast.log import Log

log = Log("sealing")

# Passes of many workers spread out: one seals, and the others find little left.
SPREAD = 0.5


class SealLoop:
    """Makes one pass after the other; one that fails is a line in the log, never the end of the loop."""

    def __init__(self, sealer: Sealer, clock: Clock, interval_ms: int) -> None:
        self._sealer = sealer
        self._clock = clock
        self._interval_ms = interval_ms

    async def run(self) -> None:
        while True:
            await self._clock.sleep(round(self._interval_ms * (1 + SPREAD * random.random())))
            await self.make_pass()

    async def make_pass(self) -> int:
        """How many events were sealed."""
        try:
            return await self._sealer.seal()
        except StepfastError as error:
            log.warning("sealing_failed", error=error)
        except Exception:
            log.exception("sealing_failed")
        return 0
