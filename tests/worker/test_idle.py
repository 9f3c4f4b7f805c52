"""A worker with nothing to do asks its store seldom."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from stepfast import Stepfast, WorkerSettings
from stepfast.stores.urls import store_for
from stepfast.testing import VirtualClock
from tests.support.workflows import say

# Not long enough for a sweep, which has reason to ask for more.
SPAN_MS = 45_000
LOOPS = 3


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
    """Wait until the loops for claims, upkeep and sweeps sleep."""
    while len(clock.spans_ahead_ms()) < LOOPS:
        await asyncio.to_thread(str)


@pytest.fixture
def stores(monkeypatch) -> list[CountingStore]:
    """The stores that apps open from here on."""
    stores: list[CountingStore] = []

    def counting_store_for(*args):
        stores.append(CountingStore(store_for(*args)))
        return stores[-1]

    monkeypatch.setattr("stepfast.base.store_for", counting_store_for)
    return stores


async def test_runs_that_are_executed_where_they_were_started_cost_no_claims(tmp_path, stores):
    clock = VirtualClock()
    async with Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], clock=clock) as app:
        await at_rest(clock)
        stores[0].calls.clear()
        assert [await (await app.start(say, word)) for word in "abc"] == ["a", "b", "c"]
        assert stores[0].calls["start"] == 3
        assert stores[0].calls["claim"] == 0


async def test_an_idle_worker_sends_at_most_two_statements_a_second(tmp_path, stores):
    clock, settings = VirtualClock(), WorkerSettings()
    async with Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], worker=settings, clock=clock):
        await at_rest(clock)
        calls, passed_ms = stores[0].calls, 0
        calls.clear()
        while passed_ms < SPAN_MS:
            span_ms = clock.spans_ahead_ms()[0]
            passed_ms += span_ms
            clock.advance(span_ms / 1_000)
            await at_rest(clock)
        asked = calls["claim"] + calls["upkeep"]
    beats = SPAN_MS / settings.heartbeat_ms
    assert calls["claim"] > 0
    assert calls["upkeep"] > 0
    assert (asked + beats) / (passed_ms / 1_000) <= 2
    assert set(calls) - {"claim", "upkeep", "beat", "retire", "close"} == set()
