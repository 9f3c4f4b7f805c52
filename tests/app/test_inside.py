"""The app's doors inside workflow code, where every replay would go through them again."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import RunFailed, WrongCall, step, workflow
from tests.support.apps import app_on
from tests.support.workflows import say


@pytest.fixture
def app(database):
    return app_on(database, [say])


CALLS = {
    "start": lambda app, run: app.start(say, "hello"),
    "start_many": lambda app, run: app.start_many([]),
    "get": lambda app, run: app.get(run.id).info(),
    "runs": lambda app, run: app.runs(),
    "signal": lambda app, run: run.signal("go"),
    "cancel": lambda app, run: run.cancel(),
    "result": lambda app, run: run.result(),
    "letters": lambda app, run: app.dead_letters.list(),
    "bulk": lambda app, run: app.change_many("cancel", {}),
}


async def refusal(app, inside):
    with pytest.raises(RunFailed) as failed:
        await (await app.start(inside)).result(timeout="30s")
    return failed.value.__cause__


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_an_async_workflow_cannot_call_the_app(app, call):
    async with app:
        other = await app.start(say, "hello")
        assert await other.result(timeout="30s") == "hello"

        @workflow
        async def inside() -> None:
            await call(app, other)

        assert isinstance(await refusal(app, inside), WrongCall)
        assert len(await app.runs("say")) == 1


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_def_workflow_cannot_call_the_app(app, call):
    async with app:
        other = await app.start(say, "hello")
        assert await other.result(timeout="30s") == "hello"

        @workflow
        def inside() -> None:
            asyncio.run(call(app, other))

        assert isinstance(await refusal(app, inside), WrongCall)
        assert len(await app.runs("say")) == 1


async def test_a_step_can_call_the_app(app):
    async with app:

        @step
        async def start_another() -> str:
            return str((await app.start(say, "from a step")).id)

        @workflow
        async def outside() -> str:
            return await start_another()

        run_id = await (await app.start(outside)).result(timeout="30s")
        assert await app.get(run_id).result(timeout="30s") == "from a step"
