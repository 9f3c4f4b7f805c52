"""Starts that nobody waits for any more: the store may be away, and each look at it take its time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from stepfast.engine.starting import Starter
from tests.support.turns import until_idle


class HoldingStore:
    """Passes starts on when it is told to, and counts how many came together."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.let_go = asyncio.Event()
        self.batches: list[int] = []

    async def start(self, runs, holder):
        self.batches.append(len(runs))
        await self.let_go.wait()
        return await self._store.start(runs, holder)


async def test_starts_whose_callers_have_left_keep_nobody_behind_them_waiting(harness):
    store = HoldingStore(harness.store)
    starter = Starter(cast(Any, store), lambda queue, number: None)
    starter.open()
    first = asyncio.create_task(starter.start(harness.new_run()))
    await until_idle()
    left = [asyncio.create_task(starter.start(harness.new_run())) for _ in range(3)]
    await until_idle()
    for caller in left:
        caller.cancel()
    await asyncio.wait(left)
    store.let_go.set()
    assert (await first).started.fresh
    await starter.close()
    assert store.batches == [1]
