"""A store that puts off what it has said it did: the part that broken twins share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stepfast.kernel.ports import Store


class OwingStore:
    """Does what it owes when it is next asked for something; who dies before that never does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owed: list[Callable[[], Awaitable[object]]] = []

    def __getattr__(self, method: str) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            await self._pay()
            return await getattr(self._store, method)(*args, **named)

        return call

    async def _pay(self) -> None:
        owed, self._owed = self._owed, []
        for act in owed:
            await act()
