"""A worker with nothing to do asks its store seldom."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any

import apsw
import pytest

from stepfast import Stepfast, WorkerSettings
from stepfast.stores.postgres import hints
from stepfast.stores.urls import store_for
from stepfast.testing import VirtualClock
from tests.support.workflows import say

# Not long enough for a sweep, which has reason to ask for more.
BEFORE_A_SWEEP_MS = 45_000
# Long enough for several.
MINUTES_MS = 300_000
# Claims, upkeep, sweeps and pruning.
LOOPS = 4


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
    """Wait until every loop sleeps."""
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


@pytest.fixture
def statements(monkeypatch) -> list[str]:
    """What is sent to SQLite from here on, by every connection of this process."""
    sent: list[str] = []

    def note(event: dict[str, Any]) -> None:
        if not event["trigger"]:
            sent.append(event["sql"])

    listen = partial(apsw.Connection.trace_v2, mask=apsw.SQLITE_TRACE_STMT, callback=note)
    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, listen])
    return sent


async def test_runs_that_are_executed_where_they_were_started_cost_no_claims(tmp_path, stores):
    clock = VirtualClock()
    async with Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], clock=clock) as app:
        await at_rest(clock)
        stores[0].calls.clear()
        assert [await (await app.start(say, word)) for word in "abc"] == ["a", "b", "c"]
        assert stores[0].calls["start"] == 3
        assert stores[0].calls["claim"] == 0


async def pass_time(clock: VirtualClock, span_ms: int) -> int:
    """Let at least so much time pass, from one sleep's end to the next; how much it was."""
    passed_ms = 0
    while passed_ms < span_ms:
        ahead_ms = clock.spans_ahead_ms()[0]
        passed_ms += ahead_ms
        clock.advance(ahead_ms / 1_000)
        await at_rest(clock)
    return passed_ms


async def test_an_idle_worker_asks_its_store_for_claims_and_upkeep_and_seldom_for_more(tmp_path, stores):
    clock = VirtualClock()
    async with Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], clock=clock):
        await at_rest(clock)
        calls = stores[0].calls
        calls.clear()
        await pass_time(clock, BEFORE_A_SWEEP_MS)
    assert calls["claim"] > 0
    assert calls["upkeep"] > 0
    assert set(calls) - {"claim", "upkeep", "beat", "retire", "close"} == set()


async def test_an_idle_worker_sends_at_most_two_statements_a_second(tmp_path, statements):
    """Beginnings and ends of transactions among them; heartbeats, which real time brings, are added as they come."""
    clock, settings = VirtualClock(), WorkerSettings()
    async with Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], worker=settings, clock=clock):
        await at_rest(clock)
        statements.clear()
        passed_ms = await pass_time(clock, MINUTES_MS)
        sent = len(statements)
    beats = passed_ms / settings.heartbeat_ms
    assert sent > passed_ms / settings.poll_ms
    assert (sent + beats) / (passed_ms / 1_000) <= 2


async def test_an_idle_worker_on_postgresql_sends_at_most_two_statements_a_second(migrated_postgres_url, stores):
    """Each call is one there; heartbeats and the looks of who listens for hints, which real time brings, are added."""
    clock, settings = VirtualClock(), WorkerSettings()
    async with Stepfast(migrated_postgres_url, workflows=[say], worker=settings, clock=clock):
        await at_rest(clock)
        calls = stores[0].calls
        calls.clear()
        passed_ms = await pass_time(clock, MINUTES_MS)
        sent = calls.total() - calls["beat"]
    beats, looks = passed_ms / settings.heartbeat_ms, passed_ms / 1_000 / hints.LOOK_EVERY_S
    assert sent > passed_ms / settings.poll_ms
    assert (sent + beats + looks) / (passed_ms / 1_000) <= 2
