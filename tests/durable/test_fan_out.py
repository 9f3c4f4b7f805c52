"""Wide fan-outs: groups of any number, windows, what becomes of the rest, and steps that are spread out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import (
    Outcome,
    Retry,
    RunFailed,
    RunState,
    WaitTimeout,
    each,
    race,
    receive,
    sleep,
    step,
    timeout,
    workflow,
)
from stepfast.kernel.exchange import Saving
from stepfast.workflows import child_calls
from tests.support.apps import Bodies, app_on
from tests.support.virtual_time import Time, timed_app


@step
async def halve(number: int) -> int:
    return number // 2


@workflow
async def half(number: int) -> int:
    return await halve(number)


@workflow
async def patient(number: int) -> int:
    """Waits for ever, unless it is number 0."""
    if number:
        await receive("go")
    return number


@pytest.fixture
def small_pages(monkeypatch):
    monkeypatch.setattr(child_calls, "PAGE", 10)


async def states_of_children(app, run) -> list[RunState]:
    return [view.state for view in await app.runs() if view.parent_id == run.id]


async def until_all_ended(app, run, time: Time) -> list[RunState]:
    """Let time go on until no child of a run is open."""
    while not set(states := await states_of_children(app, run)) <= {RunState.COMPLETED, RunState.CANCELLED}:
        await time.advance("10ms")
    return states


@pytest.mark.parametrize("join", ["all", "settled", "any", 3, "60%"])
async def test_children_of_several_pages_are_one_group(database, small_pages, join):
    @workflow
    async def parent() -> int:
        got = await each(half, range(24), join=join)
        return len(got) if isinstance(got, list) else 1

    async with app_on(database, [parent, half]) as app:
        run = await app.start(parent)
        assert await run == {"all": 24, "settled": 24, "any": 1, 3: 3, "60%": 15}[join]
        records = await run.steps()
        claims = [event for event in await run.history() if event.type == "claimed"]
    assert len(records) == 2
    assert len(claims) <= 3


async def test_pages_that_a_lost_holder_had_not_started_are_started_by_the_next(database, small_pages, monkeypatch):
    @workflow
    async def parent() -> list[int]:
        return await each(half, range(34))

    lost = asyncio.Event()
    async with app_on(database, [parent]) as app:
        store = app._open_parts().store
        save = store.save

        async def lose_the_third_page(decisions, again=False):
            (*_, last) = decisions
            if not last.opened and last.children and last.children[0].input == '{"number":20}':
                lost.set()
                return [Saving.LOST for _ in decisions]
            return await save(decisions, again)

        monkeypatch.setattr(store, "save", lose_the_third_page)
        run = await app.start(parent)
        await lost.wait()
        assert len(await states_of_children(app, run)) == 20
    async with app_on(database, [parent, half]) as app:
        assert await app.get(run.id).result() == [number // 2 for number in range(34)]
        assert len(await states_of_children(app, run)) == 34


async def test_a_slow_child_does_not_hold_up_those_behind_it(database):
    @workflow
    async def item(number: int) -> int:
        if number == 0:
            await receive("go")
        return number

    @workflow
    async def parent() -> list[int]:
        return await each(item, range(7), at_once=2)

    async with app_on(database, [parent, item]) as app:
        run = await app.start(parent)
        while (await states_of_children(app, run)).count(RunState.COMPLETED) < 6:
            pass
        (slow,) = [view for view in await app.runs() if view.parent_id == run.id and view.state is RunState.WAITING]
        await app.get(slow.run_id).signal("go")
        assert await run == list(range(7))


@pytest.mark.parametrize("join", ["any", 3, "50%", "settled", "all"])
async def test_any_join_takes_a_window(database, join):
    @workflow
    async def parent() -> int:
        got = await each(half, range(40), at_once=17, join=join)
        await sleep("20ms")
        return len(got) if isinstance(got, list) else 1

    async with timed_app(database, parent, half) as (app, time):
        got = await time.result(await app.start(parent))
    assert got == {"any": 1, 3: 3, "50%": 20, "settled": 40, "all": 40}[join]


async def test_a_failure_ends_a_window_and_starts_no_more(database):
    @workflow
    async def fails_on_two(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        return number

    @workflow
    async def parent() -> str:
        try:
            await each(fails_on_two, range(100), at_once=2)
        except RunFailed as error:
            return str(error.__cause__)
        return ""

    async with app_on(database, [parent, fails_on_two]) as app:
        run = await app.start(parent)
        assert await run == "two"
        assert len(await states_of_children(app, run)) < 10


@pytest.mark.parametrize("at_once", [None, 3])
async def test_what_a_decided_join_leaves_is_cancelled(database, at_once):
    @workflow
    async def parent() -> int:
        first = await each(patient, range(4), at_once=at_once, join="any")
        await receive("end")
        return first

    async with timed_app(database, parent, patient) as (app, time):
        run = await app.start(parent)
        while RunState.CANCELLED not in await states_of_children(app, run):
            await time.advance("10ms")
        states = await until_all_ended(app, run, time)
        await run.signal("end")
        assert await run == 0
    assert states.count(RunState.COMPLETED) == 1


@pytest.mark.parametrize("how", ["race", "timeout", "each.sync"])
async def test_children_that_are_called_off_are_cancelled_while_their_parent_goes_on(database, how):
    @workflow
    async def loses_a_race() -> None:
        await race(child=patient(1), late=sleep("30ms"))
        await receive("end")

    @workflow
    async def runs_out_of_time() -> None:
        try:
            async with timeout("30ms"):
                await each(patient, [1, 2])
        except WaitTimeout:
            await receive("end")

    @workflow
    def blocks() -> None:
        try:
            with timeout("30ms"):
                each.sync(patient, [1, 2])
        except WaitTimeout:
            receive("end")

    parents: dict[str, Any] = {"race": loses_a_race, "timeout": runs_out_of_time, "each.sync": blocks}
    parent = parents[how]
    async with timed_app(database, parent, patient) as (app, time):
        run = await app.start(parent)
        while not await states_of_children(app, run):
            pass
        assert set(await until_all_ended(app, run, time)) == {RunState.CANCELLED}
        await run.signal("end")
        await run


async def test_a_step_without_a_queue_is_spread_over_runs_of_its_own(database):
    bodies = Bodies()

    @step(name="spread_square")
    async def square(number: int) -> int:
        bodies.ran("square")
        return number * number

    @workflow(queue="wide")
    async def parent() -> list[int]:
        return await each(square, range(5), spread=True)

    async with app_on(database, [parent]) as app:
        run = await app.start(parent)
        assert await run == [0, 1, 4, 9, 16]
        children = [view for view in await app.runs() if view.parent_id == run.id]
        (worker,) = await app.workers.list()
    assert {(view.kind, view.workflow, view.queue) for view in children} == {("step", "spread_square", "wide")}
    assert bodies["square"] == 5
    assert "spread_square" not in worker.codes


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_a_spread_step_fails_with_its_own_error_after_its_own_retries(database, kind):
    bodies = Bodies()

    @step(name=f"spread_fragile_{kind}", retry=Retry(attempts=2, base=0))
    def fragile(number: int) -> int:
        bodies.ran(str(number))
        if number:
            raise LookupError(f"no {number}")
        return number

    @workflow
    async def in_async() -> list[str]:
        outcomes: list[Outcome[int]] = await each(fragile, range(2), spread=True, join="settled")
        return [str(outcome.error) if outcome.error else "ok" for outcome in outcomes]

    @workflow
    def in_def() -> list[str]:
        outcomes: list[Outcome[int]] = each.sync(fragile, range(2), spread=True, join="settled")
        return [str(outcome.error) if outcome.error else "ok" for outcome in outcomes]

    flow = in_async if kind == "async" else in_def
    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == ["ok", "no 1"]
    assert (bodies["0"], bodies["1"]) == (1, 2)


async def test_what_is_no_step_cannot_be_spread(database):
    async def plain(number: int) -> int:
        return number

    @workflow
    async def flow() -> None:
        await each(plain, [1], spread=True)

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="Mark it @step"):
            await (await app.start(flow))


async def test_a_child_has_the_timeout_of_its_workflow(database):
    @workflow(timeout="100ms")
    async def slow_child() -> None:
        await receive("never")

    @workflow
    async def parent() -> str:
        try:
            await slow_child()
        except RunFailed as error:
            return str(error)
        return ""

    async with timed_app(database, parent, slow_child) as (app, time):
        run = await app.start(parent)
        while await states_of_children(app, run) != [RunState.WAITING]:
            pass
        await time.advance("100ms")
        assert "failed" in await time.result(run)
