"""Grouping: what arrives while one commit is under way shares the next. No timer: what comes alone goes at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from stepfast.errands import begin_errand

T = TypeVar("T")

MAX_ITEMS = 500
MAX_BYTES = 4 * 1024 * 1024
# Fewer than these are not worth a commit of their own.
SMALLEST_TURN = 32


class Grouper(Generic[T]):
    """Feeds items, in order and in bounded batches, to one commit at a time.

    `in_turns` is for items that come back once they are answered, as the next steps of their runs do: it says whose an
    item is. Were all of them in one batch, this process would rest while the store works, and the store while the
    process computes; so one half commits while the other computes. Many items of one owner, as a run's that does a
    thousand things at once, do not come back one by one, and share what commits they can.
    """

    def __init__(
        self,
        commit: Callable[[list[T]], Awaitable[None]],
        size_of: Callable[[T], int],
        in_turns: Callable[[T], Hashable] | None = None,
    ) -> None:
        self._commit = commit
        self._size_of = size_of
        self._in_turns = in_turns
        self._answered = 0
        self._items: deque[T] = deque()
        self._arrived = asyncio.Event()
        self._worker: asyncio.Task[None] | None = None
        self._closing = False
        self._rests = False
        """Whether there was nothing to commit when it last looked."""

    def __len__(self) -> int:
        return len(self._items)

    def start(self) -> None:
        """Begin to commit what is added."""
        self._worker = begin_errand(self._work(), "stepfast-grouper")

    def add(self, item: T) -> None:
        """Commit this item with the next batch."""
        self._items.append(item)
        if self._rests:
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
                self._rests = True
                await self._arrived.wait()
                self._rests = False

    def _next_batch(self) -> list[T]:
        batch: list[T] = []
        room, most = MAX_BYTES, self._most()
        while self._items and len(batch) < most and room > 0:
            item = self._items.popleft()
            room -= self._size_of(item)
            batch.append(item)
        self._answered = len(batch)
        return batch

    def _most(self) -> int:
        if self._in_turns is None or 2 * len(set(map(self._in_turns, self._items))) < len(self._items):
            return MAX_ITEMS
        # Those of the last batch were answered just now: they are the other half of what is under way.
        half = (len(self._items) + self._answered + 1) // 2
        return min(MAX_ITEMS, max(SMALLEST_TURN, half))
