"""Code that changed while its runs were open."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import RunState, Stepfast, receive, step, workflow
from tests.support.apps import Bodies, app_on


class Open:
    """A run that was stopped after some steps, to be continued by other code."""

    def __init__(self) -> None:
        self.bodies = Bodies()
        self.reached = asyncio.Event()
        self.let_go = asyncio.Event()


def version_of(names: list[str], state: Open, waits: bool):
    """A workflow `flow` whose code calls the named steps in turn, and then a step that waits."""

    def make(name: str):
        @step(name=name)
        async def body(argument: str = name) -> str:
            state.bodies.ran(name)
            return argument

        return body

    steps = [make(name) for name in names]

    @step
    async def hold() -> None:
        state.reached.set()
        if waits:
            await state.let_go.wait()

    @workflow(name="flow")
    async def flow() -> list[str]:
        results = [await body() for body in steps]
        await hold()
        return results

    return flow


async def open_run(database: str, names: list[str], state: Open) -> str:
    code = version_of(names, state, waits=True)
    async with app_on(database, [code]) as app:
        run = await app.start(code)
        await state.reached.wait()
    state.let_go.set()
    return run.id


async def state_of(app: Stepfast, run_id: str) -> RunState:
    return (await app.get(run_id).info()).state


async def until(app, run_id: str, wanted: RunState) -> None:
    while await state_of(app, run_id) is not wanted:
        pass


async def test_an_added_step_runs_and_the_recorded_ones_do_not(database):
    state = Open()
    run_id = await open_run(database, ["a", "b"], state)
    code = version_of(["a", "b", "c"], state, waits=False)
    async with app_on(database, [code]) as app:
        assert await app.get(run_id).result() == ["a", "b", "c"]
    assert state.bodies == {"a": 1, "b": 1, "c": 1}


async def test_a_removed_step_leaves_the_run_waiting_for_code_and_runs_nothing(database):
    state = Open()
    run_id = await open_run(database, ["a", "b"], state)
    code = version_of(["a"], state, waits=False)
    async with app_on(database, [code]) as app:
        await until(app, run_id, RunState.WAITING)
    assert state.bodies == {"a": 1, "b": 1}


async def test_a_run_that_waited_for_code_goes_on_when_a_worker_brings_it(database):
    state = Open()
    run_id = await open_run(database, ["a", "b"], state)
    async with app_on(database, [version_of(["a"], state, waits=False)]) as app:
        await until(app, run_id, RunState.WAITING)
    async with app_on(database, [version_of(["a", "b"], state, waits=False)]) as app:
        assert await app.get(run_id).result() == ["a", "b"]
    assert state.bodies == {"a": 1, "b": 1}


async def test_records_of_two_codes_fit_neither_until_the_run_is_taken_back(database):
    state = Open()
    first, other = (version_of(names, state, waits=False) for names in (["a", "b"], ["a", "c"]))
    run_id = await open_run(database, ["a", "b"], state)
    async with app_on(database, [other]) as app:
        await until(app, run_id, RunState.WAITING)
    assert state.bodies == {"a": 1, "b": 1, "c": 1}
    async with app_on(database, [first]) as app:
        run = app.get(run_id)
        async with asyncio.timeout(60):
            while "c#1; before them the last to end was b#1" not in (said := str(await run.why())):
                pass
        assert (f"`stepfast runs rollback {run_id} --to STEP`" in said, f"runs resume {run_id}`" in said) == (
            True,
            True,
        )
        await run.rollback("b#1")
        await run.resume()
        assert await run.result(timeout="30s") == ["a", "b"]
    assert state.bodies == {"a": 1, "b": 1, "c": 1}


async def test_other_arguments_for_a_recorded_step_leave_the_run_waiting_for_code(database):
    bodies, reached, let_go = Bodies(), asyncio.Event(), asyncio.Event()

    @step
    async def charge(amount: int) -> int:
        bodies.ran("charge")
        return amount

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    def code(amount: int):
        @workflow(name="flow")
        async def flow() -> int:
            charged = await charge(amount)
            await hold()
            return charged

        return flow

    async with app_on(database, [first := code(1)]) as app:
        run = await app.start(first)
        await reached.wait()
    async with app_on(database, [code(2)]) as app:
        await until(app, run.id, RunState.WAITING)
        events = await app.get(run.id).history()
    assert "charge#1" in (events[-1].data or "")
    assert bodies["charge"] == 1


@step(name="charge")
async def charge_in(amount: int, currency: str = "EUR") -> int:
    return 0


@step(name="charge")
async def charge_with_more(amount: int, *more: int, **named: int) -> int:
    return 0


@pytest.mark.parametrize("new_charge", [charge_in, charge_with_more], ids=["default", "variable"])
async def test_a_new_optional_parameter_breaks_no_open_run(database, new_charge):
    bodies, reached, let_go = Bodies(), asyncio.Event(), asyncio.Event()

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    @step(name="charge")
    async def old_charge(amount: int) -> int:
        bodies.ran("charge")
        return amount

    @workflow(name="flow")
    async def old_flow() -> int:
        charged = await old_charge(1)
        await hold()
        return charged

    @workflow(name="flow")
    async def new_flow() -> int:
        charged: int = await new_charge(1)
        await hold()
        return charged

    async with app_on(database, [old_flow]) as app:
        run = await app.start(old_flow)
        await reached.wait()
    let_go.set()
    async with app_on(database, [new_flow]) as app:
        assert await app.get(run.id).result() == 1
    assert bodies["charge"] == 1


async def test_a_set_of_tasks_has_the_same_order_on_every_replay(database):
    @step
    async def numbered(number: int) -> int:
        return number

    @workflow
    async def flow() -> list[int]:
        tasks = {asyncio.create_task(numbered(number)) for number in range(40)}
        done, _ = await asyncio.wait(tasks)
        first = [await numbered(100 + task.result()) for task in done]
        await receive("go")
        tasks = {asyncio.create_task(numbered(number)) for number in range(40)}
        second = [await numbered(200 + await task) for task in asyncio.as_completed(tasks)]
        await receive("go")
        return first + second

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        for _ in range(2):
            while (await run.info()).state is not RunState.WAITING:
                pass
            await run.signal("go")
        assert sorted(await run) == [*range(100, 140), *range(200, 240)]


async def test_a_run_that_comes_no_further_because_its_code_raises_tells_what_it_raised(database):
    @step
    async def first() -> int:
        return 1

    @workflow(name="flow")
    async def before() -> None:
        await first()
        await receive("go")

    async with app_on(database, [before]) as app:
        run = await app.start(before)
        while (await run.info()).state is not RunState.WAITING:
            pass

    @workflow(name="flow")
    async def after() -> None:
        raise ValueError("the new code is broken")

    async with app_on(database, [after]) as app:
        await app.get(run.id).signal("go")
        while "broken" not in (told := str(await app.get(run.id).why())):
            assert (await app.get(run.id).info()).state is not RunState.FAILED
        assert "It raised ValueError: the new code is broken" in told
