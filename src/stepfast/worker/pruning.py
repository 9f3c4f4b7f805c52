"""The pruning of a worker: now and then it lets go the runs that were kept long enough."""

from __future__ import annotations

from stepfast.engine.pruning import Pruner
from stepfast.kernel.ports import Clock
from stepfast.log import Log
from stepfast.worker.passes import PassLoop

log = Log("pruning")


class PruneLoop(PassLoop):
    """Lets runs go; a pass says how many."""

    def __init__(self, pruner: Pruner, clock: Clock, interval_ms: int) -> None:
        super().__init__(clock, interval_ms)
        self._pruner = pruner

    async def _do(self) -> int:
        return (await self._pruner.make_pass()).runs

    def _tell(self, error: Exception) -> None:
        log.failure("pruning_failed", error)
