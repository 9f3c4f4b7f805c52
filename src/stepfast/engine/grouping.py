"""Grouping: what arrives while one commit is under way shares the next. No timer: what comes alone goes at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_ITEMS = 500
MAX_BYTES = 4 * 1024 * 1024


class Grouper(Generic[T]):
    """Feeds items, in order and in bounded batches, to one commit at a time."""

    def __init__(self, commit: Callable[[list[T]], Awaitable[None]], size_of: Callable[[T], int]) -> None:
        self._commit = commit
        self._size_of = size_of
        self._items: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._closing = False

    def __len__(self) -> int:
        return len(self._items)

    def start(self) -> None:
        """Begin to commit what is added."""
        self._worker = asyncio.get_running_loop().create_task(self._work(), name="stepfast-grouper")

    def add(self, item: T) -> None:
        """Commit this item with the next batch."""
        self._items.append(item)
        self._arrived.set()

    def put_back(self, items: list[T]) -> None:
        """Commit these before everything else, in their order."""
        self._items.extendleft(reversed(items))

    def take_all(self) -> list[T]:
        """Take back everything that no commit has begun with."""
        items = list(self._items)
        self._items.clear()
        return items

    async def close(self) -> None:
        """Commit what was added, then stop."""
        self._closing = True
        self._arrived.set()
        if self._worker is not None:
            await self._worker
            self._worker = None

    async def _work(self) -> None:
        while True:
            if self._items:
                await self._commit(self._next_batch())
            elif self._closing:
                return
            else:
                self._arrived.clear()
                await self._arrived.wait()

    def _next_batch(self) -> list[T]:
        batch: list[T] = []
        room = MAX_BYTES
        while self._items and len(batch) < MAX_ITEMS and room > 0:
            item = self._items.popleft()
            room -= self._size_of(item)
            batch.append(item)
        return batch
