"""Something that several may need at once: whoever comes first opens it, and whoever goes last closes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Shared(Generic[T]):
    """Opened once for all who use it at the same time."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, T]], close: Callable[[], Awaitable[None]]) -> None:
        self._open = open_
        self._close = close
        self._users = 0
        self._opening: asyncio.Task[T] | None = None

    @property
    def is_used(self) -> bool:
        """Whether it is open, or about to be, for those who use it."""
        return self._opening is not None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[T]:
        """Have it for the length of the block."""
        self._users += 1
        try:
            if self._opening is None:
                self._opening = asyncio.create_task(self._open(), name="stepfast-opening")
            # Whoever gives up waiting must not take it away from the others.
            yield await asyncio.shield(self._opening)
        finally:
            self._users -= 1
            if self._opening is not None:
                await self._leave(self._opening)

    async def _leave(self, opening: asyncio.Task[T]) -> None:
        await asyncio.wait([opening])
        if self._users or self._opening is not opening:
            return
        self._opening = None
        if not opening.cancelled() and opening.exception() is None:
            await self._close()
