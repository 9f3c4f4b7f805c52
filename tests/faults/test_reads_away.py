"""A store that does not answer what a run asks it in the middle: the run stays, and its steps under way with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepfast import Retry, RunFailed, StoreUnavailable, current_run, receive, sleep, step, workflow
from stepfast.worker import execute
from stepfast.workflows.stay import Stay
from tests.support.apps import Bodies, app_on

TIMES = 3


@workflow
async def child() -> str:
    return "child"


@workflow
async def listening() -> str:
    return await receive("go", str, timeout="60s")


async def joins() -> str:
    return await (await child.start())


async def hears() -> str:
    return await receive("go", str, timeout="60s")


async def rests() -> str:
    await sleep("20ms")
    return "rested"


async def signals() -> str:
    run = await listening.start()
    await run.signal("go", "on")
    return await run


async def cancels() -> str:
    await (await listening.start(on_parent_end="leave")).cancel()
    return "cancelled"


CASES: dict[str, Callable[[], Awaitable[str]]] = {
    "outcomes": joins,
    "look": hears,
    "now": rests,
    "deliver": signals,
    "change": cancels,
}


class Away:
    """A call of the store that fails a few times when it is made of other runs than the one that is waited for."""

    def __init__(self, ask: Callable[..., Awaitable[Any]], answered: asyncio.Event) -> None:
        self._ask = ask
        self._answered = answered
        self.failed = 0
        self.spared = ""

    async def __call__(self, *args: Any) -> Any:
        if self.spared in repr(args) and self.spared:
            return await self._ask(*args)
        if self.failed < TIMES:
            self.failed += 1
            raise StoreUnavailable("The database did not answer (it was cut off by the test).")
        answer = await self._ask(*args)
        self._answered.set()
        return answer


async def bodies_of_a_step_beside(database: str, call: str) -> Bodies:
    """How often the body of a step was begun that is under way while the store does not answer a call of its run."""
    bodies, begun, answered = Bodies(), asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> str:
        bodies.ran("slow")
        begun.set()
        await answered.wait()
        return current_run().id

    @workflow
    async def flow() -> list[str]:
        async def beside() -> str:
            await wait_until_begun()
            return await CASES[call]()

        return list(await asyncio.gather(slow(), beside()))

    @step
    async def wait_until_begun() -> None:
        await begun.wait()

    async with app_on(database, [flow, child, listening]) as app:
        store: Any = app._open_parts().store
        away = Away(getattr(store, call), answered)
        run = await app.start(flow)
        # Whoever waits for its result asks for it by the same call.
        away.spared = run.id if call == "outcomes" else ""
        setattr(store, call, away)
        await begun.wait()
        if call == "look":
            await run.signal("go", "on")
        await run.result(timeout="60s")
        assert away.failed == TIMES
    return bodies


@pytest.mark.parametrize("call", CASES)
async def test_a_step_under_way_is_not_done_again_while_the_store_does_not_answer_its_run(database, call):
    assert (await bodies_of_a_step_beside(database, call))["slow"] == 1


async def test_nor_is_it_while_it_asks_whether_a_child_goes_on_that_was_left(database):
    bodies, begun, answered = Bodies(), asyncio.Event(), asyncio.Event()

    @step(retry=Retry(attempts=1))
    async def fails_once() -> None:
        bodies.ran("fails_once")
        if bodies["fails_once"] == 1:
            raise ConnectionError("away")

    @step
    async def slow() -> None:
        bodies.ran("slow")
        begun.set()
        await answered.wait()

    @step
    async def wait_until_begun() -> None:
        await begun.wait()

    @workflow
    async def flow() -> str:
        left = await listening.start(on_parent_end="leave")

        async def joins_it() -> str:
            await wait_until_begun()
            return await left

        await fails_once()
        return str((await asyncio.gather(slow(), joins_it()))[1])

    async with app_on(database, [flow, listening]) as app:
        store: Any = app._open_parts().store
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="away"):
            await run.result(timeout="60s")
        away = store.run = Away(store.run, answered)
        away.spared = run.id
        await run.retry()
        await answered.wait()
        (child,) = await app.runs("listening")
        await app.get(child.run_id).signal("go", "on")
        assert await run.result(timeout="60s") == "on"
        assert (away.failed, bodies["slow"]) == (TIMES, 1)


async def test_the_broken_twin_that_asks_once_does_it_again(database, monkeypatch):
    async def once(self: Stay, ask: Callable[[], Awaitable[Any]]) -> Any:
        return await ask()

    monkeypatch.setattr(Stay, "answered", once)
    # Handed back, it is tried again soon.
    monkeypatch.setattr(execute, "PATIENCE", Retry(base="100ms", factor=1))
    assert (await bodies_of_a_step_beside(database, "outcomes"))["slow"] > 1
