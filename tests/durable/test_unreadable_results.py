"""A run does not complete with a result that nobody could read."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest

from stepfast import RunFailed, RunState, workflow
from stepfast.kernel.errors import Unstorable
from tests.support.apps import app_on

NOTHING = cast(Any, None)


@workflow
async def forgetful() -> str:
    return cast(str, NOTHING)


@workflow
async def forgetful_inside() -> list[str]:
    return ["a", NOTHING]


@workflow
def forgetful_in_def() -> str:
    return cast(str, NOTHING)


@pytest.mark.parametrize("flow", [forgetful, forgetful_inside, forgetful_in_def], ids=["whole", "inside", "def"])
async def test_a_workflow_that_returns_none_against_its_hint_fails_as_a_step_does(database, flow):
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="which does not fit its hint") as failed:
            await run
        assert isinstance(failed.value.__cause__, Unstorable)
        assert (await run.info()).state is RunState.FAILED


async def test_none_is_a_result_where_the_hint_allows_it(database):
    @workflow
    async def maybe() -> str | None:
        return None

    async with app_on(database, [maybe]) as app:
        assert await (await app.start(maybe)) is None


@dataclasses.dataclass(eq=False)
class Unloaded:
    """Raises what it likes when it is looked at."""

    name: str
    size: int = dataclasses.field(init=False, repr=False)


def _size(unloaded: Unloaded) -> int:
    raise RuntimeError("not loaded")


Unloaded.size = property(_size)  # type: ignore[assignment]


async def test_a_result_whose_own_code_raises_fails_the_run_and_does_not_hold_it(database):
    @workflow
    async def flow() -> Unloaded:
        return Unloaded("a")

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="not loaded"):
            await (await app.start(flow)).result(timeout="5s")
