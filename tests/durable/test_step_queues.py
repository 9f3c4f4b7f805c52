"""Steps with a queue of their own: each call is a run that a worker of that queue takes."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from stepfast import Retry, RunFailed, RunState, each, step, workflow
from stepfast.workflows.registry import DEFINED_STEPS
from tests.durable.test_waiting import until
from tests.support.apps import QUICK, Bodies, app_on


async def test_a_step_runs_on_a_worker_that_serves_its_queue(database):
    @step(queue="gpu", name="embed_text")
    async def embed(text: str) -> list[float]:
        return [float(len(text))]

    @workflow
    async def flow() -> list[float]:
        return await embed("hello")

    only_default = replace(QUICK, queues=("default",))
    only_gpu = replace(QUICK, queues=("gpu",))
    async with app_on(database, [flow], worker=only_default) as app:
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        (waiting,) = [view for view in await app.runs() if view.parent_id == run.id]
        assert (waiting.kind, waiting.queue, waiting.state) == ("step", "gpu", RunState.PENDING)
        async with app_on(database, [flow], worker=only_gpu):
            assert await run == [5.0]


async def test_its_error_is_the_steps_own_after_its_own_retries(database):
    bodies = Bodies()

    @step(queue="fragile", retry=Retry(attempts=3, base=0))
    def break_apart() -> None:
        bodies.ran("break_apart")
        raise LookupError("broken")

    @workflow
    def flow() -> str:
        try:
            break_apart()
        except LookupError as error:
            return str(error)
        return ""

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == "broken"
    assert bodies["break_apart"] == 3


async def test_two_steps_of_one_name_with_queues_are_refused(database):
    @step(queue="a", name="same_name")
    async def first() -> None: ...

    @step(queue="b", name="same_name")
    async def second() -> None: ...

    with pytest.raises(Exception, match="same_name"):
        async with app_on(database, []):
            pass
    del first, second


async def test_a_step_with_a_queue_fails_its_run_like_any_other(database):
    @step(queue="gpu", retry=Retry(attempts=1))
    async def explode() -> None:
        raise ValueError("boom")

    @workflow
    async def flow() -> None:
        await explode()

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="boom"):
            await (await app.start(flow))


async def test_each_over_such_a_step_starts_all_items_with_one_wait(database):
    @step(queue="gpu")
    async def square(number: int) -> int:
        return number * number

    @workflow
    async def flow() -> list[int]:
        return await each(square, range(50))

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        assert await run == [number * number for number in range(50)]
        assert len(await run.steps()) == 2


async def embedded_and_dropped(database: str) -> None:
    @step(queue="gpu")
    async def embed_once(text: str) -> int:
        return len(text)

    @workflow
    async def flow() -> int:
        return await embed_once("hello")

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == 5


async def test_a_step_that_an_app_has_executed_goes_with_it_though_other_apps_of_the_process_stay(database):
    async with app_on(database, []):
        await embedded_and_dropped(database)
        gc.collect()
        assert DEFINED_STEPS.only("embed_once") is None
