"""Apps for tests: with a worker that looks often, and quick to leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from stepfast import Stepfast, WorkerSettings
from stepfast.engine.clock import SystemClock
from stepfast.stores.urls import store_for

# A machine that stands still for some seconds costs nobody the lease.
QUICK = WorkerSettings(lease_ms=30_000, heartbeat_ms=500, poll_ms=50, upkeep_ms=100, grace_ms=0)

# For workers that are killed: what they held is taken over soon.
MORTAL = replace(QUICK, lease_ms=2_000)

# For clocks that a test moves by hours: no lease may run out meanwhile.
PATIENT = replace(QUICK, lease_ms=10**10)


def app_on(database: str, workflows: Iterable[Any], worker: bool | WorkerSettings = QUICK) -> Stepfast:
    """An app that knows just these workflows."""
    return Stepfast(database, workflows=workflows, worker=worker)


async def has_beaten(app: Stepfast) -> str:
    """Wait for the first heartbeat of an app's worker, which comes right behind its start; its id."""
    while True:
        (worker,) = await app.workers.list()
        if worker.seen_at > worker.started_at:
            return worker.worker_id


async def migrated(url: str) -> None:
    """Bring a database's schema up to date."""
    store = store_for(url, SystemClock())
    await store.migrate()
    await store.close()


class Bodies(Counter[str]):
    """How often step bodies really ran: what an engine's own history cannot show."""

    def ran(self, name: str) -> None:
        self[name] += 1
