"""The pruning of a worker: now and then it lets go the runs that were kept long enough."""

from __future__ import annotations

import random

from stepfast.engine.pruning import Pruner
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Clock
from stepfast.log import Log

log = Log("pruning")

# Passes of many workers spread out: one prunes, and the others find little left.
SPREAD = 0.5


class PruneLoop:
    """Makes one pass after the other; one that fails is a line in the log, never the end of the loop."""

    def __init__(self, pruner: Pruner, clock: Clock, interval_ms: int) -> None:
        self._pruner = pruner
        self._clock = clock
        self._interval_ms = interval_ms

    async def run(self) -> None:
        while True:
            await self._clock.sleep(round(self._interval_ms * (1 + SPREAD * random.random())))
            await self.make_pass()

    async def make_pass(self) -> int:
        """How many runs went."""
        try:
            return (await self._pruner.make_pass()).runs
        except StepfastError as error:
            log.warning("pruning_failed", error=error)
        except Exception:
            log.exception("pruning_failed")
        return 0
