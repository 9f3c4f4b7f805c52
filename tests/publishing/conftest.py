"""What the tests of publishing share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from stepfast.testing import Engine, engine
from tests.publishing.harness import Place
from tests.support.workflows import say


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Engine]:
    """An engine whose events are there to be published."""
    async with engine(database=database, workflows=[say]) as opened:
        yield opened


@pytest.fixture
def place() -> Place:
    return Place()
