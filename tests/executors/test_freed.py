"""What is known of a step by its name goes with the step."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from stepfast import Outside, Pending, step
from stepfast.workflows.executors.executor import executor_of_step


def forgotten(make: Any) -> bool:
    """Whether nothing is left of a step and of its executor once nobody refers to them."""
    made = make()
    executor = executor_of_step(made.alone)
    assert executor_of_step(made.alone) is executor
    assert executor.inputs["type"] == "object"
    left = [weakref.ref(each) for each in (made, made.alone, executor, executor.alone)]
    del made, executor
    gc.collect()
    return not any(each() for each in left)


def test_a_step_is_freed_with_its_executor():
    def make() -> Any:
        @step
        async def alone(number: int) -> int:
            return number

        return alone

    assert forgotten(make)


def test_a_step_that_refers_to_itself_is_freed_with_its_executor():
    def make() -> Any:
        @step
        async def endless(number: int) -> int:
            return await endless(number)

        return endless

    assert forgotten(make)


def test_a_step_whose_poll_refers_to_it_is_freed():
    def make() -> Any:
        @step
        async def ask(handle: str) -> Pending | int:
            return Pending() if handle else launch.body.limits.total_ms or 0

        @step
        async def launch() -> Outside[int]:
            return Outside("job", poll=ask)

        launch.body.polls["ask"] = ask.body
        return launch

    assert forgotten(make)
