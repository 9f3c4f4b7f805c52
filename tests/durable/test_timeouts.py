"""Time limits: of an attempt, of all attempts, of a whole run."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from stepfast import Invalid, Retry, RunFailed, RunState, Stepfast, StepTimeout, receive, step, workflow
from stepfast.kernel.errors import InvalidDefinition, RunTimeout
from tests.support.apps import PATIENT, Bodies
from tests.support.virtual_time import (
    event_types,
    timed_app,
    until_ran,
    until_recorded,
    until_sleeping,
    until_state,
    virtual_time,
)

ONCE = Retry(attempts=1)
AT_ONCE = Retry(attempts=3, base=0, jitter=0)


def stuck_flow(bodies: Bodies, begun: asyncio.Event | None = None, **options):
    @step(**options)
    async def stuck() -> None:
        bodies.ran("stuck")
        if begun is not None:
            begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            bodies.ran("cancelled")
            raise

    @workflow
    async def flow() -> None:
        await stuck()

    return flow


async def test_an_attempt_that_takes_too_long_is_cancelled_and_fails(database):
    bodies = Bodies()
    flow = stuck_flow(bodies, timeout="30s", retry=ONCE)
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_ran(run, bodies, "stuck")
        await time.advance("29.999s")
        await run.info()
        assert bodies["cancelled"] == 0
        await time.advance("1ms")
        with pytest.raises(
            RunFailed, match=r"Attempt 1 of step stuck#1 took longer than its timeout of 30000 ms"
        ) as failed:
            await run
        assert isinstance(failed.value.__cause__, StepTimeout)
        assert failed.value.__cause__.code == "E-STEP-002"
    assert bodies == {"stuck": 1, "cancelled": 1}


async def test_a_timeout_is_retried_like_any_failure(database):
    bodies = Bodies()
    flow = stuck_flow(bodies, timeout="30s", retry=AT_ONCE)
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        for attempt in (1, 2, 3):
            await until_ran(run, bodies, "stuck", attempt)
            await time.advance("30s")
        with pytest.raises(RunFailed, match="Attempt 3 of step stuck#1"):
            await run
        assert [record.attempt for record in await run.steps()] == [1, 2, 3]


async def test_a_policy_for_timeouts_covers_an_attempt_that_took_too_long(database):
    bodies = Bodies()
    flow = stuck_flow(bodies, timeout="30s", retry=Retry(attempts=2, base=0, on=(TimeoutError,)))
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        for attempt in (1, 2):
            await until_ran(run, bodies, "stuck", attempt)
            await time.advance("30s")
        with pytest.raises(RunFailed, match="Attempt 2 of step stuck#1"):
            await run


async def test_a_policy_may_leave_timeouts_out(database):
    bodies = Bodies()
    flow = stuck_flow(bodies, timeout="30s", retry=Retry(attempts=3, base=0, never=(StepTimeout,)))
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_ran(run, bodies, "stuck")
        await time.advance("30s")
        with pytest.raises(RunFailed, match="Attempt 1 of step stuck#1"):
            await run


async def test_a_body_that_swallows_its_cancellation_is_left_behind(database, monkeypatch):
    monkeypatch.setattr("stepfast.workflows.limits.UNWINDING_S", 0.01)
    bodies, freed = Bodies(), asyncio.Event()

    @step(timeout="30s", retry=ONCE)
    async def stubborn() -> str:
        bodies.ran("stubborn")
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                bodies.ran("swallowed")
        return "too late"

    @workflow
    async def flow() -> str:
        return await stubborn()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_ran(run, bodies, "stubborn")
        await time.advance("30s")
        with pytest.raises(RunFailed, match="took longer"):
            await run
        assert bodies["swallowed"] >= 1
        freed.set()
        assert [record.state for record in await run.steps()] == ["failed"]


async def test_a_thread_that_takes_too_long_is_left_behind_and_its_result_ignored(database):
    begun, freed = threading.Event(), threading.Event()
    bodies = Bodies()

    @step(timeout="30s", retry=ONCE)
    def slow() -> str:
        begun.set()
        freed.wait()
        bodies.ran("slow")
        return "too late"

    @workflow
    def flow() -> str:
        try:
            return slow()
        except StepTimeout as error:
            return str(error)

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await asyncio.to_thread(begun.wait)
        await until_sleeping(run, time, 30_000)
        await time.advance("30s")
        assert "took longer" in await run
        freed.set()
        await until_ran(run, bodies, "slow")
        assert len(await run.steps()) == 1


async def test_threads_that_are_left_behind_take_no_place_of_others(database):
    freed = threading.Event()
    bodies = Bodies()

    @step(timeout="30s", retry=ONCE)
    def slow(number: int) -> None:
        bodies.ran("slow")
        freed.wait()

    @step
    def quick() -> str:
        return "done"

    @workflow
    async def flow() -> str:
        await asyncio.gather(*(slow.aio(number) for number in range(20)), return_exceptions=True)
        return await quick.aio()

    async with virtual_time(database) as time:
        few = replace(PATIENT, concurrency=2)
        async with Stepfast(database, workflows=[flow], worker=few, clock=time.clock) as app:
            run = await app.start(flow)
            try:
                while (await run.info()).state is not RunState.COMPLETED:
                    await time.advance("1s")
                assert await run == "done"
            finally:
                freed.set()
    assert bodies["slow"] == 20


async def test_total_timeout_ends_all_attempts_for_good(database):
    bodies = Bodies()
    flow = stuck_flow(bodies, timeout="30s", total_timeout="50s", retry=Retry(attempts=9, base=0, jitter=0))
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_ran(run, bodies, "stuck")
        await time.advance("30s")
        await until_ran(run, bodies, "stuck", 2)
        await time.advance("20s")
        with pytest.raises(RunFailed, match=r"given up in attempt 2: .* total_timeout of 50000 ms"):
            await run
    assert bodies["stuck"] == 2


async def test_total_timeout_counts_from_the_first_attempt_over_a_change_of_worker(database):
    bodies = Bodies()
    flow = stuck_flow(bodies, total_timeout="1h", retry=ONCE)
    async with virtual_time(database) as time:
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            run = await app.start(flow)
            await until_recorded(run, 1)
            await until_ran(run, bodies, "stuck")
        await time.advance("59m")
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            again = app.get(run.id)
            await until_ran(again, bodies, "stuck", 2)
            await until_sleeping(again, time, 60_000)
            await time.advance("1m")
            with pytest.raises(RunFailed, match="total_timeout of 3600000 ms"):
                await again
            states = [(record.state, record.attempt) for record in await again.steps()]
    assert states == [("running", 1), ("failed", 1)]


async def test_a_step_whose_time_was_over_while_nobody_had_it_is_not_run_again(database):
    bodies = Bodies()
    flow = stuck_flow(bodies, total_timeout="1h", retry=ONCE)
    async with virtual_time(database) as time:
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            run = await app.start(flow)
            await until_recorded(run, 1)
            await until_ran(run, bodies, "stuck")
        await time.advance("2h")
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            with pytest.raises(RunFailed, match="total_timeout"):
                await app.get(run.id).result()
    assert bodies["stuck"] == 1


@pytest.mark.parametrize("late", ["2s", "10s"])
async def test_a_step_that_is_given_up_says_why_its_last_attempt_failed_however_late_that_is(database, late):
    @step(total_timeout="3s", retry=Retry(attempts=9, base="2s", jitter=0))
    async def pay() -> None:
        raise ConnectionError("the bank is closed")

    @workflow
    async def flow() -> None:
        await pay()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_recorded(run, 1)
        await time.advance(late)
        with pytest.raises(RunFailed) as raised:
            await run
    gave_up = raised.value.__cause__
    assert isinstance(gave_up, StepTimeout)
    assert (type(gave_up.__cause__), str(gave_up.__cause__)) == (ConnectionError, "the bank is closed")


async def test_no_retry_is_waited_for_that_would_come_after_the_total_timeout(database):
    @step(total_timeout="10s", retry=Retry(attempts=5, base="1m", jitter=0))
    async def fragile() -> None:
        raise ConnectionError("no answer")

    @workflow
    async def flow() -> None:
        await fragile()

    async with timed_app(database, flow) as (app, _):
        with pytest.raises(RunFailed, match="given up after attempt 1") as failed:
            await (await app.start(flow))
        assert failed.value.__cause__ is not None
        assert isinstance(failed.value.__cause__.__cause__, ConnectionError)


async def test_a_step_with_a_queue_has_its_time_from_its_claim(database):
    bodies = Bodies()

    @step(queue="slow", timeout="30s", retry=ONCE)
    async def stuck_elsewhere() -> None:
        bodies.ran("stuck")
        await asyncio.Event().wait()

    @workflow
    async def flow() -> str:
        try:
            await stuck_elsewhere()
        except StepTimeout as error:
            return str(error)
        return ""

    async with virtual_time(database) as time:
        ours, theirs = replace(PATIENT, queues=("default",)), replace(PATIENT, queues=("slow",))
        async with Stepfast(database, workflows=[flow], worker=ours, clock=time.clock) as app:
            run = await app.start(flow)
            await until_state(run, RunState.WAITING)
            await time.advance("1h")
            async with Stepfast(database, workflows=[flow], worker=theirs, clock=time.clock):
                await until_ran(run, bodies, "stuck")
                await until_sleeping(run, time, 30_000)
                await time.advance("30s")
                assert "Attempt 1 of step stuck_elsewhere#1" in await time.result(run)


@pytest.mark.parametrize("limit", [0, -1, "0s", "soon", float("nan"), float("inf"), "200000d", True, [], "1ms2"])
@pytest.mark.parametrize("option", ["timeout", "total_timeout"])
def test_a_limit_that_nothing_could_keep_is_refused_where_it_is_written(option, limit):
    with pytest.raises(InvalidDefinition, match=f"The {option} of a step is"):
        step(**{option: limit})


@pytest.mark.parametrize("limit", [0, -1, "soon", float("nan"), "200000d"])
def test_a_deadline_that_nothing_could_keep_is_refused_where_it_is_written(limit):
    with pytest.raises(Invalid, match="The timeout of a workflow is"):
        workflow(timeout=limit)


async def test_a_run_that_is_held_fails_at_its_deadline(database):
    bodies = Bodies()

    @step
    async def stuck() -> None:
        bodies.ran("stuck")
        await asyncio.Event().wait()

    @step
    async def tidy() -> None:
        bodies.ran("tidy")

    @workflow(timeout="1h")
    async def flow() -> None:
        try:
            await stuck()
        finally:
            await tidy()

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_ran(run, bodies, "stuck")
        await time.advance("3599.999s")
        assert (await run.info()).state is RunState.RUNNING
        await time.advance("1ms")
        with pytest.raises(RunFailed, match="did not end before its deadline") as failed:
            await run
        assert isinstance(failed.value.__cause__, RunTimeout)
        assert failed.value.__cause__.code == "E-RUN-009"
        assert (await event_types(run))[-3:] == ["dlq_pending", "dlq_recorded", "failed"]
    assert bodies == {"stuck": 1}


async def test_a_run_that_waits_is_failed_at_its_deadline_by_upkeep(database):
    @workflow(timeout="1h")
    async def flow() -> None:
        await receive("never")

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        await time.advance("1h")
        while (await run.info()).state is RunState.WAITING:
            await time.advance("1s")
        with pytest.raises(RunFailed, match="did not end before its deadline"):
            await run
        assert (await event_types(run))[-3:] == ["dlq_pending", "dlq_recorded", "failed"]


async def test_a_run_that_is_out_of_time_is_not_tried_again_by_itself(database):
    @workflow(timeout="1m", retry=Retry(attempts=2, base=0))
    async def flow() -> None:
        await receive("never")

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_state(run, RunState.WAITING)
        await time.advance("1m")
        with pytest.raises(RunFailed, match="did not end before its deadline"):
            await time.result(run)
        assert (await run.info()).generation == 1
        assert [letter.run_id for letter in await app.dead_letters.list()] == [run.id]


async def test_a_run_that_is_late_already_is_not_begun(database):
    bodies = Bodies()

    @step
    async def act() -> None:
        bodies.ran("act")

    @workflow(timeout="1h")
    async def flow() -> None:
        await act()

    async with virtual_time(database) as time:
        async with Stepfast(database, workflows=[flow], worker=False, clock=time.clock) as client:
            run = await client.start(flow)
        await time.advance("2h")
        async with Stepfast(database, workflows=[flow], worker=PATIENT, clock=time.clock) as app:
            with pytest.raises(RunFailed, match="deadline"):
                await time.result(app.get(run.id))
    assert bodies["act"] == 0


async def test_a_run_that_ends_in_time_is_not_touched(database):
    @workflow(timeout="1h")
    async def flow() -> str:
        return "in time"

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        assert await run == "in time"
        await time.advance("2h")
        assert (await run.info()).state is RunState.COMPLETED
        assert time.clock.spans_ahead_ms().count(3_600_000) == 0
