"""A worker with nothing to do asks its store seldom."""

from __future__ import annotations

import asyncio
from collections import Counter

from stepfast import Stepfast, WorkerSettings
from stepfast.stores.urls import store_for
from stepfast.testing import VirtualClock
from tests.support.workflows import say

MINUTE_MS = 60_000
LOOPS = 2


class CountingStore:
    """Passes every call on, and counts it."""

    def __init__(self, store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name):
        method = getattr(self._store, name)

        async def call(*args, **named):
            self.calls[name] += 1
            return await method(*args, **named)

        return call


async def at_rest(clock: VirtualClock) -> None:
    """Wait until the claim loop and the upkeep loop sleep."""
    while len(clock.spans_ahead_ms()) < LOOPS:
        await asyncio.to_thread(str)


async def test_an_idle_worker_sends_at_most_two_statements_a_second(tmp_path, monkeypatch):
    stores: list[CountingStore] = []

    def counting_store_for(*args):
        stores.append(CountingStore(store_for(*args)))
        return stores[-1]

    monkeypatch.setattr("stepfast.base.store_for", counting_store_for)
    clock, settings = VirtualClock(), WorkerSettings()
    async with Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], worker=settings, clock=clock):
        await at_rest(clock)
        calls, passed_ms = stores[0].calls, 0
        calls.clear()
        while passed_ms < MINUTE_MS:
            span_ms = clock.spans_ahead_ms()[0]
            passed_ms += span_ms
            clock.advance(span_ms / 1_000)
            await at_rest(clock)
        asked = calls["claim"] + calls["upkeep"]
    beats = MINUTE_MS / settings.heartbeat_ms
    assert calls["claim"] > 0
    assert calls["upkeep"] > 0
    assert (asked + beats) / (passed_ms / 1_000) <= 2
    assert set(calls) - {"claim", "upkeep", "beat", "retire", "close"} == set()
