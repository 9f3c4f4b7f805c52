"""A run whose records do not fit the code is left alone until there is other code, whatever comes for it meanwhile."""

from __future__ import annotations

import asyncio
from collections import Counter

from stepfast import RunState, WaitTimeout, receive, sleep, step, workflow
from stepfast.testing import VirtualClock, engine
from tests.reconstruction.watching import Watch


@step
async def charge(amount: int) -> None: ...


def code(amount: int):
    """A workflow that sleeps for a second beside a wait for a signal, and that charges so much before."""

    @workflow(name="order")
    async def order() -> str:
        await charge(amount)
        _, word = await asyncio.gather(sleep("1s"), heard())
        return word

    return order


async def heard() -> str:
    try:
        return await receive("word", str, timeout="1h")
    except WaitTimeout:
        return "nothing"


async def without_its_code(database, clock) -> str:
    """A run that code met which does not fit it, once its sleep was over."""
    async with engine(database=database, workflows=[code(1)], clock=clock) as opened:
        run = await opened.start("order")
        await opened.run_until_idle()
    async with engine(database=database, workflows=[code(2)], clock=clock) as opened:
        clock.advance("2s")
        await opened.run_until_idle()
        assert (await opened.info(run.id)).state is RunState.WAITING
    return run.id


async def test_its_timers_and_signals_do_not_bring_it_back(database):
    clock, watch = VirtualClock(), Watch()
    run_id = await without_its_code(database, clock)
    async with engine(database=database, workflows=[code(2)], clock=clock, around=watch.around) as opened:
        await opened.run_until_idle()
        before = Counter(event.type for event in await opened.events(run_id))
        await opened.signal(run_id, "word", "late")
        for _ in range(3):
            clock.advance("1d")
            await opened.run_until_idle()
        added = Counter(event.type for event in await opened.events(run_id)) - before
        assert (added, (await opened.info(run_id)).state) == ({"signalled": 1}, RunState.WAITING)
    assert watch.found == []


async def test_why_says_that_nothing_else_moves_it(database):
    clock = VirtualClock()
    run_id = await without_its_code(database, clock)
    async with engine(database=database, workflows=[], clock=clock) as opened:
        said = str(await opened.app.get(run_id).why())
    assert "Its time has come: The run goes on from there when it has code that fits." in said


async def test_once_it_has_its_code_what_came_in_time_counts(database):
    clock = VirtualClock()
    run_id = await without_its_code(database, clock)
    async with engine(database=database, workflows=[], clock=clock) as opened:
        await opened.signal(run_id, "word", "hello")
        clock.advance("1d")
    async with engine(database=database, workflows=[code(1)], clock=clock) as opened:
        assert await opened.result(run_id) == "hello"


async def test_once_it_has_its_code_what_came_too_late_does_not(database):
    clock = VirtualClock()
    run_id = await without_its_code(database, clock)
    async with engine(database=database, workflows=[], clock=clock) as opened:
        clock.advance("1d")
        await opened.signal(run_id, "word", "hello")
    async with engine(database=database, workflows=[code(1)], clock=clock) as opened:
        assert await opened.result(run_id) == "nothing"


async def test_it_is_nothing_that_a_doctor_would_complain_of(database):
    clock = VirtualClock()
    run_id = await without_its_code(database, clock)
    async with engine(database=database, workflows=[], clock=clock) as opened:
        clock.advance("7d")
        assert (await opened.info(run_id)).state is RunState.WAITING
        assert await opened.app.parts.store.findings() == []
