"""Running an event loop to its end, also when code that runs in it raises KeyboardInterrupt."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_order(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, but a KeyboardInterrupt that a step raises lets the work leave as Ctrl-C does.

    It breaks the loop off between two callbacks. `asyncio.run` then cancels all tasks at once, and a worker that has to
    hand its runs back would wait in vain for those that bring them to the store.
    """
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(_tell_unless_interrupted)
        main = runner.get_loop().create_task(work)
        try:
            return runner.run(_result(main))
        except KeyboardInterrupt:
            _leave(runner, main)
            raise


async def _result(task: asyncio.Task[T]) -> T:
    return await task


def _leave(runner: asyncio.Runner, main: asyncio.Task[Any]) -> None:
    """Let the work end by itself, however many steps raise the same; Ctrl-C in between cuts that short."""
    if main.done() or main.cancelling():
        # Ctrl-C has asked for that by itself, and this is the second one.
        return
    main.cancel()
    while not main.done() and main.cancelling() == 1:
        with suppress(KeyboardInterrupt, asyncio.CancelledError):
            runner.run(_ended(main))


async def _ended(task: asyncio.Task[Any]) -> None:
    await asyncio.gather(task, return_exceptions=True)


def _tell_unless_interrupted(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # The task of the step has it as its end, which nobody asks for: the process leaves with it.
    if not isinstance(context.get("exception"), KeyboardInterrupt):
        loop.default_exception_handler(context)
