"""A store that, after everything that is written, holds every run's rows against its events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from stepfast.kernel.ports import Store
from stepfast.kernel.views import RunFilter
from stepfast.reconstructing import Reader, read_core
from stepfast.testing.crashes import UNCOUNTED

# A heartbeat has a thread of its own, and changes nothing that a run shows.
UNWATCHED = UNCOUNTED | {"beat", "look", "histories", "hint", "hear"}


class Watch:
    """What was found so far, and how many looks were taken."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.looks = 0
        self.states: set[str] = set()
        self._turn = asyncio.Lock()

    def around(self, store: Store) -> Store:
        """The store under watch."""
        return cast(Store, Watched(store, self))

    async def in_turn(self, store: Store, method: str, call: Callable[[], Any]) -> Any:
        """Write, and look at what has come of it before anybody else writes."""
        async with self._turn:
            answer = await call()
            if not self.found:
                await self.look(store, method)
            return answer

    async def look(self, store: Store, method: str) -> None:
        for run in await store.runs(RunFilter(limit=1_000)):
            core = await read_core(Reader(store, cast(Any, None), None, run.run_id), [])
            self.looks += 1
            self.states.add(f"{core.run.state} by {core.state.state}")
            if core.differences:
                newest = [(event.seq, event.type, event.step, event.data) for event in core.events[-6:]]
                self.found.append(f"after {method}: {core.differences}; {newest}; {core.state.waits}")


class Watched:
    """A store, each of whose writes is looked at."""

    def __init__(self, store: Store, watch: Watch) -> None:
        self._store = store
        self._watch = watch

    def __getattr__(self, method: str) -> Any:
        inner = getattr(self._store, method)
        if method in UNWATCHED or method.startswith("_"):
            return inner

        async def call(*args: Any, **named: Any) -> Any:
            return await self._watch.in_turn(self._store, method, lambda: inner(*args, **named))

        return call
