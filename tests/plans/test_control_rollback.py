"""A run is taken back to an earlier moment: what ended later counts no more, and the run is held there."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest

from stepfast import (
    IllegalMove,
    Invalid,
    NotFound,
    Retry,
    RunFailed,
    RunState,
    StepfastError,
    WaitTimeout,
    step,
    workflow,
)
from stepfast.workflows.plans.plan import Block, Constant, Do, OnFailure, Receive
from tests.plans.harness import Executors, plan_workflow, use
from tests.plans.harness import step as plan_step
from tests.support.apps import app_on
from tests.support.following import state_of

RAN: Counter[str] = Counter()
BROKEN: set[str] = set()


@pytest.fixture(autouse=True)
def fresh() -> None:
    RAN.clear()
    BROKEN.clear()


async def do(name: str) -> str:
    RAN[name] += 1
    if name in BROKEN:
        raise ValueError(name)
    return name


def work(name: str, **options: Any) -> Any:
    return plan_step(name, use("do", name=name), **options)


def plan(*steps: Any, name: str = "plan") -> Any:
    return plan_workflow(*steps, executors=Executors(do=do), name=name)


@step(name="rollback_note")
async def note(name: str) -> str:
    RAN[name] += 1
    return name


@workflow(name="rollback_function")
async def function() -> list[str]:
    return [await note("a"), await note("b"), await note("c")]


CHAIN = plan(work("a"), work("b", needs=("a",)), work("c", needs=("b",)), name="chain")


async def ended(app: Any, flow: Any) -> Any:
    run = await app.start(flow)
    with contextlib.suppress(RunFailed):
        await run.result(timeout="60s")
    return run


@pytest.mark.parametrize(("flow", "to"), [(CHAIN, "a"), (function, "rollback_note#1")])
async def test_a_run_is_held_where_the_step_had_ended_and_goes_on_from_there(database, flow, to):
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        first = await run.result()
        RAN.clear()
        changed = await run.rollback(to, actor="ann", reason="look again")
        assert (changed.state, changed.generation) == (RunState.PAUSED, 2)
        assert (await run.info()).state is RunState.PAUSED
        assert RAN == {}
        await run.resume()
        assert await run.result(timeout="60s") == first
        assert RAN == {"b": 1, "c": 1}


async def test_the_event_says_to_where_by_whom_and_why(database):
    async with app_on(database, [CHAIN]) as app:
        run = await ended(app, CHAIN)
        await run.rollback("a", actor="ann", reason="look again")
        event = (await run.history())[-1]
        assert (event.type, event.actor) == ("rolled_back", "ann")
        assert '"to": "a"' in (event.data or "")
        assert '"reason": "look again"' in (event.data or "")


async def test_why_says_who_holds_a_run_that_was_rolled_back(database):
    async with app_on(database, [CHAIN]) as app:
        run = await ended(app, CHAIN)
        await run.rollback("a", actor="ann", reason="look again")
        told = str(await run.why())
        assert "ann" in told
        assert "look again" in told


async def test_whoever_waits_for_a_run_that_is_rolled_back_waits_on(database):
    async with app_on(database, [CHAIN]) as app:
        run = await ended(app, CHAIN)
        await run.rollback("a")
        with pytest.raises(WaitTimeout):
            await run.result(timeout="50ms")


async def test_a_run_goes_back_to_an_event_by_its_number(database):
    async with app_on(database, [CHAIN]) as app:
        run = await ended(app, CHAIN)
        [number] = [each.seq for each in await run.history() if each.type == "step_completed" and each.step == "b#1"]
        RAN.clear()
        await run.rollback(number)
        await run.resume()
        await run.result(timeout="60s")
        assert RAN == {"c": 1}


async def test_an_event_of_an_attempt_that_failed_is_no_end_of_its_step(database):
    tries: list[int] = []

    async def stumble() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("once")
        return len(tries)

    flow = plan_workflow(
        work("a"),
        plan_step("b", use("stumble"), needs=("a",), retry=Retry(attempts=2, base="1ms")),
        executors=Executors(do=do, stumble=stumble),
        name="stumbling",
    )
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        number = next(each.seq for each in await run.history() if each.type == "step_failed")
        await run.rollback(number)
        kept = [each.call.name for each in await run.steps() if each.superseded_by is None]
        assert kept == ["a"]


async def test_a_run_goes_back_to_the_first_end_of_a_step_that_ended_twice(database):
    flow = plan(work("a"), work("b", needs=("a",)), plan_step("wait", Receive(Constant("go")), needs=("b",)))
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await state_of(run, RunState.WAITING)
        first = next(each.seq for each in await run.history() if each.step == "b#1" and each.type == "step_completed")
        await run.rollback("a")
        await run.resume()
        await state_of(run, RunState.WAITING)
        await run.rollback(first)
        kept = [each.call.name for each in await run.steps() if each.superseded_by is None]
        assert kept == ["a"]


async def test_an_event_before_any_step_takes_all_of_them_back(database):
    async with app_on(database, [CHAIN]) as app:
        run = await ended(app, CHAIN)
        RAN.clear()
        await run.rollback(1)
        await run.resume()
        await run.result(timeout="60s")
        assert RAN == {"a": 1, "b": 1, "c": 1}


async def test_a_run_that_waits_goes_back_in_its_generation(database):
    flow = plan(work("a"), work("b", needs=("a",)), plan_step("wait", Receive(Constant("go")), needs=("b",)))
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await state_of(run, RunState.WAITING)
        changed = await run.rollback("a")
        assert (changed.state, changed.generation) == (RunState.PAUSED, 1)
        await run.resume()
        await run.signal("go", 1)
        assert await run.result(timeout="60s") == 1
        assert RAN == {"a": 1, "b": 2}


async def test_what_was_undone_after_that_moment_is_done_again(database):
    BROKEN.add("bad")
    group = plan_step(
        "group",
        Do(Block((work("book", undo=use("do", name="unbook")), work("bad")), is_sequence=True)),
        on_failure=OnFailure.COMPENSATE,
        needs=("a",),
    )
    async with app_on(database, [flow := plan(work("a"), group)]) as app:
        run = await ended(app, flow)
        assert RAN["unbook"] == 1
        BROKEN.clear()
        RAN.clear()
        await run.rollback("book")
        await run.resume()
        await run.result(timeout="60s")
        assert RAN == {"book": 1, "bad": 1}


async def test_a_run_that_a_worker_holds_is_not_rolled_back(database):
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        begun.set()
        await go_on.wait()

    flow = plan_workflow(plan_step("hang", use("hang")), executors=Executors(hang=hang), name="hanging")
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await begun.wait()
        with pytest.raises(IllegalMove, match="running"):
            await run.rollback("hang")
        go_on.set()
        await run.result(timeout="60s")


@pytest.mark.parametrize(
    ("to", "error"), [("nobody", StepfastError), (10_000, NotFound), (0, Invalid), (None, Invalid)]
)
async def test_a_rollback_to_what_is_not_there_is_refused_and_changes_nothing(database, to, error):
    async with app_on(database, [CHAIN]) as app:
        run = await ended(app, CHAIN)
        before = (await run.info(), await run.history(), await run.steps())
        with pytest.raises(error):
            await run.rollback(to)
        assert (await run.info(), await run.history(), await run.steps()) == before


async def test_a_rollback_comes_once_for_its_key(database):
    async with app_on(database, [CHAIN]) as app:
        run = await ended(app, CHAIN)
        await run.rollback("a", key="k")
        await run.resume()
        await run.result(timeout="60s")
        again = await run.rollback("a", key="k")
        assert (again.generation, again.repeated) == (2, True)
        assert (await run.info()).state is RunState.COMPLETED
