"""The sweep of a worker: now and then it looks for large values that no row mentions."""

from __future__ import annotations

import random

from stepfast.engine.sweeping import Sweep
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Clock
from stepfast.log import Log

log = Log("sweep")

INTERVAL_MS = 60_000
# Passes of many workers spread out.
SPREAD = 0.3


class SweepLoop:
    """Makes one pass after the other; one that fails is a line in the log, never the end of the loop."""

    def __init__(self, sweep: Sweep, clock: Clock) -> None:
        self._sweep = sweep
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self._clock.sleep(round(INTERVAL_MS * (1 + SPREAD * random.random())))
            await self.make_pass()

    async def make_pass(self) -> int:
        """How many orphans were removed."""
        try:
            removed = await self._sweep.make_pass()
        except StepfastError as error:
            log.warning("sweep_failed", error=error)
            return 0
        except Exception:
            log.exception("sweep_failed")
            return 0
        if removed:
            log.info("blobs_swept", removed=removed)
        return removed
