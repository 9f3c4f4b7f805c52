"""What several need at once: opened by the first, closed behind the last, whatever becomes of those in between."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from stepfast import StepfastError, workflow
from stepfast.base import AppBase
from stepfast.parts import Parts
from stepfast.serverless import Handled, lambda_handler
from stepfast.sharing import Shared
from tests.support.apps import app_on
from tests.support.turns import until_idle


@workflow
async def quick() -> str:
    return "done"


class Door:
    """Something that opens and closes when the test lets it."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.may_open, self.may_close = asyncio.Event(), asyncio.Event()
        self.may_open.set()
        self.may_close.set()
        self.shared = Shared(self._open, self._close)

    async def _open(self) -> str:
        self.told.append("opening")
        await self.may_open.wait()
        self.told.append("open")
        return "it"

    async def _close(self) -> None:
        self.told.append("closing")
        await self.may_close.wait()
        self.told.append("closed")

    async def use(self, until: asyncio.Event | None = None) -> str:
        async with self.shared.use() as it:
            if until is not None:
                await until.wait()
            return it


async def test_those_who_use_it_at_the_same_time_open_it_once():
    door = Door()
    assert {*await asyncio.gather(door.use(), door.use(), door.use())} == {"it"}
    assert door.told == ["opening", "open", "closing", "closed"]


async def test_whoever_comes_while_it_closes_opens_it_again():
    door = Door()
    door.may_close.clear()
    first = asyncio.create_task(door.use())
    await until_idle()
    second = asyncio.create_task(door.use())
    await until_idle()
    assert door.told == ["opening", "open", "closing"]
    door.may_close.set()
    assert (await first, await second) == ("it", "it")
    assert door.told == ["opening", "open", "closing", "closed"] * 2


async def test_whoever_gives_up_while_others_use_it_leaves_at_once():
    door = Door()
    door.may_open.clear()
    first, second = asyncio.create_task(door.use()), asyncio.create_task(door.use())
    await until_idle()
    first.cancel()
    await until_idle()
    assert first.cancelled()
    door.may_open.set()
    assert await second == "it"


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_it_is_closed_behind_one_who_is_cancelled_while_it_opens(times):
    door = Door()
    door.may_open.clear()
    only = asyncio.create_task(door.use())
    for _ in range(times):
        await until_idle()
        only.cancel()
    await until_idle()
    door.may_open.set()
    await until_idle()
    assert only.cancelled()
    assert (door.told, door.shared.is_used) == (["opening", "open", "closing", "closed"], False)


async def test_it_is_closed_behind_one_who_is_cancelled_while_it_closes():
    door = Door()
    door.may_close.clear()
    only = asyncio.create_task(door.use())
    await until_idle()
    only.cancel()
    await until_idle()
    door.may_close.set()
    await until_idle()
    assert only.cancelled()
    assert door.told == ["opening", "open", "closing", "closed"]


async def test_one_that_did_not_open_is_opened_for_the_next():
    tries: list[str] = []

    async def open_() -> str:
        tries.append("try")
        if len(tries) == 1:
            raise StepfastError("It did not open.")
        return "it"

    async def close() -> None:
        tries.append("closed")

    shared = Shared(open_, close)
    with pytest.raises(StepfastError, match="did not open"):
        async with shared.use():
            raise AssertionError
    async with shared.use() as it:
        assert it == "it"
    assert tries == ["try", "try", "closed"]


def test_what_a_loop_has_left_open_that_is_gone_is_opened_anew():
    door = Door()

    async def stay() -> None:
        # A loop that ends as it should closes what its tasks use; this one is left behind by nobody's task.
        await (await door.shared._joined()).task

    asyncio.run(stay())
    assert asyncio.run(door.use()) == "it"
    assert door.told == ["opening", "open", "opening", "open", "closing", "closed"]


@asynccontextmanager
async def opening_held_up(monkeypatch) -> AsyncIterator[asyncio.Event]:
    """Apps open only when the event is set."""
    may_open, opened = asyncio.Event(), AppBase._opened_parts

    async def held_up(self: AppBase) -> Parts:
        await may_open.wait()
        return await opened(self)

    with monkeypatch.context() as patch:
        patch.setattr(AppBase, "_opened_parts", held_up)
        yield may_open


async def test_a_worker_that_is_stopped_while_its_app_opens_never_lives(database, monkeypatch):
    app = app_on(database, [quick], worker=False)
    worker = app.worker()
    async with opening_held_up(monkeypatch) as may_open:
        starting = asyncio.create_task(worker.start())
        await until_idle()
        stopping = asyncio.create_task(worker.stop())
        await until_idle()
        may_open.set()
        await stopping
        with pytest.raises(StepfastError, match="stopped while it started"):
            await starting
    assert (worker.worker_id, app._parts) == ("", None)
    with pytest.raises(StepfastError, match="started before"):
        await worker.start()


async def test_a_worker_that_starts_is_not_started_a_second_time(database):
    app = app_on(database, [quick], worker=False)
    worker = app.worker()
    answers = await asyncio.gather(worker.start(), worker.start(), return_exceptions=True)
    assert [type(answer) for answer in answers] == [type(None), StepfastError]
    await worker.stop()
    assert app._parts is None


async def test_a_start_that_failed_can_be_made_again(database, monkeypatch):
    app = app_on(database, [quick], worker=False)
    worker = app.worker()

    async def fail(self: AppBase) -> Parts:
        raise StepfastError("It did not open.")

    with monkeypatch.context() as patch:
        patch.setattr(AppBase, "_opened_parts", fail)
        with pytest.raises(StepfastError, match="did not open"):
            await worker.start()
    await worker.start()
    await worker.stop()


async def test_an_app_that_is_closed_under_a_worker_serves_others_afterwards(database):
    app = app_on(database, [quick], worker=False)
    worker = app.worker()
    await worker.start()
    await app.close()
    await worker.stop()
    async with app:
        run = await app.start(quick)
    assert await app.serverless().handle(run.id) is Handled.COMPLETED
    assert app._parts is None


async def test_an_app_is_not_used_from_two_loops_at_once(database):
    async with app_on(database, [quick], worker=False) as app:
        run = await app.start(quick)
        with pytest.raises(StepfastError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(app.serverless().handle(run.id)))
        assert await app.serverless().handle(run.id) is Handled.COMPLETED


@pytest.mark.parametrize("call", [lambda app: app.start(quick), lambda app: app.runs(), lambda app: app.workers.list()])
async def test_an_open_app_refuses_calls_from_another_loop_at_once(database, call):
    async with app_on(database, [quick], worker=False) as app:
        with pytest.raises(StepfastError, match="another event loop"):
            await asyncio.to_thread(lambda: asyncio.run(call(app)))
        assert await app.runs() == []


def test_calls_of_a_lambda_in_several_threads_take_turns(database):
    app = app_on(database, [quick], worker=False)
    handler = lambda_handler(app)

    async def started() -> list[str]:
        async with app:
            return [(await app.start(quick)).id for _ in range(4)]

    answers: list[dict[str, str]] = []
    threads = [
        threading.Thread(target=lambda run_id=run_id: answers.append(handler({"run_id": run_id}, None)))
        for run_id in asyncio.run(started())
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [{"result": "completed"}] * 4


def test_an_app_whose_loop_is_gone_is_opened_anew(database):
    app = app_on(database, [quick], worker=False)
    gone = asyncio.new_event_loop()
    gone.close()
    left_behind: Any = SimpleNamespace(loop=gone)
    app._parts = left_behind

    async def go_on() -> str:
        async with app:
            return (await app.start(quick)).id

    run_id = asyncio.run(go_on())
    app._parts = left_behind
    assert asyncio.run(app.serverless().handle(run_id)) is Handled.COMPLETED
