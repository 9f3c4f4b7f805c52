"""Tasks of the engine itself on a loop that is somebody else's."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def begin_errand(
    code: Coroutine[Any, Any, T],
    name: str | None = None,
    *,
    loop: asyncio.AbstractEventLoop | None = None,
    context: contextvars.Context | None = None,
) -> asyncio.Task[T]:
    """Run code in a task that begins when its loop has its next turn.

    Not by the loop's own factory: one that begins tasks at once (`asyncio.eager_task_factory`) would have them begin
    inside of what makes them, and there another loop may be the running one, that of a run's code.
    """
    return asyncio.Task(code, loop=loop or asyncio.get_running_loop(), name=name, context=context)
