"""Which workers are there for the runs."""

from __future__ import annotations

from stepfast.app import Stepfast
from stepfast.kernel.durations import Instant
from stepfast.kernel.views import WorkerView


async def living_workers(app: Stepfast) -> list[WorkerView]:
    """The workers that are alive by now."""
    now = await app.now()
    return [worker for worker in await app.workers.list() if worker.is_alive(now)]


def state_of(worker: WorkerView, now: Instant) -> str:
    """Alive; silent, when its lease has run out and nobody has buried it yet; or dead."""
    if worker.dead_at is not None:
        return "dead"
    return "alive" if worker.is_alive(now) else "silent"
