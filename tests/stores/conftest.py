"""The stores that the suite runs on: a store is added by a fixture `<name>_harness` and its name in STORES."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stepfast.kernel.ports import Store
from stepfast.stores.postgres.store import PostgresStore
from stepfast.testing.temporary import new_store
from tests.stores import postgres, sqlite
from tests.stores.harness import Harness

STORES = ["sqlite", "postgres"]


@pytest.fixture(params=STORES)
def harness(request: pytest.FixtureRequest) -> Harness:
    """A fresh store of each kind, at noon."""
    found: Harness = request.getfixturevalue(f"{request.param}_harness")
    return found


@pytest.fixture
def store(harness: Harness) -> Store:
    return harness.store


@pytest.fixture
async def sqlite_harness(tmp_path: Path) -> AsyncIterator[Harness]:
    path = tmp_path / "stepfast.db"
    await new_store(path)
    async with sqlite.harness_on(path) as harness:
        yield harness


@pytest.fixture
async def postgres_store(migrated_postgres_url: str) -> AsyncIterator[PostgresStore]:
    """One that goes by its own clock, as it does outside of tests."""
    async with postgres.opened(migrated_postgres_url) as store:
        yield store


@pytest.fixture
async def postgres_harness(migrated_postgres_url: str) -> AsyncIterator[Harness]:
    async with postgres.harness_on(migrated_postgres_url) as harness:
        yield harness
