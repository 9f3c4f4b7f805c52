"""The SQLite store under test: its clock, and a way to ask it by SQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
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


async def hurry(harness: Harness) -> None:
    """Do not wait for the disk: for tests that commit thousands of times and outlive no crash."""
    store: Any = harness.store
    for part in (store._writer, store._beats):
        await part._in_thread(partial(part._connection.execute, "pragma synchronous = off"))


@asynccontextmanager
async def harness_on(path: Path) -> AsyncIterator[Harness]:
    """A fresh store at noon, with a clock that stands until it is set."""
    clock = Hands()
    store = SqliteStore(path, clock)
    await store.open()

    connection = apsw.Connection(str(path))

    async def query(text: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        return connection.execute(unprefixed(text), parameters).fetchall()

    yield Harness(store, clock.set, query)
    connection.close()
    await store.close()
