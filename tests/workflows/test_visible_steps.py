"""Steps that the functions of an app's workflows see: two of one name are refused when the app gets to know them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from stepfast import InvalidDefinition, Stepfast, step, workflow
from stepfast.workflows.functions import Workflow
from stepfast.workflows.registry import Registry


@step(name="seen")
async def seen() -> None: ...


@step(name="seen")
async def also_seen() -> None: ...


@step
async def apart() -> None: ...


async def names_one() -> None:
    await seen()


async def names_the_other() -> None:
    await also_seen()


async def names_both() -> None:
    await seen()
    await also_seen()


def enclosing(enclosed: Any) -> Callable[[], Any]:
    async def encloses() -> None:
        await enclosed()

    return encloses


def of(function: Callable[..., Any], name: str = "flow") -> Workflow:
    return Workflow(function, name, 1, "default", 0)


@pytest.mark.parametrize(
    "functions",
    [(names_one, names_the_other), (names_both,), (names_one, enclosing(also_seen))],
    ids=["two functions", "one function", "enclosed"],
)
def test_two_of_one_name_are_refused_with_their_places(functions):
    with pytest.raises(InvalidDefinition) as refused:
        Registry([of(function, f"flow_{number}") for number, function in enumerate(functions)])
    assert f"'seen': {__name__}.seen and {__name__}.also_seen." in str(refused.value)
    assert "@step(name=...)" in str(refused.value)


def test_an_app_refuses_them_when_it_is_made(tmp_path):
    one, both = workflow(name="sees_one")(names_one), workflow(name="sees_both")(names_both)
    Stepfast(f"sqlite:///{tmp_path}/one.db", workflows=[one])
    with pytest.raises(InvalidDefinition, match="Two steps are called 'seen'"):
        Stepfast(f"sqlite:///{tmp_path}/two.db", workflows=[one, both])


def test_any_number_of_workflows_see_one_step():
    Registry([of(names_one, "one"), of(enclosing(seen), "two"), of(enclosing(apart), "three")])


def test_a_workflow_that_is_defined_again_may_see_another_step():
    registry = Registry([of(enclosing(seen))])
    registry.add(of(enclosing(also_seen)))
    with pytest.raises(InvalidDefinition, match="Two steps are called 'seen'"):
        registry.add(of(names_one, "other"))


def test_what_a_refused_workflow_sees_is_not_kept():
    async def names_three() -> None:
        await seen()
        await apart()
        await also_seen()

    @step(name="apart")
    async def apart_elsewhere() -> None: ...

    registry = Registry([])
    with pytest.raises(InvalidDefinition):
        registry.add(of(names_three, "refused"))
    registry.add(of(enclosing(apart_elsewhere)))


class Touchy:
    """Raises when anything is asked of it."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise AssertionError(f"somebody asked for {name}")


TOUCHY = Touchy()


async def names_what_must_not_be_touched() -> object:
    return TOUCHY


def test_nothing_is_asked_of_what_a_function_sees():
    Registry([of(names_what_must_not_be_touched, "one"), of(enclosing(Touchy()), "two")])


def test_a_name_that_is_not_bound_yet_is_passed_over():
    async def encloses() -> None:
        await later()

    Registry([of(encloses)])

    @step
    async def later() -> None: ...
