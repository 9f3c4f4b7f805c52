"""`race`, `each` and `timeout` where they cannot work: refused with a code, and the right form is named."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from stepfast import Invalid, Retry, RunFailed, WrongCall, each, race, receive, sleep, step, timeout, workflow
from stepfast.testing import engine
from tests.support.apps import app_on

NO_CALL = cast(Any, 5)
UNCALLED = cast(Any, lambda: sleep("1h"))


@step
async def triple(number: int) -> int:
    return 3 * number


async def told_in(database: str, body: Callable[[], Awaitable[str]]) -> str:
    """What a step answers in a run that does nothing but call it."""

    @workflow
    async def flow() -> str:
        return await body()

    async with app_on(database, [flow]) as app:
        told: str = await (await app.start(flow))
    return told


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wrong", [NO_CALL, UNCALLED, triple], ids=["value", "function", "step"])
async def test_a_race_of_what_cannot_be_awaited_is_refused_and_names_it(database, wrong):
    @workflow
    async def flow() -> str:
        try:
            await race(late=sleep("1h"), odd=wrong)
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [flow]) as app:
        assert "race(odd=...) takes a call" in await (await app.start(flow))


@pytest.mark.parametrize(("wrong", "said"), [(NO_CALL, "odd=lambda: ..."), (cast(Any, lambda: 5), "of type int")])
async def test_a_race_in_a_def_workflow_refuses_what_is_no_call(database, wrong, said):
    @workflow
    def flow() -> str:
        try:
            race.sync(late=lambda: sleep("1h"), odd=wrong)
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [flow]) as app:
        assert said in await (await app.start(flow))


@pytest.mark.filterwarnings("error")
async def test_a_race_of_calls_without_names_is_refused_and_shows_the_right_form(database):
    @workflow
    async def flow() -> str:
        try:
            await race(receive("paid"), sleep("1h"), late=sleep("1h"))  # type: ignore[arg-type]
        except WrongCall as error:
            return f"{error.code} {error}"
        return ""

    async with app_on(database, [flow]) as app:
        told = await (await app.start(flow))
    assert told.startswith("E-VAL-004 ")
    assert "write race(paid=receive('paid'), late=sleep('24h'))" in told


async def test_a_race_of_functions_without_names_is_refused_in_a_def_workflow_too(database):
    @workflow
    def flow() -> str:
        try:
            race.sync(UNCALLED)
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [flow]) as app:
        assert "write race.sync(paid=lambda: receive('paid')" in await (await app.start(flow))


@pytest.mark.filterwarnings("error")
async def test_a_race_in_a_steps_body_is_refused(database):
    noted: list[int] = []

    @step(retry=Retry(attempts=1))
    async def note(number: int) -> None:
        noted.append(number)

    @step(retry=Retry(attempts=1))
    async def body() -> str:
        try:
            await race(one=note(1), two=note(2))
        except WrongCall as error:
            return str(error)
        return ""

    assert "race(...) was called in a step's body" in await told_in(database, body)
    assert noted == []


async def no_items():
    yield 1


@pytest.mark.parametrize("items", [None, 5, no_items()], ids=["none", "number", "async generator"])
async def test_each_over_what_is_no_list_is_refused(items):
    @workflow
    async def flow() -> str:
        try:
            await each(triple, items)
        except Invalid as error:
            return str(error)
        return ""

    async with engine(workflows=[flow]) as tried:
        assert "each() takes a list of items, or another iterable" in await tried.run(flow)


@workflow
async def child(number: int) -> int:
    return number


@pytest.mark.parametrize("over", [triple, child], ids=["steps", "children"])
@pytest.mark.parametrize("at_once", [0, -1, 1.5, True, "3"], ids=repr)
async def test_a_number_at_once_that_is_none_is_refused(over, at_once):
    @workflow
    async def flow() -> None:
        await each(over, [1, 2], at_once=at_once)

    @workflow
    def in_thread() -> None:
        each.sync(over, [1, 2], at_once=at_once)

    async with engine(workflows=[flow, in_thread, child]) as tried:
        for form in (flow, in_thread):
            with pytest.raises(RunFailed, match="it must be a whole number from 1 on") as failed:
                await tried.run(form)
            assert isinstance(failed.value.__cause__, Invalid)


async def test_each_over_a_plain_function_is_refused_and_names_the_right_form(database):
    @workflow
    async def flow() -> str:
        try:
            await each(cast(Any, str), [1])
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [flow]) as app:
        told = await (await app.start(flow))
    assert "answers with str, which cannot be awaited. Mark it @step." in told


async def test_a_race_in_the_body_of_a_def_step_is_refused(database):
    @step(retry=Retry(attempts=1))
    def body() -> str:
        try:
            race(one=triple(1)).close()
        except WrongCall as error:
            return str(error)
        return ""

    assert "race(...) was called in a step's body" in await told_in(database, body.aio)


async def test_each_in_a_steps_body_is_refused(database):
    @step(retry=Retry(attempts=1))
    async def body() -> str:
        try:
            await each(triple, [1, 2])
        except WrongCall as error:
            return str(error)
        return ""

    assert "each(...) was called in a step's body" in await told_in(database, body)


async def test_timeout_in_a_steps_body_is_refused_by_its_own_name(database):
    @step(retry=Retry(attempts=1))
    async def body() -> str:
        try:
            async with timeout("1h"):
                return ""
        except WrongCall as error:
            return str(error)

    assert "timeout(...) was called outside" in await told_in(database, body)


async def test_each_is_plain_in_a_workflow_that_is_called_outside_a_run():
    @workflow
    async def flow() -> list[int]:
        return await each(triple, [1, 2])

    assert await flow() == [3, 6]


async def test_a_race_is_plain_in_a_workflow_that_is_called_outside_a_run():
    @workflow
    async def flow() -> tuple[str, int]:
        return await race(one=triple(1))

    assert await flow() == ("one", 3)
