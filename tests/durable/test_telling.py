"""Events of a workflow's own, progress, and putting a run off."""

from __future__ import annotations

import json

import pytest

from stepfast import Later, RunFailed, emit, progress, receive, step, workflow
from tests.support.apps import Bodies, app_on
from tests.support.virtual_time import replayed, timed_app


async def test_an_event_of_ones_own_is_written_once(database):
    @workflow
    async def flow() -> None:
        await emit("contract.published", {"id": 7})
        await receive("go")

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await replayed(run, time)
        own = [event for event in await run.history() if event.type == "contract.published"]
    assert [json.loads(event.data or "") for event in own] == [{"id": 7}]


async def test_an_event_cannot_pass_for_one_of_the_engines_own(database):
    @workflow
    async def flow() -> None:
        await emit("completed")

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match=r"order\.completed"):
            await (await app.start(flow))


async def test_a_def_workflow_emits_too(database):
    @workflow
    def flow() -> None:
        emit("all.done")

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        assert "all.done" in [event.type for event in await run.history()]


async def test_progress_of_workflow_and_step_is_told_and_not_repeated_on_replay(database):
    @step
    def work() -> None:
        progress(1, 2, "half")

    @workflow
    async def flow() -> None:
        progress(0, 2)
        await work.aio()
        await receive("go")
        progress(2, 2)

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await replayed(run, time)
        told = [json.loads(event.data or "") for event in await run.history() if event.type == "step_progress"]
    assert [each["done"] for each in told] == [0, 1, 2]


async def test_a_step_that_says_later_is_tried_again_without_costing_an_attempt(database):
    bodies = Bodies()

    @step
    async def not_yet() -> str:
        bodies.ran("not_yet")
        if bodies["not_yet"] < 7:
            raise Later("10ms")
        return "now"

    @workflow
    async def flow() -> str:
        return await not_yet()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        assert await time.result(run) == "now"
        records = await run.steps()
    assert bodies["not_yet"] == 7
    assert [record.attempt for record in records] == [1]
