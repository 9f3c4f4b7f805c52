"""Steps at the edges: errors that asyncio treats apart, bodies that are stopped, saves that are refused."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from typing import Any

import pytest

from stepfast import Retry, RunFailed, race, receive, step, workflow
from stepfast.engine.committer import Committer
from tests.support.apps import QUICK, Bodies, app_on
from tests.support.turns import turn

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
            await (await app.start(flow)).result("60s")


async def test_a_def_workflow_that_raises_stop_iteration_fails(database):
    @workflow
    def flow() -> int:
        return next(iter([]))

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="StopIteration"):
            await (await app.start(flow)).result("60s")


async def test_a_step_that_cancels_itself_fails(database):
    @step(retry=ONCE)
    async def gives_up() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await turn()

    @workflow
    async def flow() -> None:
        await gives_up()

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="CancelledError"):
            await (await app.start(flow)).result("60s")


async def test_a_retry_that_cannot_be_applied_does_not_leave_the_run_hanging(database):
    class Odd(type):
        def __instancecheck__(cls, instance: object) -> bool:
            raise RuntimeError("no answer")

    class Unanswerable(Exception, metaclass=Odd):
        """Asked whether an error is one of them, it raises."""

    @step(retry=Retry(on=(Unanswerable,)))
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
        assert await app.get(run.id).result("60s") == "done"


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
        assert await run.result("60s") == "quick"
        states = {record.call.name: record.state for record in await run.steps()}
    assert states == {"quick": "completed", "later": "completed", "stubborn": "cancelled"}
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

    # Nor does the worker look for work by itself: it may well take the run up again, once it has let go of it.
    async with app_on(database, [flow], worker=replace(DEAF, poll_ms=10**7)) as app:
        (worker,) = app._open_parts()._workers
        let_go = worker._held.next_leave()
        await app.start(flow)
        await let_go
        assert bodies["body"] == 1


async def test_a_receive_that_is_called_off_while_it_is_opened_takes_no_signal(database, monkeypatch):
    held_back: list[Any] = []

    @step
    async def win_with_the_signal_there() -> None:
        await app.get(ids[0]).signal("word", "kept")
        worker: Any
        (worker,) = app._open_parts()._workers
        (held,) = worker._held
        await worker._executor._executions[held]._performance._context.look_now()

    @step
    async def open_at_last() -> None:
        run, decision, answered = held_back.pop()
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        save(run, decision, lambda error: opened.set_result(answered(error)))
        await opened

    @workflow
    async def flow() -> str:
        await race(word=receive("word", str), won=win_with_the_signal_there())
        await open_at_last()
        return await receive("word", str)

    def hold_back(run, decision, answered):
        if decision.opened and not ids[1:]:
            ids.append("held back")
            held_back.append((run, decision, answered))
        else:
            save(run, decision, answered)

    async with app_on(database, [flow], worker=False) as client:
        ids = [(await client.start(flow)).id]
    app = app_on(database, [flow])
    await app._open_store()
    monkeypatch.setattr(Committer, "save", lambda self, *given: hold_back_of(self)(*given))
    save: Any = None

    def hold_back_of(committer):
        nonlocal save
        save = functools.partial(plain_save, committer)
        return hold_back

    await app._open_parts().add_worker(QUICK)
    try:
        assert await app.get(ids[0]).result("60s") == "kept"
    finally:
        await app.close()


plain_save = Committer.save
