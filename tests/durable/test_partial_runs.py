"""Runs that end in part, and records for which no body ran."""

from __future__ import annotations

import asyncio
import json
from asyncio import events
from collections.abc import Callable
from typing import Any

from stepfast import Retry, receive, step, workflow
from stepfast.kernel.plan_rules import UNDO
from stepfast.kernel.states import RunState, StepState
from stepfast.workflows.bodies import Partial
from stepfast.workflows.loop import RunLoop
from stepfast.workflows.notes import NoteCall
from stepfast.workflows.steps import ask_durably
from tests.support.apps import Bodies, app_on
from tests.support.virtual_time import replayed, timed_app

ONCE = Retry(attempts=1)


async def note(name: str, state: StepState = StepState.COMPLETED, value: Any = None, **more: Any) -> Any:
    loop = events._get_running_loop()
    assert isinstance(loop, RunLoop)
    return await ask_durably(loop, NoteCall(name, state, json.dumps(value), "{}", **more))


async def test_a_noted_value_is_recorded_and_replayed(database):
    @workflow
    async def flow() -> list[int]:
        noted: list[int] = await note("limits", value=[1, 2])
        await receive("go")
        return noted

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        assert await replayed(run, time) == [1, 2]
        (limits, _, _) = await run.steps()
    assert (limits.kind, limits.state, limits.value) == ("set", StepState.COMPLETED, "[1, 2]")


async def test_a_skipped_step_has_a_record_and_an_event_with_the_reason(database):
    @workflow
    async def flow() -> str:
        skipped = await note("publish", StepState.SKIPPED, kind="skip", reason="`when` is false")
        await receive("go")
        return "nothing" if skipped is None else "something"

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        assert await replayed(run, time) == "nothing"
        assert (await run.steps())[0].state is StepState.SKIPPED
        (told,) = [event for event in await run.history() if event.type == "step_skipped"]
    assert (told.step, json.loads(told.data or "")) == ("publish#1", {"reason": "`when` is false"})


async def test_a_record_that_takes_a_step_back_is_told_as_undone(database):
    @workflow
    async def flow() -> None:
        await note("refund", kind=UNDO)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        assert "step_undone" in [event.type for event in await run.history()]


def partly(bodies: Bodies, is_down: Callable[[], bool]) -> Any:
    """A workflow that bears the failure of one step and skips what rests on it."""

    @step(retry=ONCE)
    async def fetch() -> str:
        bodies.ran("fetch")
        if is_down():
            raise ConnectionError("the register is down")
        return "found"

    @step
    async def count() -> int:
        bodies.ran("count")
        return 7

    @workflow
    async def flow() -> Any:
        number = await count()
        try:
            found = await fetch()
        except ConnectionError as error:
            await note("publish", StepState.SKIPPED, kind="skip", reason="fetch failed")
            return Partial({"count": number}, (error,))
        return {"count": number, "published": await note("publish", value=found)}

    return flow


async def test_a_run_that_bore_a_failure_ends_partial_with_its_value(database):
    flow = partly(Bodies(), lambda: True)
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        assert await run == {"count": 7}
        assert (await run.info()).state is RunState.PARTIAL
        assert [view.run_id for view in await app.runs(state="partial")] == [run.id]
        assert (await run.history())[-1].type == "partial"
        assert "1 step failed: fetch#1" in str(await run.why())


async def test_whoever_listens_hears_of_a_partial_end(database):
    flow, heard = partly(Bodies(), lambda: True), asyncio.Event()
    app = app_on(database, [flow])
    app.on("partial")(lambda event: heard.set())
    async with app:
        await (await app.start(flow))
        await asyncio.wait_for(heard.wait(), 60)


async def test_a_retry_of_a_partial_run_does_what_failed_and_what_was_skipped_for_it(database):
    bodies, down = Bodies(), [True]
    flow = partly(bodies, lambda: down[0])
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        down.clear()
        down.append(False)
        await run.retry()
        assert await run == {"count": 7, "published": "found"}
        assert (await run.info()).state is RunState.COMPLETED
    assert bodies == {"fetch": 2, "count": 1}


async def test_the_one_failed_step_of_a_partial_run_can_be_retried(database):
    bodies, down = Bodies(), [True]
    flow = partly(bodies, lambda: down[0])
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        down[0] = False
        await run.retry("fetch")
        assert await run == {"count": 7, "published": "found"}
    assert bodies == {"fetch": 2, "count": 1}


async def test_a_failure_that_was_handled_stays_when_a_partial_run_is_retried(database):
    bodies = Bodies()

    @step(retry=ONCE)
    async def guess() -> int:
        bodies.ran("guess")
        raise ValueError("no idea")

    @step(retry=ONCE)
    async def fetch() -> int:
        bodies.ran("fetch")
        if bodies["fetch"] == 1:
            raise ConnectionError("the register is down")
        return 5

    @workflow
    async def flow() -> Any:
        try:
            number = await guess()
        except ValueError:
            number = 0
        try:
            return number + await fetch()
        except ConnectionError as error:
            return Partial(number, (error,))

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        assert await run == 0
        await run.retry()
        assert await run == 5
    assert bodies == {"guess": 1, "fetch": 2}


async def test_a_rerun_of_a_partial_run_starts_over(database):
    bodies = Bodies()
    flow = partly(bodies, lambda: True)
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        await run.rerun()
        await run
        assert (await run.info()).generation == 2
    assert bodies == {"fetch": 2, "count": 2}


async def test_a_parent_joins_a_partial_child_as_one_that_came_to_a_good_end(database):
    child = partly(Bodies(), lambda: True)

    @workflow
    async def parent() -> Any:
        started = await child.start()
        return [await child(), await started]

    async with app_on(database, [parent, child]) as app:
        run = await app.start(parent)
        assert await run == [{"count": 7}, {"count": 7}]
        assert (await run.info()).state is RunState.COMPLETED
