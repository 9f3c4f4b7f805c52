"""Two steps of one name in a run: their records would be taken for each other's, so the second is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stepfast import InvalidDefinition, RunFailed, each, race, receive, review, sleep, step, workflow
from stepfast.kernel.states import RunState
from stepfast.workflows.context import RunContext
from tests.support.apps import Bodies, app_on
from tests.support.virtual_time import until_state

BODIES = Bodies()


@pytest.fixture(autouse=True)
def start_afresh():
    BODIES.clear()


@step(name="namesake")
async def first(number: object) -> str:
    return "first"


def second_with(**options: Any) -> Any:
    @step(name="namesake", **options)
    async def second(number: object) -> str:
        BODIES.ran("second")
        return "second"

    return second


PLAIN = second_with()

WAYS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "called": lambda second: second(1),
    "beside others": lambda second: asyncio.gather(sleep("1h"), second(1)),
    "in a race": lambda second: race(late=sleep("1h"), soon=second(1)),
    "for each item": lambda second: each(second, [1, 2]),
    "for each item, whatever comes of it": lambda second: each(second, [1, 2], join="settled"),
    "for each item, spread out": lambda second: each(second, [1, 2], spread=True),
    "to tell people": lambda second: review("Is it right?", notify=second),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("queue", [None, "elsewhere"])
async def test_a_step_whose_name_another_has_in_the_run_is_refused_before_its_body_runs(database, way, queue):
    steps = [second_with(queue=queue)]

    @workflow
    async def flow() -> None:
        await first(1)
        await WAYS[way](*steps)

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed) as refused:
            await (await app.start(flow)).result(timeout=10)
    told = str(refused.value)
    assert isinstance(refused.value.__cause__, InvalidDefinition)
    assert f"{__name__}.first and {__name__}.second_with.<locals>.second" in told
    assert "@step(name=...)" in told
    assert BODIES["second"] == 0


async def test_the_code_may_catch_the_refusal_and_go_on(database):
    steps = [first, PLAIN]

    @workflow
    async def flow() -> str:
        await steps[0](1)
        try:
            return str(await steps[1](1))
        except InvalidDefinition:
            return f"once more {await steps[0](2)}"

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)).result(timeout=10) == "once more first"


@step(name="namesake_in_a_thread")
def first_in_a_thread(number: int) -> None: ...


@step(name="namesake_in_a_thread")
def second_in_a_thread(number: int) -> None:
    BODIES.ran("second")


PAIRS: dict[str, list[Callable[[int], object]]] = {
    "def steps": [first_in_a_thread, second_in_a_thread],
    "async steps": [first.sync, PLAIN.sync],
    "each": [first.sync, lambda number: each.sync(PLAIN, [number])],
}


@pytest.mark.parametrize("pair", PAIRS)
async def test_a_def_workflow_is_refused_it_too(database, pair):
    @workflow
    def flow() -> None:
        for call in PAIRS[pair]:
            call(1)

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="Two steps are called 'namesake"):
            await (await app.start(flow)).result(timeout=10)
    assert BODIES["second"] == 0


def fresh(offset: int = 0) -> Any:
    """A step that is defined anew each time."""

    @step(name="defined_again")
    async def again(number: int) -> int:
        return number + offset

    return again


async def test_a_step_that_is_defined_again_is_the_same_step(database):
    @workflow
    async def flow() -> list[int]:
        return [await fresh()(1), await fresh(10)(2), *await each(fresh(), [3])]

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)).result(timeout=10) == [1, 12, 3]


SCRIPT = """
from stepfast import step

@step
async def of_the_script(number: int) -> int:
    return number
"""


def loaded_as(name: str, file: str) -> Any:
    """The step of a file that was loaded as the module of that name."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(SCRIPT, file, "exec"), names)
    return names["of_the_script"]


async def test_a_script_that_is_imported_by_its_name_too_has_the_same_steps(database):
    script, imported = loaded_as("__main__", "orders.py"), loaded_as("orders", "orders.py")
    steps = [script, imported]

    @workflow
    async def flow() -> list[int]:
        return [await called(number) for number, called in enumerate(steps)]

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)).result(timeout=10) == [0, 1]


@pytest.mark.parametrize(("module", "file"), [("shop.orders", "orders.py"), ("orders", "other.py")])
async def test_two_files_with_steps_of_one_name_have_different_steps(database, module, file):
    steps = [loaded_as("__main__" if file == "other.py" else "orders", "orders.py"), loaded_as(module, file)]

    @workflow
    async def flow() -> list[int]:
        return [await called(1) for called in steps]

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="Two steps are called 'of_the_script'"):
            await (await app.start(flow)).result(timeout=10)


async def swapped(database: str) -> Any:
    """What a run comes to whose code calls two steps of one name, then waits, then calls them the other way round."""
    order = [first, PLAIN]

    @workflow
    async def flow() -> list[str]:
        got = [f"{called.__name__}={await called(1)}" for called in order]
        await receive("go on")
        return got

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until_state(run, RunState.WAITING, RunState.FAILED)
    order.reverse()
    async with app_on(database, [flow]) as app:
        run = app.get(run.id)
        if (await run.info()).state is RunState.WAITING:
            await run.signal("go on")
        return await run.result(timeout=10)


async def test_no_step_gets_the_result_of_another_of_its_name(database):
    with pytest.raises(RunFailed, match="Two steps are called 'namesake'"):
        await swapped(database)


async def test_twin_without_the_look_at_names_each_step_gets_the_result_of_the_other(database, monkeypatch):
    monkeypatch.setattr(RunContext, "know", lambda context, body: None)
    assert await swapped(database) == ["second=first", "first=second"]


async def test_an_open_run_with_records_of_two_steps_of_one_name_waits_for_code_that_fits(database, monkeypatch):
    steps = [first, PLAIN]

    @workflow
    async def flow() -> None:
        for called in steps:
            await called(1)
        await receive("go on")

    with monkeypatch.context() as before:
        before.setattr(RunContext, "know", lambda context, body: None)
        async with app_on(database, [flow]) as app:
            run = await app.start(flow)
            await until_state(run, RunState.WAITING)
    async with app_on(database, [flow]) as app:
        run = app.get(run.id)
        await run.signal("go on")
        while "waits for code" not in (told := str(await run.why())):
            pass
    assert "namesake#2" in told
