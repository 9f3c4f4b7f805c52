"""What could never work is refused where it is written, or before anything is done for it."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import pytest

from stepfast import Retry, RunFailed, WorkerSettings, step, workflow
from stepfast.kernel.errors import Invalid, InvalidDefinition
from stepfast.testing import engine
from tests.support.apps import Bodies, app_on

BODIES = Bodies()
NO_POLICIES: list[Any] = [3, "no", True, Retry, {"attempts": 3}]


async def charge(cents: int) -> int:
    return cents


@pytest.mark.parametrize("given", NO_POLICIES, ids=repr)
def test_a_retry_that_is_no_policy_is_refused_at_the_step(given):
    with pytest.raises(InvalidDefinition, match=r"The retry of step 'charge' is .*; use Retry\(attempts=\.\.\.\)"):
        step(retry=given)(charge)


@pytest.mark.parametrize("given", NO_POLICIES, ids=repr)
def test_a_retry_that_is_no_policy_is_refused_at_the_workflow(given):
    with pytest.raises(InvalidDefinition, match=r"The retry of workflow 'charge' is .*; use Retry\(attempts=\.\.\.\)"):
        workflow(retry=given)(charge)


def test_a_retry_that_is_no_policy_is_refused_for_a_worker():
    given: Any = 3
    with pytest.raises(Invalid, match="retry is 3; use Retry"):
        WorkerSettings(retry=given)


@pytest.mark.parametrize("given", ["high", 2**70, True, 1.5], ids=repr)
def test_a_priority_that_no_line_is_ordered_by_is_refused_at_the_workflow(given):
    with pytest.raises(Invalid, match="The priority of workflow 'charge' is"):
        workflow(priority=given)(charge)


def test_a_version_that_is_no_number_is_refused():
    with pytest.raises(InvalidDefinition, match="has version True"):
        workflow(version=True)(charge)


@pytest.mark.parametrize("given", [0, -1, 2**31, 1.0])
def test_a_version_outside_of_its_bounds_is_refused_with_both(given):
    with pytest.raises(InvalidDefinition, match="use a whole number from 1 to 2,147,483,647"):
        workflow(version=given)(charge)


@pytest.mark.parametrize("given", [5, [], "nobody", ["cents", "nobody"], [1]], ids=repr)
def test_a_key_that_names_no_parameters_is_refused(given):
    with pytest.raises(InvalidDefinition, match=r"The key of step 'charge' is .*; name parameters of it"):
        step(key=given)(charge)


def test_a_function_that_tells_no_parameters_is_refused():
    with pytest.raises(InvalidDefinition, match=r"'max' cannot be called by name: .* Wrap it in a function"):
        step(max)


@pytest.mark.parametrize("given", [step(charge), workflow(charge)], ids=repr)
@pytest.mark.parametrize("decorator", [step(name="odd"), workflow(name="odd"), step, workflow])
def test_what_is_a_step_or_workflow_already_is_refused(decorator, given):
    with pytest.raises(InvalidDefinition, match=r"is made of <(step|workflow) .*charge>. Mark the function itself"):
        decorator(given)


@pytest.mark.parametrize("given", [int, BaseException], ids=repr)
@pytest.mark.parametrize("decorator", [step, workflow])
def test_a_class_is_refused(decorator, given):
    with pytest.raises(InvalidDefinition, match=f"'{given.__name__}' is a class and no function. Wrap it"):
        decorator(given)


async def test_a_function_written_in_c_that_tells_its_parameters_is_a_step():
    measure = step(len)

    @workflow
    async def measured() -> int:
        return await measure.aio("four")

    async with engine(workflows=[measured]) as opened:
        assert await opened.run(measured) == 4


class Doubling:
    def __call__(self, number: int) -> int:
        return number * 2

    def double(self, number: int) -> int:
        return number * 2


@pytest.mark.parametrize(
    "given", [functools.partial(pow, 2), Doubling(), dict.get], ids=["partial", "object", "of a class"]
)
@pytest.mark.parametrize("decorator", [step(name="odd"), workflow(name="odd"), step, workflow])
def test_what_can_be_called_and_is_no_function_is_refused(decorator, given):
    with pytest.raises(InvalidDefinition, match=r"'\w+' is an object \(\w+\) and no function\. Wrap it in a function"):
        decorator(given)


@pytest.mark.parametrize("decorator", [step, workflow], ids=["step", "workflow"])
def test_a_method_is_refused(decorator):
    with pytest.raises(InvalidDefinition, match=r"'double' is a method of Doubling, .* Make it a function outside"):
        decorator(Doubling.double)


def test_a_method_that_is_bound_can_be_a_step():
    assert step(name="wrong.bound")(Doubling().double)(2) == 4


class Shelf:
    @step(name="wrong.above")
    @staticmethod
    async def above(number: int) -> int:
        return number * 2

    @staticmethod
    @step(name="wrong.below")
    async def below(number: int) -> int:
        return number * 2


@workflow
async def both_shelves() -> list[int]:
    return [await Shelf.above(1), await Shelf().above(2), await Shelf().below(3)]


async def test_a_static_method_can_be_a_step_on_either_side(database):
    async with app_on(database, [both_shelves]) as app:
        run = await app.start(both_shelves)
        assert await run == [2, 4, 6]
        assert [record.call.name for record in await run.steps()] == ["wrong.above", "wrong.above", "wrong.below"]


class Unknown:
    """A class that nothing is known of."""


@step(retry=Retry(attempts=1))
async def pay() -> Unknown:
    BODIES.ran("pay")
    return Unknown()


@step(retry=Retry(attempts=1))
def pay_in_a_thread() -> Unknown:
    BODIES.ran("pay")
    return Unknown()


@step(retry=Retry(attempts=1))
async def refuse() -> NoReturn:
    raise ValueError("never")


@workflow
async def refused() -> str:
    try:
        await refuse()
    except ValueError as error:
        return f"caught {error}"


@workflow
async def order() -> None:
    await pay()


@workflow
def order_in_a_thread() -> None:
    pay_in_a_thread()


@pytest.mark.parametrize("flow", [order, order_in_a_thread], ids=["async", "def"])
async def test_a_body_whose_result_could_never_be_stored_does_not_run(database, flow: Any):
    BODIES.clear()
    async with engine(database=database, workflows=[flow]) as opened:
        with pytest.raises(RunFailed, match="cannot be stored by its hint") as raised:
            await opened.result(await opened.start(flow))
        assert getattr(raised.value.__cause__, "code", None) == "E-VAL-002"
    assert not BODIES


async def test_a_step_that_never_returns_runs_and_raises(database):
    async with engine(database=database, workflows=[refused]) as opened:
        assert await opened.result(await opened.start(refused)) == "caught never"
