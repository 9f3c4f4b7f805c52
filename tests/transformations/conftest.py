"""What the tests of transformations share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast.testing import Engine, engine
from tests.transformations.harness import CALLS, WORLD, docs, transforming, transforming_in_a_thread


@pytest.fixture(autouse=True)
def nothing_called() -> None:
    CALLS.clear()
    WORLD.clear()


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Engine]:
    """An engine that has the transformations of these tests."""
    workflows: list[Any] = [transforming, transforming_in_a_thread]
    async with engine(database=database, workflows=workflows, executors=[docs]) as made:
        yield made
