"""The loops of runs, and how one callback of the outer loop drives all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from stepfast.workflows.loop import RunLoop, open_loop
from tests.support.turns import until_idle


def quiet() -> bool:
    return False


async def driven(*on_quiet: Callable[[], bool]) -> list[dict[str, Any]]:
    """Kick a loop for each, let the outer loop go round while it has anything to do, and return its errors."""
    outer, told = asyncio.get_running_loop(), []
    outer.set_exception_handler(lambda _, context: told.append(context))
    for loop in [open_loop(outer, each) for each in on_quiet]:
        loop.kick()
    await until_idle()
    return told


def noting(noted: list[int], number: int) -> bool:
    noted.append(number)
    return False


def breaking() -> bool:
    raise ArithmeticError("broken")


async def test_a_run_whose_loop_breaks_keeps_no_other_from_going_on():
    noted: list[int] = []
    told = await driven(partial(noting, noted, 1), breaking, partial(noting, noted, 2))
    assert noted == [1, 2]
    assert [type(context["exception"]) for context in told] == [ArithmeticError]


async def test_the_outer_loop_is_the_running_one_again_after_a_loop_broke():
    outer = asyncio.get_running_loop()
    await driven(breaking)
    assert asyncio.get_running_loop() is outer


async def test_a_loop_that_is_kicked_while_others_are_driven_is_driven_after_them():
    noted: list[int] = []
    late = open_loop(asyncio.get_running_loop(), partial(noting, noted, 3))

    def kick_the_late_one() -> bool:
        late.kick()
        return noting(noted, 1)

    await driven(kick_the_late_one, partial(noting, noted, 2))
    assert noted == [1, 2, 3]


def called_in(loop: RunLoop, *callbacks: Callable[[], object]) -> list[asyncio.Handle]:
    return [loop.call_soon(callback) for callback in callbacks]


async def test_a_callback_that_was_cancelled_is_not_called():
    called: list[str] = []
    loop = open_loop(asyncio.get_running_loop(), quiet)
    first, _ = called_in(loop, lambda: called.append("first"), lambda: called.append("second"))
    first.cancel()
    loop.drain(10)
    assert called == ["second"]
    assert first.cancelled()


async def test_what_a_callback_raises_keeps_no_other_of_its_run_from_being_called():
    called: list[str] = []
    loop = open_loop(asyncio.get_running_loop(), quiet)
    called_in(loop, breaking, lambda: called.append("next"))
    loop.drain(10)
    assert called == ["next"]
