"""What is wrong with a graph is told when it is put together, not when a run comes to it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from stepfast import Graph, StageContext, step
from stepfast.kernel.errors import InvalidDefinition


class Line(BaseModel):
    text: str


class Order(BaseModel):
    id: str
    lines: list[Line]


@step
async def price(line: Line, factor: int = 1) -> int:
    return factor


@step
async def give_back(amount: int) -> None:
    pass


def told(write: Any) -> list[str]:
    """What is wrong with a graph that was written so."""
    graph = Graph("shop", input=Order)
    write(graph)
    with pytest.raises(InvalidDefinition) as refused:
        graph.plan()
    return [line.removeprefix("- ") for line in str(refused.value).splitlines()[1:]]


OUT_OF_PLACE: dict[str, Any] = {
    "an item without a list": lambda graph: graph.set("a", lambda item: item),
    "an item that is given on without a list": lambda graph: graph.use(price, line=graph.item),
    "an item in the condition of a step for many": lambda graph: graph.each(
        price, over=graph.input.lines, when=lambda item: item.text != ""
    ),
    "an output in a step's own input": lambda graph: graph.set("a", lambda output: output),
    "an output before the step": lambda graph: graph.set("a", 1, before=graph.gate(lambda output: True)),
    "a round without a loop": lambda graph: graph.set("a", lambda round: round),
    "an error where nothing failed": lambda graph: graph.set("a", lambda error: error),
    "an item in the result": lambda graph: (graph.set("a", 1), graph.returns(lambda item: item)),
}


@pytest.mark.parametrize("write", OUT_OF_PLACE.values(), ids=OUT_OF_PLACE)
def test_a_name_is_refused_where_no_run_could_know_it(write):
    (problem,) = told(write)
    assert "where there is none. It is known only in" in problem


def test_names_are_known_where_they_belong():
    graph = Graph("shop", input=Order)
    priced = graph.use(price, line=graph.item, undo=graph.undo(give_back, amount=lambda item, output: output))
    graph.each(priced, over=graph.input.lines, key=lambda line: line.text)
    looped = graph.set("looped", lambda output, round: round, after=graph.gate(lambda output: output > 5))
    graph.loop(looped, lambda round: round < 3)
    graph.catch(looped, graph.set("instead", lambda error: error["message"]))
    inner = graph.set("inner", lambda item: item)
    graph.each(graph.do("all", inner), over=[1, 2])
    assert [each.id for each in graph.plan()] == ["price", "looped", "instead", "all", "inner"]


NO_LISTS: dict[str, Any] = {
    "a text": lambda graph: graph.each(price, over=graph.input.id, line=graph.item),
    "a model": lambda graph: graph.each(price, over=graph.input, line=graph.item),
    "a number": lambda graph: graph.each(price, over=5, line=graph.item),
}


@pytest.mark.parametrize("write", NO_LISTS.values(), ids=NO_LISTS)
def test_each_over_what_is_no_list_is_refused(write):
    assert any(problem.endswith("That is no list.") for problem in told(write))


MISFITS: dict[str, tuple[Any, str]] = {
    "a value of another type": (
        lambda graph: graph.use(price, line=Line(text="a"), factor="much"),
        "does not fit its hint",
    ),
    "a handle of another type": (
        lambda graph: graph.use(price, line=graph.input, factor=2),
        "is given input as 'line', which is Order. It takes Line.",
    ),
    "a part that a list does not have": (
        lambda graph: graph.set("a", graph.input.lines.first),
        "input.lines.first does not exist",
    ),
    "a value that cannot be kept": (lambda graph: graph.set("a", object()), "cannot be kept"),
    "a span that is none": (lambda graph: graph.sleep("a", "soon"), "the span is 'soon'"),
    "a condition that is none": (lambda graph: graph.set("a", 1, when="yes"), "A condition is a handle"),
}


@pytest.mark.parametrize(("write", "part"), MISFITS.values(), ids=MISFITS)
def test_what_is_known_not_to_fit_is_refused(write, part):
    (problem,) = told(write)
    assert part in problem


def test_a_stage_for_items_of_another_type_is_refused():
    def write(graph: Graph[Order, Any]) -> None:
        @graph.stage
        async def count(ctx: StageContext[Order, None, int]) -> int:
            return ctx.item

        graph.each(count, over=graph.input.lines)

    (problem,) = told(write)
    assert "has a context with the item int, and is done for each Line" in problem


BAD_OPTIONS: dict[str, Any] = {
    "retry": "3",
    "priority": True,
    "queue": "",
    "before": True,
    "after": Graph("other").gate(verdicts=["maybe"]),
    "metadata": [1],
    "estimate": 5,
    "undo": "bank.refund",
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_an_option_that_no_run_could_use_is_refused(name):
    (problem,) = told(lambda graph: graph.set("a", 1, **{name: BAD_OPTIONS[name]}))
    assert problem.startswith("step 'a': ")
    assert name in problem


def test_all_bad_options_of_a_step_are_told():
    assert len(told(lambda graph: graph.set("a", 1, retry="3", queue=5, priority="high"))) == 3


def test_a_review_that_nobody_could_answer_is_refused():
    (problem,) = told(lambda graph: graph.review("ask", "Well?", expires="soon"))
    assert "expires of a review is 'soon'" in problem


EMPTY: dict[str, Any] = {
    "do": lambda graph: graph.do("d"),
    "switch": lambda graph: graph.switch("d"),
    "branches": lambda graph: graph.branches("d"),
    "catch": lambda graph: graph.catch(graph.set("d", 1)),
}


@pytest.mark.parametrize("write", EMPTY.values(), ids=EMPTY)
def test_a_group_of_nothing_is_refused(write):
    (problem,) = told(write)
    assert "has no steps" in problem


def test_a_join_that_branches_can_never_meet_is_refused():
    (problem,) = told(lambda graph: graph.branches("both", graph.set("a", 1), graph.set("b", 2), join=3))
    assert problem == "step 'both' has join=3 and 2 branches. It can never be met."


@pytest.mark.parametrize(("options", "part"), [({"at_once": "x"}, "at_once is 'x'"), ({"at_once": 0}, "at_once is 0")])
def test_items_at_once_are_counted_in_whole_numbers(options, part):
    (problem,) = told(lambda graph: graph.each(price, over=graph.input.lines, **options))
    assert part in problem


def test_rounds_are_counted_in_whole_numbers():
    (problem,) = told(lambda graph: graph.loop(graph.set("a", 1), True, most=2.5))
    assert "most is 2.5" in problem


def test_a_config_that_is_no_config_is_refused():
    def write(graph: Graph[Order, Any]) -> None:
        @graph.stage(config="fast")
        async def count(ctx: StageContext[Order, str]) -> int:
            return 1

    (problem,) = told(write)
    assert "config is 'fast'" in problem


def test_a_graph_may_be_a_child_of_itself():
    graph = Graph("countdown", input=int)
    graph.child(graph, id="again", inputs=lambda input: input - 1, when=lambda input: input > 0)
    assert [each.id for each in graph.plan()] == ["again"]
