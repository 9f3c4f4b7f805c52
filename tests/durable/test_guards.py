"""Guards around a run that is being parked or was taken away, each with a twin that lacks it."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from stepfast import Retry, RunCancelled, step, workflow
from stepfast.kernel.decisions import Park
from stepfast.workflows import stay
from stepfast.workflows.context import RunContext
from tests.support.apps import QUICK, Bodies, app_on, has_beaten
from tests.support.virtual_time import timed_app, until_ran


class GatedPark:
    """The store's commits, of which the one that parks a run waits at a gate."""

    def __init__(self, store) -> None:
        self._save = store.save
        store.save = self
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, decisions, again=False):
        if any(isinstance(decision.release, Park) for decision in decisions):
            self.reached.set()
            await self.open.wait()
        return await self._save(decisions, again)


async def bodies_when_a_backoff_ends_during_the_park(database, begun: int) -> Bodies:
    """How often the body has run in the end; `begun` of them have begun before the park is answered."""
    bodies, finish = Bodies(), asyncio.Event()

    @step(retry=Retry(attempts=2, base="1m", jitter=0))
    async def fragile() -> str:
        bodies.ran("fragile")
        if bodies["fragile"] == 1:
            raise ConnectionError("once")
        await finish.wait()
        return "done"

    @workflow
    async def flow() -> str:
        return await fragile()

    async with timed_app(database, flow) as (app, time):
        gate = GatedPark(app._open_parts().store)
        run = await app.start(flow)
        await gate.reached.wait()
        await time.advance("1m")
        await until_ran(run, bodies, "fragile", begun)
        await run.info()
        assert bodies["fragile"] == begun
        gate.open.set()
        await run.info()
        while (await run.info()).worker_id is None:
            await time.advance("1ms")
        finish.set()
        assert await time.result(run) == "done"
    return bodies


async def test_a_backoff_that_ends_during_the_park_begins_nothing(database):
    assert await bodies_when_a_backoff_ends_during_the_park(database, begun=1) == {"fragile": 2}


async def test_without_the_guard_a_park_cuts_off_what_has_begun(database, monkeypatch):
    async def at_once(context: RunContext) -> bool:
        return True

    monkeypatch.setattr(RunContext, "until_free", at_once)
    assert await bodies_when_a_backoff_ends_during_the_park(database, begun=2) == {"fragile": 3}


async def is_stopped_by_a_cancel(database, reads: int) -> bool:
    """Whether a body that was under way is cancelled, long before the next heartbeat, when its run is."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    @step
    async def stuck() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    @workflow
    async def flow() -> None:
        await stuck()

    async with app_on(database, [flow], replace(QUICK, lease_ms=600_000, heartbeat_ms=200_000)) as app:
        # The first heartbeat comes right behind the start, and would let go of the run, too.
        await has_beaten(app)
        run = await app.start(flow)
        await begun.wait()
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run
        for _ in range(reads):
            await run.info()
            if stopped.is_set():
                return True
    return False


async def test_a_look_lets_go_of_a_run_that_a_command_has_taken(database):
    assert await is_stopped_by_a_cancel(database, reads=1_000)


async def test_without_the_guard_the_holder_of_a_cancelled_run_goes_on(database, monkeypatch):
    async def look_away(context: RunContext) -> bool:
        return (await context.host.store.look(context.run.run_id)) is not None

    monkeypatch.setattr(RunContext, "look_now", look_away)
    assert not await is_stopped_by_a_cancel(database, reads=50)


NEWS = 500


async def looks_until_the_end(database, monkeypatch) -> int:
    """How often a run has looked when it ended, where each of its first looks finds that more has come meanwhile."""
    begun, finish, looks = asyncio.Event(), asyncio.Event(), Counter[str]()
    look_now = RunContext.look_now

    @step
    async def one(number: int) -> int:
        begun.set()
        await finish.wait()
        return number

    @workflow
    async def flow() -> int:
        return sum([await one(number) for number in range(3)])

    async def find_more(context: RunContext) -> bool:
        answer = await look_now(context)
        finish.set()
        looks["of the run"] += 1
        context._has_news = looks["of the run"] < NEWS
        return answer

    monkeypatch.setattr(RunContext, "look_now", find_more)
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await begun.wait()
        await run.signal("noise")
        assert await run.result() == 3
    return looks["of the run"]


async def test_a_run_goes_on_while_something_comes_for_it_all_the_time(database, monkeypatch):
    assert await looks_until_the_end(database, monkeypatch) < NEWS


async def test_without_turns_between_looks_a_run_waits_until_nothing_more_comes(database, monkeypatch):
    monkeypatch.setattr(stay, "LOOKS_IN_A_ROW", NEWS + 1)
    assert await looks_until_the_end(database, monkeypatch) == NEWS
