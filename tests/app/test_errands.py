"""The engine's own tasks begin when the user's loop has its turn, whatever factory that loop has."""

from __future__ import annotations

import asyncio
from typing import Any

from stepfast import Run, RunState, StepState, receive, step, timeout, workflow
from stepfast.workflows import stay
from tests.support.apps import app_on
from tests.support.following import state_of, until


@step
async def echo(number: int) -> int:
    return number


@step(timeout="1m")
async def limited(number: int) -> int:
    return number


@workflow
async def waits() -> int:
    async with timeout("1h"):
        numbers = await asyncio.gather(received("first"), limited(2), receive("second", int, timeout="1h"))
    return sum(numbers)


async def received(name: str) -> int:
    await receive(name)
    return await echo(1)


async def has_echoed(run: Run[int]) -> bool:
    return any(step.call.name == "echo" and step.state is StepState.COMPLETED for step in await run.steps())


class Factory:
    """Makes tasks as a loop does, and counts those that could not begin at once: another loop is the running one."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.in_foreign_loops = 0

    def __call__(self, loop: asyncio.AbstractEventLoop, code: Any, **options: Any) -> asyncio.Task[Any]:
        self.in_foreign_loops += asyncio.get_running_loop() is not loop
        task = asyncio.Task(code, loop=loop, **options)
        self.names.append(task.get_name())
        return task


async def made_by_factory(database: str) -> Factory:
    """What the factory of a loop has made while an app was opened, executed a run that waits, and was closed.

    The run comes back from its park with a wait that goes on, and begins to watch the time of that in its own loop.
    """
    factory, loop = Factory(), asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        async with app_on(database, [waits]) as app:
            run = await app.start(waits)
            await state_of(run, RunState.WAITING)
            await run.signal("first")
            await until(lambda: has_echoed(run))
            await run.signal("second", 3)
            assert await run == 6
    finally:
        loop.set_task_factory(None)
    return factory


async def test_no_task_is_made_by_the_factory_of_another_loop_than_the_running_one(database):
    assert (await made_by_factory(database)).in_foreign_loops == 0


async def test_the_broken_twin_that_asks_the_factory_has_tasks_made_in_the_loop_of_a_run(database, monkeypatch):
    def by_factory(code, name=None, *, loop):
        return loop.create_task(code, name=name)

    monkeypatch.setattr(stay, "begin_errand", by_factory)
    assert (await made_by_factory(database)).in_foreign_loops > 0


async def test_what_the_engine_begins_is_none_of_the_factorys_business(database):
    assert not [name for name in (await made_by_factory(database)).names if name.startswith("stepfast-")]
