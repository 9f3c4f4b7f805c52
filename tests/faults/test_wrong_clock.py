"""A process whose clock is a day ahead of the database's: nothing fires before its time, and a timer fires once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from stepfast import RunState, Stepfast, receive, sleep, step, workflow
from stepfast.kernel.durations import Instant
from stepfast.stores.postgres.store import PostgresStore
from stepfast.stores.sqlite import claiming, workers
from stepfast.stores.sqlite.store import SqliteStore
from stepfast.stores.urls import sqlite_path, store_for
from stepfast.testing import VirtualClock
from tests.support.apps import PATIENT
from tests.support.guards import rewrite
from tests.support.virtual_time import Time, until_state, virtual_time

HOUR_MS = 3_600_000
AHEAD_MS = 24 * HOUR_MS
JUST_BEFORE_S = HOUR_MS / 1_000 - 0.001


class WrongClock:
    """A process's clock that is a day ahead until the store tells the time; it goes as fast as the test's."""

    def __init__(self, right: VirtualClock) -> None:
        self._right = right
        self._offset_ms = 0

    def local(self) -> Instant:
        return Instant(self._right.now() + AHEAD_MS)

    def now(self) -> Instant:
        return Instant(self.local() + self._offset_ms)

    def follow(self, store_now: Instant, asked_at: Instant) -> None:
        self._offset_ms = store_now - self.local()

    async def sleep(self, span_ms: int) -> None:
        await self._right.sleep(span_ms)


class Bell:
    """When it rang, by the time of the store."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.rang_at: list[int] = []


BELL = Bell()


@step
async def ring() -> None:
    BELL.rang_at.append(BELL.clock.now())


async def alarm() -> None:
    await sleep("1h")
    await ring()


@workflow
async def wake_me() -> None:
    await asyncio.gather(alarm(), receive("word", str))


@workflow
async def ring_now() -> None:
    await ring()


@asynccontextmanager
async def ahead(database: str, processes: int = 1) -> AsyncIterator[tuple[list[Stepfast], Time]]:
    """Apps that are a day ahead of their store, and the store's time."""
    async with virtual_time(database) as time, AsyncExitStack() as stack:
        BELL.clock = time.clock
        BELL.rang_at.clear()

        def make(clock: Any) -> Any:
            if database.startswith("sqlite"):
                return SqliteStore(sqlite_path(database), time.clock.now)
            return store_for(database, clock, None)

        apps = [
            Stepfast(make, workflows=[wake_me, ring_now], worker=PATIENT, clock=WrongClock(time.clock))
            for _ in range(processes)
        ]
        yield [await stack.enter_async_context(app) for app in apps], time


async def look_again(app: Stepfast) -> None:
    """Let the worker ask for what is due, and what it was given come to its end."""
    assert app._parts is not None
    (worker,) = app._parts._workers
    worker.drained.clear()
    worker.wake()
    await worker.drained.wait()


async def rings_after_ms(database: str) -> list[int]:
    """When the alarm of a run rings that a signal wakes long before, counted from its start."""
    async with ahead(database) as ((app,), time):
        begun = time.clock.now()
        run = await app.start(wake_me)
        await until_state(run, RunState.WAITING)
        await run.signal("word", "go")
        await until_state(run, RunState.WAITING, RunState.COMPLETED)
        await time.advance(JUST_BEFORE_S)
        await look_again(app)
        await time.result(run)
        return [moment - begun for moment in BELL.rang_at]


async def test_an_alarm_does_not_ring_early_although_its_process_is_ahead(database):
    (rang_after_ms,) = await rings_after_ms(database)
    assert rang_after_ms >= HOUR_MS


async def test_the_broken_twin_that_goes_by_its_own_clock_rings_early(database, monkeypatch):
    async def own_time(self) -> Instant:
        return Instant(BELL.clock.now() + AHEAD_MS)

    monkeypatch.setattr(WrongClock, "follow", lambda self, store_now, asked_at: None)
    for store in (SqliteStore, PostgresStore):
        monkeypatch.setattr(store, "now", own_time)
    (rang_after_ms,) = await rings_after_ms(database)
    assert rang_after_ms < HOUR_MS


async def starts_after_ms(database: str) -> list[int]:
    """When a run begins that was put off by an hour."""
    async with ahead(database) as ((app,), time):
        begun = time.clock.now()
        run = await app.start(ring_now, delay="1h")
        await time.advance(JUST_BEFORE_S)
        await look_again(app)
        await time.result(run)
        return [moment - begun for moment in BELL.rang_at]


async def test_a_run_that_was_put_off_does_not_begin_early(database):
    (begun_after_ms,) = await starts_after_ms(database)
    assert begun_after_ms >= HOUR_MS


async def test_the_broken_twin_whose_line_takes_what_is_not_due_begins_early(database, monkeypatch):
    due = "due_at <= :now"
    text = claiming.SQL["promote_due"]
    assert due in text
    monkeypatch.setitem(claiming.SQL, "promote_due", text.replace(due, "due_at <= :now + 1e15"))
    assert due in workers.SQL["standing"]
    monkeypatch.setitem(workers.SQL, "standing", workers.SQL["standing"].replace(due, "due_at <= :now + 1e15"))
    monkeypatch.setattr(claiming, "look", lambda connection, request: None)
    await rewrite(database, "promote", ("d.due_at <= moment", "d.due_at <= moment + 1e15"))
    await rewrite(database, "pick_all", ("next_due_at(q_name[i]) <= moment", "next_due_at(q_name[i]) <= moment + 1e15"))
    (begun_after_ms,) = await starts_after_ms(database)
    assert begun_after_ms < HOUR_MS


async def test_of_many_alarms_each_rings_once_although_two_processes_look(database):
    async with ahead(database, processes=2) as (apps, time):
        runs = [await apps[0].start(wake_me) for _ in range(10)]
        for run in runs:
            await run.signal("word", "go")
        for run in runs:
            while len(await run.steps()) < 3 or (await run.info()).state is not RunState.WAITING:
                pass
        await time.advance(HOUR_MS / 1_000)
        for run in runs:
            await time.result(run)
        assert len(BELL.rang_at) == len(runs)
