"""`Later` and `continue_as` in a `TaskGroup`, which makes a group of whatever ends a task of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from stepfast import Later, Retry, RunFailed, StepFailed, continue_as, step, workflow
from stepfast.workflows.bodies import ContinueAs, as_meant
from tests.support.apps import Bodies, app_on

bodies = Bodies()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    bodies.clear()


@step
async def echo(number: int) -> int:
    return number


async def begin_again(number: int) -> None:
    continue_as(await echo(number) + 1)


async def not_now() -> None:
    bodies.ran("not now")
    if bodies["not now"] < 3:
        raise Later("5ms")


async def nested(call: Awaitable[Any]) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_awaited(call))


async def _awaited(call: Awaitable[Any]) -> Any:
    return await call


@workflow
async def starts_over(number: int) -> int:
    if number < 3:
        async with asyncio.TaskGroup() as group:
            group.create_task(begin_again(number))
    return number


@workflow
async def starts_over_below(number: int) -> int:
    if number < 3:
        await nested(nested(begin_again(number)))
    return number


@workflow
async def starts_over_in_the_block(number: int) -> int:
    if number < 3:
        async with asyncio.TaskGroup():
            continue_as(number + 1)
    return number


@workflow
async def waits(number: int) -> int:
    await nested(not_now())
    return 3


@step(retry=Retry(attempts=1))
async def waits_below() -> int:
    await nested(nested(not_now()))
    return 3


@workflow
async def waits_in_a_step(number: int) -> int:
    return await waits_below()


@workflow
def waits_in_a_thread(number: int) -> int:
    return waits_below.sync()


@workflow
def starts_over_in_a_thread(number: int) -> int:
    if number < 3:
        try:
            continue_as(number + 1)
        except BaseException as wish:  # noqa: BLE001 - that is what a group of threads does
            raise BaseExceptionGroup("made by hand", [wish]) from None
    return number


ALL = [
    starts_over,
    starts_over_below,
    starts_over_in_the_block,
    starts_over_in_a_thread,
    waits,
    waits_in_a_step,
    waits_in_a_thread,
]


@pytest.mark.parametrize("flow", ALL, ids=lambda flow: flow.workflow.name)
async def test_a_wish_in_a_group_is_granted(database, flow):
    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow, 0)).result("60s") == 3


@workflow
async def fails_beside_a_wish() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(begin_again(1))
        group.create_task(fails_when_called_off())


async def fails_when_called_off() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("the real one")


@step(retry=Retry(attempts=1))
async def step_that_fails_beside_a_wish() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(not_now())
        group.create_task(fails_when_called_off())


@workflow
async def fails_in_a_step() -> None:
    await step_that_fails_beside_a_wish()


@pytest.mark.parametrize("flow", [fails_beside_a_wish, fails_in_a_step], ids=lambda flow: flow.workflow.name)
async def test_a_wish_beside_a_failure_counts_for_nothing(database, flow):
    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed) as failed:
            await (await app.start(flow)).result("60s")
    cause = failed.value.__cause__
    assert isinstance(cause, ExceptionGroup)
    assert [repr(error) for error in cause.exceptions] == ["ValueError('the real one')"]


class Whole(ExceptionGroup):
    def split(self, condition: Any) -> Any:
        raise TypeError("cannot be taken apart")


def test_a_group_that_cannot_be_taken_apart_stays_as_it_is():
    group = Whole("whole", [Later("1s")])
    assert as_meant(group) is group


def test_a_group_of_failures_stays_as_it_is():
    group = ExceptionGroup("failures", [ValueError("1")])
    assert as_meant(group) is group


def test_of_several_wishes_the_first_is_granted():
    first = ContinueAs((1,), {})
    assert as_meant(BaseExceptionGroup("wishes", [ExceptionGroup("x", [Later("1s")]), first])) is not first
    assert as_meant(BaseExceptionGroup("wishes", [first, Later("1s")])) is first


async def test_an_error_without_a_message_is_told_by_its_name(database):
    class Odd(Exception):
        pass

    @step(retry=Retry(attempts=1))
    async def odd() -> None:
        raise Odd

    @workflow
    async def tells() -> str:
        try:
            await odd()
        except StepFailed as error:
            return str(error)
        return "nothing"

    async with app_on(database, [tells]) as app:
        told = await (await app.start(tells)).result("60s")
    assert told.endswith("Odd without a message")
