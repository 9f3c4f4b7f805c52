"""What policy tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stepfast.testing import Engine, engine
from tests.policies.harness import CALLS, WORLD, docs, policy


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()
    WORLD.clear()


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Engine]:
    """An engine whose templates find the executors of these tests."""
    async with engine(database=database, workflows=[], executors=[docs, policy]) as made:
        yield made


@pytest.fixture
async def memory() -> AsyncIterator[Engine]:
    """The same in memory, for what is the same on every store."""
    async with engine(workflows=[], executors=[docs, policy]) as made:
        yield made
