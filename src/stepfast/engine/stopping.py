"""Stopping outside work that nobody waits for any more: by a run of its own, started once."""

from __future__ import annotations

from stepfast.kernel.outside import Asking
from stepfast.kernel.ports import Store

PER_PASS = 100


async def stop_left_outside(store: Store) -> list[str]:
    """Start what stops the outside work of runs that have ended; the queues in which there is something to do now.

    Started first and forgotten then: whoever dies between leaves it to another, who finds the run by its key.
    """
    queues: set[str] = set()
    while left := await store.left_outside(PER_PASS):
        for each in left:
            stopping = Asking.read(each.asking).stopping()
            await store.start(stopping, None)
            await store.forget_outside(each.run_id, each.wait_id)
            queues.update(run.queue for run in stopping)
    return sorted(queues)
