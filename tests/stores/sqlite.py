"""The SQLite store under test: its clock, and a way to ask it by SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from stepfast.stores.sqlite.store import SqliteStore
from stepfast.stores.statements import unprefixed
from tests.stores.harness import NOON, Harness


class Hands:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_ms = int(NOON)

    def __call__(self) -> int:
        return self.now_ms

    async def set(self, moment: int) -> None:
        self.now_ms = moment


@asynccontextmanager
async def harness_on(path: Path) -> AsyncIterator[Harness]:
    """A fresh store at noon, with a clock that stands until it is set."""
    clock = Hands()
    store = SqliteStore(path, clock)
    await store.open()

    async def query(text: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(path))
        try:
            return connection.execute(unprefixed(text), parameters).fetchall()
        finally:
            connection.close()

    yield Harness(store, clock.set, query)
    await store.close()
