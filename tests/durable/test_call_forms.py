"""The forms of a durable call: the wrong one names the right one, wherever it stands."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Graph, RunFailed, WrongCall, step, workflow
from tests.support.apps import app_on


@step
async def awaited(number: int) -> int:
    return number + 1


@step
def plain(number: int) -> int:
    return number + 2


@workflow
async def awaited_child(number: int) -> int:
    return await awaited(number)


@workflow
def plain_child(number: int) -> int:
    return plain(number)


async def refused(database: str, workflows: list[Any], words: str) -> None:
    """Run the first of some workflows: it must fail for the form of a call, with these words."""
    async with app_on(database, workflows) as app:
        with pytest.raises(RunFailed, match=words) as failed:
            await (await app.start(workflows[0]))
        assert isinstance(failed.value.__cause__, WrongCall)


@pytest.mark.parametrize("called", [awaited, awaited_child], ids=["step", "workflow"])
async def test_the_blocking_form_in_an_async_workflow_names_the_plain_call(database, called):
    @workflow
    async def flow() -> int:
        result: int = called.sync(1)
        return result

    await refused(database, [flow, awaited_child], rf"write `await {called.__name__}\(\.\.\.\)`")


@pytest.mark.parametrize("called", [plain, plain_child], ids=["step", "workflow"])
async def test_the_awaitable_form_in_a_def_workflow_names_the_plain_call(database, called):
    @workflow
    def flow() -> int:
        result: int = called.aio(1)
        return result

    await refused(database, [flow, plain_child], rf"in a `def` workflow call {called.__name__}\(\.\.\.\)")


@pytest.mark.parametrize("called", [awaited, awaited_child], ids=["step", "workflow"])
async def test_the_blocking_form_in_other_async_code_names_the_plain_call(called):
    with pytest.raises(WrongCall, match=rf"in async code write `await {called.__name__}\(\.\.\.\)`"):
        called.sync(1)


@pytest.mark.parametrize("form", ["async", "aio", "def", "sync"])
async def test_a_child_in_a_steps_body_is_refused(database, form):
    @step
    async def in_async() -> int:
        return await (awaited_child(1) if form == "async" else plain_child.aio(1))

    @step
    def in_def() -> int:
        return plain_child(1) if form == "def" else awaited_child.sync(1)

    @workflow
    async def flow() -> int:
        return await (in_async() if form in ("async", "aio") else in_def.aio())

    await refused(
        database, [flow, awaited_child, plain_child], r"in a step's body, .* app\.start\((awaited|plain)_child"
    )


async def test_workflows_are_plain_functions_again_where_a_run_was_executed(database):
    @workflow
    async def flow() -> int:
        return await awaited(1)

    async with app_on(database, [flow], worker=False) as app:
        run = await app.start(flow)
        await run.execute()
        assert await awaited_child(1) == 2
        assert plain_child(1) == 3


@pytest.mark.parametrize("called", [awaited, awaited_child], ids=["step", "workflow"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
async def test_the_awaitable_form_of_an_async_function_names_the_form_that_it_has(database, called, is_async):
    @workflow
    async def in_async() -> int:
        result: int = await called.aio(1)
        return result

    @workflow
    def in_def() -> int:
        result: int = called.aio(1)
        return result

    flow = in_async if is_async else in_def
    right = rf"`await {called.__name__}\(\.\.\.\)`" if is_async else rf"{called.__name__}\.sync\(\.\.\.\)"
    await refused(database, [flow, awaited_child], right)


@pytest.mark.parametrize("called", [plain, plain_child], ids=["step", "workflow"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "def"])
async def test_the_blocking_form_of_a_def_function_names_the_form_that_it_has(database, called, is_async):
    @workflow
    async def in_async() -> int:
        result: int = called.sync(1)
        return result

    @workflow
    def in_def() -> int:
        result: int = called.sync(1)
        return result

    flow = in_async if is_async else in_def
    right = rf"`await {called.__name__}\.aio\(\.\.\.\)`" if is_async else rf"call {called.__name__}\(\.\.\.\)"
    await refused(database, [flow, plain_child], right)


async def test_a_form_that_a_function_lacks_names_the_right_one_outside_of_runs_too():
    with pytest.raises(WrongCall, match=r"write `await awaited\(\.\.\.\)`"):
        awaited.aio(1)  # type: ignore[attr-defined]
    with pytest.raises(WrongCall, match=r"write `await plain\.aio\(\.\.\.\)`"):
        plain.sync(1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("called", "in_async", "in_def"),
    [
        (awaited_child, r"write `await awaited_child\(\.\.\.\)`", r"call awaited_child\.sync\(\.\.\.\)"),
        (plain_child, r"write `await plain_child\.aio\(\.\.\.\)`", r"call plain_child\(\.\.\.\)"),
    ],
    ids=["async", "def"],
)
async def test_a_run_of_its_own_in_workflow_code_names_the_call_of_a_child(database, called, in_async, in_def):
    @workflow
    async def awaits() -> int:
        result: int = called.run(1)
        return result

    @workflow
    def blocks() -> int:
        result: int = called.run(1)
        return result

    await refused(database, [awaits, called], in_async)
    await refused(database, [blocks, called], in_def)


async def test_a_graph_that_workflow_code_runs_is_sent_to_a_step(database):
    graph = Graph("order", input=int, output=int)
    graph.use(awaited, number=graph.input)

    @workflow
    def blocks() -> int:
        return graph.run(1)

    await refused(database, [blocks], r"use `await app\.start\(order, \.\.\.\)` in a function marked @step")


async def test_a_run_of_its_own_in_other_async_code_names_the_start_of_a_run():
    with pytest.raises(WrongCall, match=r"in async code use `await app\.start\(plain_child, \.\.\.\)`"):
        plain_child.run(1)


@step
async def awaited_self(self: str) -> str:
    return self


@step
def plain_self(self: str) -> str:
    return self


@workflow
async def awaited_child_self(self: str) -> str:
    return self


@workflow
def plain_child_self(self: str) -> str:
    return self


@workflow
async def named_self(self: str) -> list[str]:
    child = await awaited_child_self.start(self=self)
    return [
        await awaited_self(self=self),
        await plain_self.aio(self=self),
        await awaited_child_self(self=self),
        await plain_child_self.aio(self=self),
        await child,
    ]


@workflow
def named_self_in_thread(self: str) -> list[str]:
    child = plain_child_self.start.sync(self=self)
    return [
        awaited_self.sync(self=self),
        plain_self(self=self),
        awaited_child_self.sync(self=self),
        plain_child_self(self=self),
        child.result(),
    ]


@pytest.mark.parametrize("flow", [named_self, named_self_in_thread], ids=["async", "def"])
async def test_an_argument_may_be_called_self(database, flow):
    async with app_on(database, [flow, awaited_child_self, plain_child_self]) as app:
        assert await (await app.start(flow, self="me")) == ["me"] * 5


async def test_an_argument_may_be_called_self_outside_a_run():
    assert await awaited_self(self="me") == plain_self(self="me") == await awaited_child_self(self="me") == "me"
