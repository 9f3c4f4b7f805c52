"""Fixtures for the tests of patterns."""

from __future__ import annotations

import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from stepfast.testing import engine
from tests.patterns.page import Pattern, module_of, patterns
from tests.patterns.scenes import Scene, Tasks, workflows_of

Stage = Callable[[int], Awaitable[Scene]]
Prepared = Callable[[Pattern, Tasks], types.ModuleType]


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> Prepared:
    """Runs the Python of a pattern, with tasks of the test's own."""

    def prepare(pattern: Pattern, tasks: Tasks) -> types.ModuleType:
        own = types.ModuleType("tasks")
        own.__dict__["task"] = tasks.step()
        monkeypatch.setitem(sys.modules, "tasks", own)
        return module_of(pattern)

    return prepare


@pytest.fixture
async def stage(database: str, prepared: Prepared) -> AsyncIterator[Stage]:
    """Puts a pattern of the page on, by its number."""
    async with AsyncExitStack() as stack:

        async def put_on(number: int) -> Scene:
            pattern, tasks = patterns()[number], Tasks()
            module = prepared(pattern, tasks) if pattern.template is None else None
            known = workflows_of(module)
            opened = await stack.enter_async_context(engine(database=database, workflows=known))
            if pattern.template is None:
                return Scene(opened, tasks, module, known[-1])
            tasks.offer(opened.app, pattern.template)
            definition = await opened.app.register(pattern.template)
            return Scene(opened, tasks, module, definition.name)

        yield put_on
