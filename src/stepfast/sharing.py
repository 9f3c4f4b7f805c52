"""Something that several may need at once: whoever comes first opens it, and whoever goes last closes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Generic, TypeVar

from stepfast.errands import begin_errand
from stepfast.kernel.errors import StepfastError

OTHER_LOOP = "This app is open in another event loop. Use it from there, or make an app of its own for this one."

T = TypeVar("T")


class Opening(Generic[T]):
    """One life of it, from its opening on, with those who use it."""

    def __init__(self, code: Coroutine[Any, Any, T]) -> None:
        self.loop = asyncio.get_running_loop()
        self.task = begin_errand(code, "stepfast-opening")
        self.users = 0

    @property
    def is_open(self) -> bool:
        return self.task.done() and not self.task.cancelled() and self.task.exception() is None


class Shared(Generic[T]):
    """Opened once for all who use it at the same time, in one event loop."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, T]], close: Callable[[], Awaitable[None]]) -> None:
        self._open = open_
        self._close = close
        self._current: Opening[T] | None = None
        self._ending: asyncio.Task[None] | None = None

    @property
    def is_used(self) -> bool:
        """Whether it is open, or about to be, for those who use it."""
        return self._current is not None

    def forget(self) -> None:
        """Somebody has closed it under those who use it: they have nothing to close any more."""
        self._current = None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[T]:
        """Have it for the length of the block."""
        opening = await self._joined()
        try:
            # Whoever gives up waiting must not take it away from the others.
            yield await asyncio.shield(opening.task)
        finally:
            opening.users -= 1
            if not opening.users and self._current is opening:
                self._current = None
                self._ending = begin_errand(self._end(opening), "stepfast-closing")
                # In a task of its own: whoever leaves may be cancelled once more, and must not leave it half closed.
                await asyncio.shield(self._ending)

    async def _joined(self) -> Opening[T]:
        """The opening that is used now, or a new one, with one more user."""
        while self._ending is not None and is_alive(self._ending.get_loop()) and not self._ending.done():
            await asyncio.wait([self._ending])
        if self._current is None or not is_alive(self._current.loop):
            self._current = Opening(self._open())
        self._current.users += 1
        return self._current

    async def _end(self, opening: Opening[T]) -> None:
        await asyncio.wait([opening.task])
        if opening.is_open:
            await self._close()


def is_alive(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether what belongs to a loop can be used here; what a loop leaves behind that was closed is gone with it."""
    if loop is asyncio.get_running_loop():
        return True
    if loop.is_closed():
        return False
    raise StepfastError(OTHER_LOOP)


def refuse_in_other_loop(loop: asyncio.AbstractEventLoop, told: str = OTHER_LOOP) -> None:
    """Refuse to those who are in another loop what would wait for ever, or fail with an error of the driver."""
    with suppress(RuntimeError):
        if asyncio.get_running_loop() is not loop:
            raise StepfastError(told)
