"""Sets of futures that are no tasks: code that goes through them takes the same way on every replay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from stepfast import receive, step, workflow
from stepfast.testing import engine
from stepfast.workflows.unsafe import unsafe_calls

KEPT: list[object] = []


@step
async def numbered(number: int) -> int:
    return number


def gathered(call: Coroutine[Any, Any, int]) -> asyncio.Future[Any]:
    return asyncio.gather(call)


def shielded(call: Coroutine[Any, Any, int]) -> asyncio.Future[Any]:
    return asyncio.shield(asyncio.create_task(call))


def answered(call: Coroutine[Any, Any, int]) -> asyncio.Future[Any]:
    answer = asyncio.get_running_loop().create_future()
    asyncio.create_task(call).add_done_callback(lambda task: answer.set_result(task.result()))
    return answer


def elsewhere_in_memory(make: Callable[..., asyncio.Future[Any]], number: int) -> asyncio.Future[Any]:
    """The code is the same each time, and memory never is."""
    KEPT.extend(object() for _ in range(len(KEPT) % 7 + 1))
    return make(numbered(number))


@pytest.mark.parametrize("make", [gathered, shielded, answered])
async def test_a_set_of_futures_has_the_same_order_on_every_replay(database, make):
    @workflow
    async def flow() -> list[int]:
        numbers = {elsewhere_in_memory(make, number): number for number in range(40)}
        done, _ = await asyncio.wait(numbers)
        found = [await numbered(100 + numbers[future]) for future in done]
        await receive("go")
        return found

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.signal(run, "go")
        assert sorted(await opened.result(run)) == [*range(100, 140)]


async def test_a_gather_is_called_off_and_raises_as_ever(database):
    @workflow
    async def flow() -> list[str]:
        waiting = asyncio.gather(receive("never"), receive("nowhere"))
        waiting.cancel()
        called_off, failing = await asyncio.gather(waiting, gathered(failed()), return_exceptions=True)
        return [type(called_off).__name__, type(failing).__name__]

    async def failed() -> int:
        raise ValueError(await numbered(1))

    async with engine(database=database, workflows=[flow]) as opened:
        assert await opened.run(flow) == ["CancelledError", "ValueError"]


def test_the_deploy_check_names_futures_that_code_makes_past_its_loop():
    @workflow
    async def careless() -> None:
        await asyncio.wait([asyncio.Future(), asyncio.Future()])

    found = unsafe_calls(careless.workflow)
    assert [call.call for call in found] == ["asyncio.Future"] * 2
    assert str(found[0]).endswith("which does not replay: use asyncio.get_running_loop().create_future().")
