"""Blocking code of other people, beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def in_thread(call: Callable[[], Any]) -> Any:
    """What the call returns, from a thread of its own that is left behind if nobody waits for it any more.

    It is no thread of a pool: one that hangs would take the place of others, and keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(value)
        else:
            answer.set_exception(error)

    def run() -> None:
        value, error = _outcome(call)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, value, error)

    _begin(contextvars.copy_context(), run)
    return await answer


async def called(function: Callable[..., Any], call: Callable[[], Any]) -> Any:
    """What a call of the function comes to: of a coroutine function here, of any other in a thread.

    A function may give a coroutine without being one, as decorated ones do.
    """
    answer = call() if inspect.iscoroutinefunction(function) else await in_thread(call)
    return await answer if inspect.isawaitable(answer) else answer


def within(call: Callable[[], T], limit_s: float) -> T:
    """The same for whoever cannot await: what the call returns; raises TimeoutError when that takes too long."""
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()
    _begin(contextvars.copy_context(), lambda: answers.put(_outcome(call)))
    try:
        value, error = answers.get(timeout=limit_s)
    except queue.Empty:
        raise TimeoutError(f"it did not end within {limit_s:g} s") from None
    if error is not None:
        raise error
    return cast(T, value)


def _begin(context: contextvars.Context, run: Callable[[], None]) -> None:
    threading.Thread(target=context.run, args=(run,), name="stepfast-executor", daemon=True).start()


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except (StopIteration, KeyboardInterrupt) as error:
        # No future takes the first; the second is no person's wish here, as those reach the main thread alone.
        return None, RuntimeError(f"it raised {type(error).__name__}: {error}".rstrip(": "))
    except BaseException as error:  # noqa: BLE001 - whatever it is, whoever waits here must hear of it
        return None, error
