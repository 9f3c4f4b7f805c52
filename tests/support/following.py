"""Following a run from outside until it has come to where a test needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from stepfast import Run, RunState, Stepfast
from stepfast.kernel.exchange import Look
from stepfast.kernel.ids import RunId
from tests.support.turns import turn

T = TypeVar("T")


async def state_of(run: Run[Any], *wanted: RunState) -> RunState:
    """The run's state, once it is one of these."""

    async def reached() -> RunState | None:
        state = (await run.info()).state
        return state if state in wanted else None

    return await until(reached)


async def told(run: Run[Any], event: str) -> None:
    """Return once the run's history has an event of this type."""

    async def reached() -> bool:
        return any(found.type == event for found in await run.history())

    await until(reached)


async def until(ask: Callable[[], Awaitable[T | None]]) -> T:
    """Ask again and again until there is an answer."""
    async with asyncio.timeout(60):
        while not (answer := await ask()):
            await turn()
    return answer


def looks_of(app: Stepfast, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a holder in this process has looked at what came for its run."""
    assert app._parts is not None
    looked, look = asyncio.Event(), app._parts.store.look

    async def look_and_tell(run_id: RunId) -> Look | None:
        seen = await look(run_id)
        looked.set()
        return seen

    monkeypatch.setattr(app._parts.store, "look", look_and_tell)
    return looked
