"""What type checkers know of graphs: `make check` reads these signatures, pytest runs the names.

Each `type: ignore` here is a call that must be refused; one that is not needed is an error of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

import stepfast
from stepfast import Estimate, Graph, GraphStep, Joined, Run, Stage, StageContext, Stepfast, step, workflow
from stepfast.workflows.graphs.values import Value


@dataclass
class Invoice:
    id: str


@dataclass
class Parsed:
    lines: list[str]


@dataclass
class ScoreConfig:
    temperature: float = 0


@dataclass
class OtherConfig:
    model: str = ""


@step
async def charge(invoice: Invoice) -> int:
    return 1


@workflow
def archive(invoice: Invoice) -> bool:
    return True


graph = Graph("typed", input=Invoice, output=str)


@graph.stage
async def parse(ctx: StageContext[Invoice]) -> Parsed:
    assert_type(ctx.input, Invoice)
    assert_type(ctx.config, None)
    return Parsed([])


@graph.stage(needs=[parse], config=ScoreConfig)
def score(ctx: StageContext[Invoice, ScoreConfig, str]) -> float:
    assert_type(ctx.config, ScoreConfig)
    assert_type(ctx.item, str)
    assert_type(ctx.require(parse), Parsed)
    assert_type(ctx.optional(parse), Parsed | None)
    assert_type(ctx.has(parse), bool)
    ctx.require("parse")  # type: ignore[arg-type]
    str(ctx.input.lines)  # type: ignore[attr-defined]
    return 0.5


def refused() -> None:
    @graph.stage  # type: ignore[arg-type]
    async def other_input(ctx: StageContext[Parsed]) -> str:
        return ""

    @graph.stage  # type: ignore[arg-type]
    def no_context() -> str:
        return ""

    @graph.stage(config=ScoreConfig)  # type: ignore[arg-type]
    async def other_config(ctx: StageContext[Invoice, OtherConfig]) -> str:
        return ""

    @graph.stage(config=ScoreConfig(0.5))  # type: ignore[arg-type]
    async def other_default(ctx: StageContext[Invoice, OtherConfig]) -> str:
        return ""

    @graph.stage(config=ScoreConfig)  # type: ignore[arg-type]
    async def config_unread(ctx: StageContext[Invoice]) -> str:
        return ""

    @graph.stage(reads=[parse])
    async def other_output(ctx: StageContext[Invoice]) -> str:
        return ctx.require(parse)  # type: ignore[return-value]

    graph.use("docs.cite", reads={"assets": "a"})  # type: ignore[call-overload]
    graph.use(charge, invoice=graph.input, writes={"asset": "a", "tag": "x"})  # type: ignore[call-overload]
    graph.set("it", 1, reads={"type": "text/plain"})  # type: ignore[arg-type]

    graph.run(Parsed([]))  # type: ignore[arg-type]
    graph.child(charge)  # type: ignore[call-overload]


def configured() -> None:
    @graph.stage(config=ScoreConfig(0.5))
    async def by_value(ctx: StageContext[Invoice, ScoreConfig]) -> float:
        return ctx.config.temperature

    @graph.stage(config={"temperature": 1})
    def by_dict(ctx: StageContext[Invoice, ScoreConfig]) -> float:
        return ctx.config.temperature

    @graph.stage(reads=[parse, by_value])
    async def later(ctx: StageContext[Invoice]) -> str:
        assert_type(ctx.require(by_value), float)
        assert_type(ctx.require(parse), Parsed)
        return ""

    assert_type(by_value, Stage[float])
    assert_type(by_dict, Stage[float])


def handles() -> None:
    assert_type(graph, Graph[Invoice, str])
    assert_type(parse, Stage[Parsed])
    assert_type(score, Stage[float])
    assert_type(graph.each(score, over=parse.output.lines), GraphStep[Joined[float]])
    assert_type(graph.each(charge, over=parse.output.lines), GraphStep[Joined[int]])
    assert_type(graph.use(charge, invoice=graph.input), GraphStep[int])
    assert_type(graph.use("mail.send", to="x"), GraphStep[Any])
    assert_type(graph.use(charge, invoice=graph.input, reads={"asset": "a"}, writes=[{"asset": "b"}]), GraphStep[int])
    assert_type(parse.assets, Value[list[dict[str, Any]]])
    assert_type(graph.child(archive, invoice=graph.input), GraphStep[bool])
    assert_type(graph.child(graph, inputs=graph.input), GraphStep[str])
    assert_type(graph.receive("paid", int), GraphStep[int])
    assert_type(graph.sleep("wait", "5m"), GraphStep[None])
    assert_type(graph.estimate(Invoice("a")), Estimate)
    assert_type(graph.run(Invoice("a")), str)
    graph.estimate("a")  # type: ignore[arg-type]
    graph.sleep("wait", "5m", need=[parse])  # type: ignore[call-arg]


async def starts(app: Stepfast) -> None:
    assert_type(await app.start(graph, Invoice("a")), Run[str])


def test_the_names_of_graphs_are_public():
    public = {"Estimate", "Graph", "GraphStep", "Joined", "OutputMissing", "Stage", "StageContext"}
    assert public <= set(stepfast.__all__)


def test_typed_stages_make_a_plan():
    assert [each.id for each in graph.plan()] == ["parse", "score"]
