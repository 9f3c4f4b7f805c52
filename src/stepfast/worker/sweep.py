"""The sweep of a worker: now and then it looks for large values that no row mentions."""

from __future__ import annotations

from stepfast.engine.sweeping import Sweep
from stepfast.kernel.ports import Clock
from stepfast.log import Log
from stepfast.worker.passes import PassLoop

log = Log("sweep")

INTERVAL_MS = 60_000


class SweepLoop(PassLoop):
    """Removes orphans; a pass says how many."""

    def __init__(self, sweep: Sweep, clock: Clock) -> None:
        super().__init__(clock, INTERVAL_MS)
        self._sweep = sweep

    async def _do(self) -> int:
        removed = await self._sweep.make_pass()
        if removed:
            log.info("blobs_swept", removed=removed)
        return removed

    def _tell(self, error: Exception) -> None:
        log.failure("sweep_failed", error)
