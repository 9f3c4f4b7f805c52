"""The stores that the suite runs on: a store is added by a fixture `<name>_harness` and its name in STORES."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from stepfast.kernel.ports import Store
from stepfast.stores.sqlite.store import SqliteStore
from stepfast.stores.statements import unprefixed
from tests.stores.harness import NOON, Harness
from tests.stores.postgres import harness_on

STORES = ["sqlite", "postgres"]


@pytest.fixture(params=STORES)
def harness(request: pytest.FixtureRequest) -> Harness:
    """A fresh store of each kind, at noon."""
    found: Harness = request.getfixturevalue(f"{request.param}_harness")
    return found


@pytest.fixture
def store(harness: Harness) -> Store:
    return harness.store


class Hands:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now_ms = int(NOON)

    def __call__(self) -> int:
        return self.now_ms

    async def set(self, moment: int) -> None:
        self.now_ms = moment


@pytest.fixture
async def sqlite_harness(tmp_path: Path) -> AsyncIterator[Harness]:
    path, clock = tmp_path / "stepfast.db", Hands()
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


@pytest.fixture
async def postgres_harness(postgres_url: str) -> AsyncIterator[Harness]:
    async with harness_on(postgres_url) as harness:
        yield harness
