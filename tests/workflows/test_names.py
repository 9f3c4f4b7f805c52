"""Names that are given: an empty one is refused, and is not taken for none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepfast import Derived, Domain, Graph, Source, StageContext, Stepfast, step, workflow
from stepfast.kernel.errors import Invalid, InvalidDefinition


async def say_nothing() -> None: ...


async def say_in_turn(context: StageContext) -> None: ...


async def copy_paper(document: Source) -> Derived:
    return Derived(document.uri)


class Sayer:
    async def execute(self) -> None: ...


def stage_of_a_plan(name: str | None) -> Any:
    graph = Graph("talk")
    made = graph.stage(id=name)(say_in_turn)
    graph.plan()
    return made


def app() -> Stepfast:
    return Stepfast(workflows=[], worker=False)


NAMED: dict[str, Callable[[str | None], Any]] = {
    "a step": lambda name: step(name=name)(say_nothing),
    "a workflow": lambda name: workflow(name=name)(say_nothing),
    "a stage": stage_of_a_plan,
    "a step of a domain": lambda name: Domain("people").step(name)(say_nothing),
    "an executor of a domain": lambda name: Domain("people").register(say_nothing, name),
    "a transformation": lambda name: Domain("papers").transformation(name)(copy_paper),
    "a function": lambda name: app().executors.register(say_nothing, name),
    "a class": lambda name: app().executors.register(Sayer, name),
    "a step under another name": lambda name: app().executors.register(step(name="said")(say_nothing), name),
}


@pytest.mark.parametrize("define", NAMED.values(), ids=NAMED)
def test_an_empty_name_is_refused(define):
    with pytest.raises(InvalidDefinition) as refused:
        define("")
    assert refused.value.code == "E-VAL-002"


@pytest.mark.parametrize("define", NAMED.values(), ids=NAMED)
def test_without_a_name_it_is_called_by_its_own(define):
    define(None)


@pytest.mark.parametrize("queue", ["", "a\0b"], ids=repr)
@pytest.mark.parametrize("made", [step, workflow], ids=["a step", "a workflow"])
def test_a_queue_without_a_name_that_can_be_stored_is_refused(made, queue):
    with pytest.raises(Invalid, match=f"The queue of a {made.__name__} "):
        made(queue=queue)(say_nothing)
