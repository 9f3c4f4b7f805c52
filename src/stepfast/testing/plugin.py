"""Fixtures for pytest: an engine of the test's own, and its clock; found by pytest where stepfast is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stepfast.testing import BlockingEngine, Engine, VirtualClock
    from stepfast.testing.serving import Served

TESTS = pytest.StashKey[dict[str, set[str]]]()
"""The places of all tests that were collected, also of those that are left out, by the names of their modules."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Note where tests are written: what they and their modules define is theirs."""
    module, function = getattr(item, "module", None), getattr(item, "function", None)
    if module is not None:
        place = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
        item.session.stash.setdefault(TESTS, {}).setdefault(module.__name__, set()).add(place)


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


@pytest.fixture
def stepfast_workflows() -> Served:
    """What the engines of these fixtures have: a workflow, a module, or a list of such; to be overridden.

    As it is: every workflow of the process but those of other tests and their modules.
    """
    return None


@pytest.fixture
def _stepfast_served(request: pytest.FixtureRequest, stepfast_workflows: Served) -> Iterator[Iterable[Any] | None]:
    from stepfast.testing.serving import served, without_other_tests

    with without_other_tests(request.node, request.session.stash.get(TESTS, {})):
        yield served(stepfast_workflows)


@_async_fixture
async def stepfast_engine(
    stepfast_clock: VirtualClock, _stepfast_served: Iterable[Any] | None
) -> AsyncIterator[Engine]:
    """An engine on a temporary store, for `async def` tests."""
    from stepfast.testing import engine

    async with engine(clock=stepfast_clock, workflows=_stepfast_served) as opened:
        yield opened


@pytest.fixture
def stepfast_blocking_engine(
    stepfast_clock: VirtualClock, _stepfast_served: Iterable[Any] | None
) -> Iterator[BlockingEngine]:
    """An engine on a temporary store, for `def` tests."""
    from stepfast.testing import engine

    with engine(clock=stepfast_clock, workflows=_stepfast_served) as opened:
        yield opened
