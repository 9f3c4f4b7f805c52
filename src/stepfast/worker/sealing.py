"""The seals of a worker: now and then it seals what was written since the last."""

from __future__ import annotations

from stepfast.engine.sealing import Sealer
from stepfast.kernel.ports import Clock
from stepfast.log import Log
from stepfast.worker.passes import PassLoop

log = Log("sealing")


class SealLoop(PassLoop):
    """Seals events; a pass says how many."""

    def __init__(self, sealer: Sealer, clock: Clock, interval_ms: int) -> None:
        super().__init__(clock, interval_ms)
        self._sealer = sealer

    async def _do(self) -> int:
        return await self._sealer.seal()

    def _tell(self, error: Exception) -> None:
        log.failure("sealing_failed", error)
