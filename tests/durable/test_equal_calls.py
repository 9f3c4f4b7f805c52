"""Calls that are cut off, called off or superseded beside equal ones: each keeps its own record."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from stepfast import Retry, RunFailed, WaitTimeout, race, sleep, step, timeout, workflow
from stepfast.testing import crash_points, engine
from tests.support.apps import Bodies
from tests.support.turns import turn

BODIES = Bodies()


@pytest.fixture(autouse=True)
def start_afresh():
    BODIES.clear()


@step(key=lambda turns: 0)
async def draw(turns: int) -> int:
    """Equal for whoever compares its arguments; a value of its own each time."""
    for _ in range(turns):
        await turn()
    BODIES.ran("draw")
    return BODIES["draw"]


@workflow
async def draw_two() -> list[int]:
    drawn = await asyncio.gather(draw(20), draw(0))
    await sleep("1s")
    await sleep("1s")
    return list(drawn)


async def test_equal_calls_side_by_side_keep_their_records_when_one_is_cut_off_by_a_crash():
    async def scenario(opened):
        BODIES.clear()
        await opened.run(draw_two)
        assert BODIES["draw"] <= 2 + opened.crashes

    await crash_points(scenario, workflows=[draw_two])


async def test_equal_calls_side_by_side_keep_their_records_when_one_is_retried(database):
    @step(retry=Retry(attempts=1))
    async def toss() -> int:
        BODIES.ran("toss")
        if BODIES["toss"] == 1:
            raise ValueError
        return BODIES["toss"]

    @workflow
    async def flow() -> list[int]:
        tossed = await asyncio.gather(toss(), toss())
        await sleep("1s")
        return list(tossed)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        with pytest.raises(RunFailed):
            await opened.result(run)
        await run.retry()
        assert await opened.result(run) == [3, 2]
    assert BODIES["toss"] == 3


async def test_a_call_off_that_a_crash_kept_from_its_record_is_recorded_by_the_next_holder(database):
    begun = asyncio.Event()

    @step
    async def ask(office: str) -> str:
        if office == "far":
            begun.set()
            await asyncio.Event().wait()
        return office

    @workflow
    async def flow() -> str:
        try:
            async with timeout("1s"):
                await ask("far")
        except WaitTimeout:
            pass
        answer = await ask("near")
        await sleep("1s")
        return answer

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        idle = asyncio.create_task(opened.run_until_idle())
        await begun.wait()
        while not await run.steps():
            pass
        opened.crash_after("sleep")
        opened.clock.advance("1s")
        await idle
        assert await opened.result(run) == "near"


async def test_a_body_that_goes_on_after_it_was_called_off_has_no_second_end(database):
    @step
    async def stubborn() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "all the same"

    @step
    async def quick() -> None:
        """Wins every race against those that never end."""

    @workflow
    async def flow() -> None:
        await race(slow=stubborn(), quick=quick())
        await quick()

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.result(run)
        states = [str(step.state) for step in await run.steps() if step.call.name == "stubborn"]
    assert states == ["cancelled"]
