"""Steps at the edges: errors that asyncio treats apart, bodies that are stopped, saves that are refused."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from stepfast import Retry, RunFailed, race, receive, step, workflow
from tests.support.apps import QUICK, Bodies, app_on

ONCE = Retry(attempts=1)
AT_ONCE = Retry(attempts=3, base="1ms", jitter=0)
# Nobody notices a lost lease by a heartbeat here, only by what is saved.
DEAF = replace(QUICK, lease_ms=10**8, heartbeat_ms=10**7)


async def test_a_def_step_that_raises_stop_iteration_fails(database):
    @step(retry=ONCE)
    def first_of(numbers: list[int]) -> int:
        return next(iter(numbers))

    @workflow
    async def flow() -> int:
        return await first_of.aio([])

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="StopIteration"):
            await (await app.start(flow)).result("10s")


async def test_a_def_workflow_that_raises_stop_iteration_fails(database):
    @workflow
    def flow() -> int:
        return next(iter([]))

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="StopIteration"):
            await (await app.start(flow)).result("10s")


async def test_a_step_that_cancels_itself_fails(database):
    @step(retry=ONCE)
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    @workflow
    async def flow() -> None:
        await gives_up()

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="CancelledError"):
            await (await app.start(flow)).result("10s")


async def test_a_retry_that_cannot_be_applied_does_not_leave_the_run_hanging(database):
    @step(retry=Retry(on=[ValueError]))  # type: ignore[arg-type]
    async def broken() -> None:
        raise ValueError("no")

    @workflow
    async def flow() -> None:
        await broken()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        while "handed_back" not in [event.type for event in await run.history()]:
            pass


async def test_a_step_stopped_with_its_worker_is_not_recorded_as_failed(database):
    bodies, reached = Bodies(), asyncio.Event()

    @step(retry=ONCE)
    async def translates() -> str:
        bodies.ran("translates")
        if bodies["translates"] > 1:
            return "done"
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("the connection was closed") from None
        return ""

    @workflow
    async def flow() -> str:
        return await translates()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await reached.wait()
    async with app_on(database, [flow]) as app:
        assert await app.get(run.id).result("10s") == "done"


async def test_a_step_that_was_called_off_and_fails_is_not_tried_again(database):
    bodies, begun, failed = Bodies(), asyncio.Event(), asyncio.Event()

    @step(retry=AT_ONCE)
    async def stubborn() -> None:
        bodies.ran("stubborn")
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            failed.set()
            raise ConnectionError("the connection was closed") from None

    @step
    async def quick() -> None:
        await begun.wait()

    @step
    async def later() -> None:
        await failed.wait()

    @workflow
    async def flow() -> str:
        name, _ = await race(stubborn=stubborn(), quick=quick())
        await later()
        return name

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        assert await run.result("10s") == "quick"
        assert {record.call.name for record in await run.steps()} == {"quick", "later"}
    assert bodies["stubborn"] == 1


async def test_a_step_whose_failure_could_not_be_saved_is_not_tried_again_here(database):
    bodies = Bodies()

    @step(retry=AT_ONCE)
    async def loses_its_lease() -> None:
        bodies.ran("body")
        (view,) = await app.workers.list()
        await app._open_parts().store.retire(view.worker_id)
        raise ValueError("no")

    @workflow
    async def flow() -> None:
        await loses_its_lease()

    async with app_on(database, [flow], worker=DEAF) as app:
        await app.start(flow)
        (worker,) = app._open_parts()._workers
        await asyncio.wait(worker._executing)
    assert bodies["body"] == 1


async def test_a_receive_in_a_called_off_branch_takes_no_signal_while_it_is_opened(database, monkeypatch):
    """The signal comes, and the receive is called off, while the wait is on its way into the store."""

    @step
    async def signal_and_win() -> None:
        await app.get(ids[0]).signal("word", "kept")
        (worker,) = app._open_parts()._workers
        (held,) = worker._held
        await worker._executor._performances[held]._context.look_now()

    @workflow
    async def flow() -> str:
        await race(word=receive("word", str), won=signal_and_win())
        return await receive("word", str)

    ids: list[str] = []
    async with app_on(database, [flow]) as app:
        (committer,) = app._open_parts()._workers.values()
        save = committer.save

        def hold_back(run, decision, answered):
            if decision.opened and not held_back:
                held_back.append((run, decision, answered))
                return
            save(run, decision, answered)
            if held_back and not decision.opened and decision.records:
                late = held_back.pop()
                held_back.append(late)
                if not sent:
                    sent.append(late)
                    asyncio.get_running_loop().call_later(0.05, save, *late)

        held_back: list = []
        sent: list = []
        monkeypatch.setattr(committer, "save", hold_back)
        run = await app.start(flow)
        ids.append(run.id)
        assert await run.result("10s") == "kept"
