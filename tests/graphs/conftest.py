"""What tests of graphs may ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from stepfast.testing import engine
from stepfast.testing.engine import Engine

Desk = Callable[..., AbstractAsyncContextManager[Engine]]


@pytest.fixture
def desk(database: str) -> Desk:
    """An engine for some graphs, whose time stands still."""

    @asynccontextmanager
    async def opened(*graphs: Any) -> AsyncIterator[Engine]:
        async with engine(database=database, workflows=graphs) as at:
            yield at

    return opened
