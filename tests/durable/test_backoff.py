"""The pause before a retry: kept over everything, and nobody sits it out."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import Outside, Pending, Retry, RunFailed, RunState, Stepfast, race, receive, sleep, step, workflow
from stepfast.workflows.steps import AsyncStep
from tests.support.apps import PATIENT, Bodies
from tests.support.virtual_time import Time, event_types, timed_app, until_recorded, until_state, virtual_time

MINUTE = Retry(attempts=3, base="1m", factor=1, jitter=0)
HALF_AN_HOUR_MS = 30 * 60 * 1_000


def failing_step(bodies: Bodies, failures: int, retry: Retry = MINUTE) -> AsyncStep[[], str]:
    @step(retry=retry)
    async def fragile() -> str:
        bodies.ran("fragile")
        if bodies["fragile"] <= failures:
            raise ConnectionError(f"try {bodies['fragile']}")
        return "done"

    return fragile


async def open_waits(app: Stepfast, run) -> list[str]:
    """What the store would wake a run for."""
    look = await app._open_parts().store.look(run.id)
    assert look is not None
    return [wait.kind for wait in look.waits]


async def test_a_run_that_backs_off_is_pending_and_holds_no_worker(database):
    fragile = failing_step(Bodies(), failures=1)

    @workflow
    async def flow() -> str:
        return await fragile()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_recorded(run, 1)
        await until_state(run, RunState.PENDING)
        assert (await run.info()).worker_id is None
        await time.advance("1m")
        assert await time.result(run) == "done"
        assert (await run.info()).claims == 0
        types = await event_types(run)
    assert types == [
        "queued",
        "claimed",
        "started",
        "step_started",
        "step_failed",
        "retry_scheduled",
        "waiting",
        "claimed",
        "step_started",
        "step_completed",
        "completed",
    ]


async def test_equal_calls_of_one_run_and_of_others_do_not_come_back_together(database):
    fragile = failing_step(Bodies(), failures=4, retry=Retry(attempts=2, base="1h", cap="1h", jitter=1))

    @workflow
    async def flow() -> None:
        await asyncio.gather(fragile(), fragile())

    async with timed_app(database, flow) as (app, _):
        runs = [await app.start(flow) for _ in range(2)]
        pauses: list[int] = []
        for run in runs:
            await until_recorded(run, 2)
            pauses += [record.due_at - record.ended_at for record in await run.steps() if record.due_at]
    assert len(set(pauses)) == 4


async def test_questions_about_outside_work_that_fail_together_are_not_asked_again_together(database):
    @step(retry=Retry(attempts=2, base="1h", cap="1h", jitter=1))
    async def look_at(handle: str) -> Pending | str:
        raise ConnectionError(handle)

    @step
    async def train() -> Outside[str]:
        return Outside("batch", poll=look_at, every="1m")

    @workflow
    async def flow() -> None:
        await train()

    async with timed_app(database, flow) as (app, time):
        runs = [await app.start(flow) for _ in range(2)]
        for run in runs:
            await until_state(run, RunState.WAITING)
        await time.advance("1m")
        dues = [await due_of_failed_question(app, run, time) for run in runs]
    assert len(set(dues)) == 2


async def due_of_failed_question(app: Stepfast, run, time: Time) -> int:
    """When a question that has failed is asked again: no sooner than its pause says, so far from its turn."""
    while True:
        look = await app._open_parts().store.look(run.id)
        due_at = look.waits[0].due_at if look is not None and look.waits else None
        if due_at is not None and due_at - time.clock.now() > HALF_AN_HOUR_MS:
            return due_at
        await time.advance("1ms")


async def test_a_def_workflow_backs_off_the_same_way(database):
    bodies = Bodies()

    @step(retry=MINUTE)
    def fragile() -> str:
        bodies.ran("fragile")
        if bodies["fragile"] == 1:
            raise ConnectionError("once")
        return "done"

    @workflow
    def flow() -> str:
        return fragile()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_recorded(run, 1)
        await until_state(run, RunState.PENDING)
        await time.advance("1m")
        assert await time.result(run) == "done"
    assert bodies["fragile"] == 2


async def test_the_next_attempt_comes_when_the_backoff_is_over_and_not_before(database):
    bodies = Bodies()
    fragile = failing_step(bodies, failures=1)

    @workflow
    async def flow() -> str:
        return await fragile()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_recorded(run, 1)
        await until_state(run, RunState.PENDING)
        await time.advance("59.999s")
        # Another run that comes and goes: the worker has looked for work since.
        assert await (await app.start(flow)) == "done"
        assert (await run.info()).state is RunState.PENDING
        assert bodies["fragile"] == 2
        await time.advance("1ms")
        assert await time.result(run) == "done"
        failed, completed = await run.steps()
    assert completed.started_at - failed.ended_at >= 60_000


async def test_attempts_are_counted_once_over_parks_and_changes_of_worker(database):
    bodies = Bodies()
    fragile = failing_step(bodies, failures=9)

    @workflow
    async def flow() -> str:
        return await fragile()

    async with virtual_time(database) as time:
        async with Stepfast(database, workflows=[flow], worker=False, clock=time.clock) as client:
            run = await client.start(flow)
        for attempt in (1, 2):
            async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
                await until_recorded(app.get(run.id), attempt)
                await until_state(app.get(run.id), RunState.PENDING)
            await time.advance("1m")
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            with pytest.raises(RunFailed, match="try 3"):
                await app.get(run.id).result()
            records = await app.get(run.id).steps()
    assert [record.attempt for record in records] == [1, 2, 3]
    assert bodies["fragile"] == 3


async def test_a_run_with_a_backoff_and_another_wait_is_waiting(database):
    fragile = failing_step(Bodies(), failures=1)

    @workflow
    async def flow() -> list[str]:
        return list(await asyncio.gather(fragile(), receive("word", str)))

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        assert (await run.info()).worker_id is None
        await run.signal("word", "heard")
        await until_recorded(run, 3)
        await time.advance("1m")
        assert await time.result(run) == ["done", "heard"]


async def test_a_signal_that_wakes_the_run_makes_no_attempt_earlier(database):
    bodies = Bodies()
    fragile = failing_step(bodies, failures=1)

    @step
    async def note(word: str) -> None:
        bodies.ran(word)

    async def listen() -> None:
        await note(await receive("word", str))

    @workflow
    async def flow() -> str:
        results = await asyncio.gather(fragile(), listen())
        return str(results[0])

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        await run.signal("word", "heard")
        await until_state(run, RunState.PENDING)
        assert (bodies["heard"], bodies["fragile"]) == (1, 1)
        await time.advance("1m")
        assert await time.result(run) == "done"
    assert bodies["fragile"] == 2


async def test_a_step_that_loses_a_race_while_it_backs_off_wakes_the_run_no_more(database):
    bodies = Bodies()
    fragile = failing_step(bodies, failures=9)

    @workflow
    async def flow() -> str:
        name, _ = await race(fragile=fragile(), word=receive("word", str))
        await sleep("1h")
        return name

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        await run.signal("word", "heard")
        await until_recorded(run, 5)
        await until_state(run, RunState.WAITING)
        assert await open_waits(app, run) == ["time"]
        await time.advance("1h")
        assert await time.result(run) == "word"
        states = [record.state for record in await run.steps() if record.call.name == "fragile"]
    assert bodies["fragile"] == 1
    assert states == ["pending", "cancelled"]


async def test_a_race_lost_while_the_run_was_away_leaves_no_backoff_open(database):
    bodies = Bodies()
    fragile = failing_step(bodies, failures=9)

    @workflow
    async def flow() -> str:
        name, _ = await race(fragile=fragile(), late=sleep("30s"))
        await receive("end")
        return name

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        await time.advance("30s")
        await time.until_recorded(run, 5)
        await until_state(run, RunState.WAITING)
        assert await open_waits(app, run) == ["signal"]
        await run.signal("end")
        assert await time.result(run) == "late"
    assert bodies["fragile"] == 1


async def test_short_pauses_are_sat_out(database):
    fragile = failing_step(Bodies(), failures=2, retry=Retry(attempts=3, base="999ms", factor=1, jitter=0))

    @workflow
    async def flow() -> str:
        return await fragile()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        for attempt in (1, 2):
            await until_recorded(run, attempt)
            assert (await run.info()).state is RunState.RUNNING
            await time.advance("999ms")
        assert await time.result(run) == "done"
        assert (await event_types(run)).count("claimed") == 1


async def test_a_hundred_runs_that_back_off_leave_their_slots_to_others(database):
    fragile = failing_step(Bodies(), failures=100)

    @workflow
    async def flow() -> str:
        return await fragile()

    @workflow
    async def other() -> str:
        return "free"

    async with timed_app(database, flow, other) as (app, time):
        runs = [await app.start(flow) for _ in range(100)]
        for run in runs:
            await until_recorded(run, 1)
            await until_state(run, RunState.PENDING)
        assert await (await app.start(other)) == "free"
        await time.advance("1m")
        assert [await time.result(run) for run in runs] == ["done"] * 100
