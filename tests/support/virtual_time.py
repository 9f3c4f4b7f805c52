"""Time in the hands of a test, for the engine and for its store alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from stepfast import Stepfast
from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.states import ENDED, RunState, StepState
from stepfast.testing import VirtualClock
from tests.support.apps import PATIENT, Bodies

OWN_TIME = """
create table if not exists stepfast.test_time (now_ms bigint not null);
delete from stepfast.test_time;
insert into stepfast.test_time values ({});
create or replace function stepfast.now_ms() returns bigint
language sql volatile as $$ select now_ms from stepfast.test_time $$;
"""


class Time:
    """A clock that stands until the test moves it; a store that has a clock of its own is set first."""

    def __init__(self, set_store: Callable[[int], Awaitable[None]]) -> None:
        self.clock = VirtualClock()
        self._set_store = set_store

    async def advance(self, duration: Duration) -> None:
        await self._set_store(self.clock.now() + span_ms(duration))
        self.clock.advance(duration)

    async def result(self, run: Any) -> Any:
        """What a run returns whose time has come: a worker that looked just before looks again after a moment."""
        while (await run.info()).state not in ENDED:
            await self.advance("1ms")
        return await run

    async def until_recorded(self, run: Any, times: int) -> None:
        """Wait until so many records of a run are there whose time has come; time goes on a little, as above."""
        while len(await run.steps()) < times:
            await self.advance("1ms")


@asynccontextmanager
async def virtual_time(database: str) -> AsyncIterator[Time]:
    """Time for the apps on a database; SQLite goes by the app's clock, PostgreSQL is given one."""
    if database.startswith("sqlite"):
        yield Time(_nothing)
        return
    connection = await asyncpg.connect(database)

    async def set_store(moment: int) -> None:
        await connection.execute("update stepfast.test_time set now_ms = $1", moment)

    time = Time(set_store)
    await connection.execute(OWN_TIME.format(int(time.clock.now())))
    try:
        yield time
    finally:
        await connection.close()


async def _nothing(moment: int) -> None:
    """The store asks the app's clock."""


@asynccontextmanager
async def timed_app(database: str, *workflows: Any) -> AsyncIterator[tuple[Stepfast, Time]]:
    """An app with a worker, and its time."""
    async with (
        virtual_time(database) as time,
        Stepfast(database, workflows=workflows, worker=PATIENT, clock=time.clock) as app,
    ):
        yield app, time


async def is_parked_in(run: Any, *names: str) -> bool:
    """Whether a run is parked, and in just these calls; it must not have ended."""
    newest = {record.call: record.state for record in await run.steps()}
    state = (await run.info()).state
    assert state not in ENDED
    waiting = [call.name for call, step_state in newest.items() if step_state is StepState.WAITING]
    return state is RunState.WAITING and sorted(waiting) == sorted(names)


async def until_parked_in(run: Any, *names: str) -> None:
    """Wait, by reading it, until a run is parked in just these calls."""
    while not await is_parked_in(run, *names):
        pass


async def replayed(run: Any, time: Time) -> Any:
    """What a run returns that waits for a word to go on: parked until then, it replays all that came before."""
    while not await is_parked_in(run, "receive:go"):
        await time.advance("1ms")
    await run.signal("go")
    return await time.result(run)


async def until_state(run: Any, *wanted: RunState) -> None:
    """Wait, by reading it, until a run is in one of these states."""
    while (await run.info()).state not in wanted:
        pass


async def until_recorded(run: Any, times: int) -> None:
    """Wait, by reading it, until so many records of a run are there."""
    while len(await run.steps()) < times:
        pass


async def until(run: Any, met: Callable[[], bool]) -> None:
    """Wait, by reading a run, until something is so."""
    while not met():
        await run.info()


async def until_ran(run: Any, bodies: Bodies, name: str, times: int = 1) -> None:
    """Wait, by reading its run, until a body has run so often."""
    await until(run, lambda: bodies[name] >= times)


async def until_sleeping(run: Any, time: Time, span_ms: int) -> None:
    """Wait, by reading a run, until somebody sleeps so long by the clock."""
    await until(run, lambda: span_ms in time.clock.spans_ahead_ms())


async def event_types(run: Any) -> list[str]:
    """What has happened to a run, without its data."""
    return [event.type for event in await run.history()]
