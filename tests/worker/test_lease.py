"""The lease of a worker that leaves."""

from __future__ import annotations

import asyncio
import threading

from stepfast import workflow
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Beat
from tests.support.apps import app_on


@workflow
async def nothing() -> None:
    return None


async def test_a_heartbeat_answered_while_its_worker_leaves_does_not_bring_it_back(database):
    """It may say that the worker is dead, for that is just what it became; a new lease would beat for ever."""
    async with app_on(database, [nothing]) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        lease = worker._lease
    lease._hear(Beat(Instant(0), False, []), 1)
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "stepfast-renewal"))
    assert "stepfast-heartbeat" not in [thread.name for thread in threading.enumerate()]
