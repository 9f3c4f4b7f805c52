"""Blocking code of other people, beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any


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

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name="stepfast-executor", daemon=True).start()
    return await answer


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except StopIteration as error:
        # No future takes it; out of a coroutine Python itself makes it this.
        return None, RuntimeError(f"it raised StopIteration: {error}")
    except BaseException as error:  # noqa: BLE001 - whatever it is, whoever waits here must hear of it
        return None, error
