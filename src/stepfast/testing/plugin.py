"""Fixtures for pytest: an engine of the test's own, and its clock; found by pytest where stepfast is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stepfast.testing import BlockingEngine, Engine, VirtualClock


def _async_fixture(function: Any) -> Any:
    # In its strict mode pytest-asyncio takes no other fixtures than its own; anyio takes plain ones.
    if importlib.util.find_spec("pytest_asyncio") is None:
        return pytest.fixture(function)
    import pytest_asyncio

    return pytest_asyncio.fixture(function)


@pytest.fixture
def stepfast_clock() -> VirtualClock:
    """The clock that this test's engine goes by; it moves when the test says so."""
    from stepfast.testing import VirtualClock

    return VirtualClock()


@_async_fixture
async def stepfast_engine(stepfast_clock: VirtualClock) -> AsyncIterator[Engine]:
    """An engine on a temporary store, for `async def` tests."""
    from stepfast.testing import engine

    async with engine(clock=stepfast_clock) as opened:
        yield opened


@pytest.fixture
def stepfast_blocking_engine(stepfast_clock: VirtualClock) -> Iterator[BlockingEngine]:
    """An engine on a temporary store, for `def` tests."""
    from stepfast.testing import engine

    with engine(clock=stepfast_clock) as opened:
        yield opened
