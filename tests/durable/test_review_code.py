"""Code and records that do not fit, and code that is let go of while it runs."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import pytest

from stepfast import Retry, RunFailed, RunState, WaitTimeout, race, receive, sleep, step, timeout, workflow
from stepfast.engine.clock import SystemClock
from stepfast.kernel.ids import RunId
from stepfast.stores.urls import store_for
from stepfast.workflows.wait_calls import WaitCall
from tests.durable.test_waiting import until
from tests.support.apps import Bodies, app_on
from tests.support.holding import Hold
from tests.support.virtual_time import timed_app


@dataclass
class Money:
    """What an amount has become in the newer code."""

    amount: int
    currency: str


async def test_a_recorded_result_that_todays_type_cannot_read_leaves_the_run_waiting_for_code(database):
    held = Hold()

    @step(name="price")
    async def old_price() -> int:
        return 7

    @step(name="price")
    async def new_price() -> Money:
        return Money(7, "EUR")

    def code(price):
        @workflow(name="flow")
        async def flow() -> str:
            found = await price()
            await held.step()
            return str(found)

        return flow

    async with app_on(database, [old := code(old_price)]) as app:
        run = await app.start(old)
        await held.reached.wait()
    async with app_on(database, [code(new_price)]) as app:
        await until(app, run.id, RunState.WAITING)


async def test_recorded_arguments_that_todays_types_cannot_read_leave_the_run_waiting_for_code(database):
    held, bodies = Hold(), Bodies()

    @step(name="charge")
    async def old_charge(amount: int) -> None: ...

    @step(name="charge")
    async def new_charge(amount: Money) -> None: ...

    @step
    async def undo() -> None:
        bodies.ran("undo")

    def code(charge, amount):
        @workflow(name="flow")
        async def flow() -> None:
            try:
                await charge(amount)
            except Exception:  # noqa: BLE001 - that is what people write
                await undo()
            await held.step()

        return flow

    async with app_on(database, [old := code(old_charge, 7)]) as app:
        run = await app.start(old)
        await held.reached.wait()
    async with app_on(database, [code(new_charge, Money(7, "EUR"))]) as app:
        await until(app, run.id, RunState.WAITING)
    assert bodies["undo"] == 0


@pytest.mark.parametrize("how", ["task group", "bare except"])
async def test_other_arguments_for_a_step_between_two_tries_leave_the_run_waiting_for_code(database, how):
    failed = asyncio.Event()

    @step(retry=Retry(attempts=9, base="900ms", cap="900ms", jitter=0))
    async def charge(amount: int) -> None:
        failed.set()
        raise ValueError("not now")

    def code(amount: int):
        @workflow(name="flow")
        async def flow() -> None:
            if how == "bare except":
                try:
                    await charge(amount)
                except BaseException:  # noqa: BLE001 - that is what people write
                    return
            async with asyncio.TaskGroup() as group:
                group.create_task(charge(amount))

        return flow

    async with app_on(database, [old := code(1)]) as app:
        run = await app.start(old)
        while "retry_scheduled" not in [event.type for event in await run.history()]:
            pass
    async with app_on(database, [code(2)]) as app:
        await until(app, run.id, RunState.WAITING)


async def test_no_step_beside_a_call_that_does_not_fit_is_begun(database):
    bodies, held = Bodies(), Hold()

    @step
    async def charge(amount: int) -> None: ...

    @step
    async def added() -> None:
        bodies.ran("added")

    @workflow(name="flow")
    async def old() -> None:
        await asyncio.gather(charge(1))
        await held.step()

    @workflow(name="flow")
    async def new() -> None:
        await asyncio.gather(charge(2), added())
        await held.step()

    async with app_on(database, [old]) as app:
        run = await app.start(old)
        await held.reached.wait()
    async with app_on(database, [new]) as app:
        await until(app, run.id, RunState.WAITING)
    assert bodies["added"] == 0


async def test_a_def_workflow_that_computes_while_it_is_let_go_begins_no_step_afterwards(database):
    bodies, computing, go_on, ended = Bodies(), threading.Event(), threading.Event(), threading.Event()

    @step
    def act() -> None:
        bodies.ran("act")

    @workflow
    def flow() -> None:
        computing.set()
        go_on.wait()
        try:
            act()
        finally:
            ended.set()

    async with app_on(database, [flow]) as app, app_on(database, [], worker=False) as other:
        run = await app.start(flow)
        await asyncio.to_thread(computing.wait)
        (worker,) = app._open_parts()._workers
        await worker.stop(0)
        assert (await other.get(run.id).info()).worker_id is None
        go_on.set()
        await asyncio.to_thread(ended.wait)
    assert bodies["act"] == 0


async def test_an_async_generator_left_open_at_a_park_runs_no_step_of_its_finally(database):
    bodies, closed = Bodies(), asyncio.Event()

    @step
    async def tidy() -> None:
        bodies.ran("tidy")

    async def numbers():
        try:
            yield 1
        finally:
            try:
                await tidy()
            finally:
                closed.set()

    @workflow
    async def flow() -> str:
        async for _ in numbers():
            await receive("go")
        return "done"

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await closed.wait()
        assert bodies["tidy"] == 0
        await run.signal("go")
        assert await run.result("60s") == "done"
    assert bodies["tidy"] == 1


async def test_an_async_generator_that_code_breaks_out_of_records_the_steps_of_its_finally(database):
    @step
    async def tidy() -> None: ...

    @step
    async def last() -> None: ...

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            await tidy()

    @workflow
    async def flow() -> None:
        async for _ in numbers():
            break
        await last()
        await last()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run.result("60s")
        assert "tidy" in {record.call.name for record in await run.steps()}


async def test_a_timeout_in_the_clean_up_of_a_timeout_is_told_as_one(database):
    @workflow
    async def flow() -> list[str]:
        told = []
        try:
            async with timeout("20ms"):
                try:
                    await receive("never")
                finally:
                    try:
                        async with timeout("20ms"):
                            await receive("never")
                    except WaitTimeout:
                        told.append("inner")
        except WaitTimeout:
            told.append("outer")
        return told

    async with timed_app(database, flow) as (app, time):
        assert await time.result(await app.start(flow)) == ["inner", "outer"]


async def test_a_loop_that_swallows_everything_does_not_stop_the_worker_when_it_parks(database):
    @workflow
    async def stubborn() -> None:
        while True:
            try:
                await receive("go")
            except BaseException:  # noqa: BLE001 - that is what people write
                continue
            return

    @workflow
    async def other() -> str:
        return "done"

    async with app_on(database, [stubborn, other]) as app:
        run = await app.start(stubborn)
        await until(app, run.id, RunState.WAITING)
        assert await (await app.start(other)).result("60s") == "done"
        await run.signal("go")
        await run.result("60s")


async def test_a_wait_that_lost_a_race_before_a_crash_is_closed_by_the_next_holder(database, monkeypatch):
    reached, let_go, again = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @step
    async def hold() -> None:
        (again if reached.is_set() else reached).set()
        await let_go.wait()

    @workflow
    async def flow() -> str:
        name, _ = await race(paid=receive("paid"), late=sleep("10m"))
        await hold()
        return name

    with monkeypatch.context() as patched:
        # As if the process had died between the winner's record and the loser's.
        patched.setattr(WaitCall, "call_off", lambda self, asked: None)
        async with app_on(database, [flow]) as app:
            run = await app.start(flow)
            await run.signal("paid")
            await reached.wait()
    async with app_on(database, [flow]) as app:
        await again.wait()
        store = store_for(database, SystemClock())
        await store.open()
        while (await store.histories([RunId(run.id)]))[RunId(run.id)].waits:
            pass
        await store.close()
        let_go.set()
        assert await app.get(run.id).result() == "paid"


async def test_code_that_waits_for_what_nothing_can_bring_fails_instead_of_hanging(database):
    @workflow
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async with app_on(database, [waits_for_ever]) as app:
        with pytest.raises(RunFailed, match="no durable call can bring"):
            await (await app.start(waits_for_ever)).result(timeout="60s")
