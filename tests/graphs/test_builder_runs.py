"""Stages as they run, on both stores: typed values, what is skipped, what they may read, their config."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from stepfast import (
    Graph,
    Invalid,
    OutputMissing,
    Retry,
    RunFailed,
    RunState,
    StageContext,
    StepState,
    WrongCall,
)
from stepfast.kernel.errors import Unstorable
from tests.graphs.invoices import INVOICE, Invoice, Line, Parsed, ScoreConfig, ended, parsing
from tests.support.apps import Bodies, app_on


async def test_an_app_starts_a_graph_and_gives_its_typed_result(database):
    graph = Graph("report", input=Invoice, output=Parsed)

    @graph.stage
    async def parse(ctx: StageContext[Invoice]) -> Parsed:
        return Parsed(ctx.input.lines, ctx.input.day)

    async with app_on(database, [graph]) as app:
        run = await app.start(graph, INVOICE, key="once")
        assert await run.result() == Parsed(INVOICE.lines, date(2026, 1, 1))
        assert (await (await app.start("report", INVOICE)).result()).day == date(2026, 1, 1)


async def test_the_input_of_a_stage_is_what_it_declares_and_no_more(desk):
    graph, parse = parsing()
    other = graph.set("other", 7)

    @graph.stage(needs=[other], config=ScoreConfig)
    async def score(ctx: StageContext[Invoice, ScoreConfig]) -> int:
        return ctx.config.factor

    async with desk(graph) as at:
        _, steps = await ended(at, graph, INVOICE, config={"score": {"factor": 3}})
        assert json.loads(steps["score"].input) == {
            "input": INVOICE.model_dump(mode="json"),
            "config": {"factor": 3, "model": "small"},
            "outputs": {"other": 7},
        }
        assert parse.id in steps


async def test_a_stage_that_reads_a_skipped_one_is_skipped_and_one_that_needs_it_goes_on(desk):
    graph, parse = parsing(when=lambda input: input.id == "other")

    @graph.stage(reads=[parse])
    async def reader(ctx: StageContext[Invoice]) -> int:
        return 1

    @graph.stage(needs=[parse, reader])
    async def last(ctx: StageContext[Invoice]) -> list[bool]:
        return [ctx.has(parse), ctx.optional(parse) is None, ctx.has(reader)]

    async with desk(graph) as at:
        info, steps = await ended(at, graph, INVOICE)
        assert {name: each.state for name, each in steps.items()} == {
            "parse": StepState.SKIPPED,
            "reader": StepState.SKIPPED,
            "last": StepState.COMPLETED,
        }
        assert (info.state, steps["last"].value) == (RunState.COMPLETED, "[false,true,false]")


@pytest.mark.parametrize("empty", [None, False, "", 0])
async def test_an_empty_output_is_an_output(desk, empty):
    graph = Graph("empty")

    @graph.stage
    async def nothing(ctx: StageContext) -> Any:
        return empty

    @graph.stage(reads=[nothing])
    async def reader(ctx: StageContext) -> list[Any]:
        return [ctx.has(nothing), ctx.require(nothing)]

    async with desk(graph) as at:
        assert await at.run(graph) == [True, empty]


async def test_requiring_what_was_skipped_fails_at_once(desk):
    graph, parse = parsing(when=lambda input: False)

    @graph.stage(needs=[parse])
    async def strict(ctx: StageContext[Invoice]) -> Any:
        return ctx.require(parse)

    async with desk(graph) as at:
        with pytest.raises(RunFailed) as failed:
            await at.run(graph, INVOICE)
        assert isinstance(failed.value.__cause__, OutputMissing)


async def test_reading_what_was_not_declared_fails_in_the_first_attempt(desk):
    graph, parse = parsing()
    bodies = Bodies()

    @graph.stage(needs=["parse"])
    async def first(ctx: StageContext[Invoice]) -> int:
        return 1

    @graph.stage(needs=[first])
    async def sly(ctx: StageContext[Invoice]) -> Any:
        bodies.ran("sly")
        return ctx.require(parse)

    async with desk(graph) as at:
        with pytest.raises(RunFailed) as failed:
            await at.run(graph, INVOICE)
        assert isinstance(failed.value.__cause__, WrongCall)
        assert bodies["sly"] == 1


async def test_an_output_of_another_shape_fails_at_its_stage(desk):
    graph = Graph("shape", input=Invoice)

    @graph.stage
    async def parse(ctx: StageContext[Invoice]) -> Parsed:
        return {"lines": "none"}  # type: ignore[return-value]

    @graph.stage(reads=[parse])
    async def reader(ctx: StageContext[Invoice]) -> int:
        return 1

    async with desk(graph) as at:
        info, steps = await ended(at, graph, INVOICE)
        assert (info.state, list(steps)) == (RunState.FAILED, ["parse"])
        assert Unstorable.__name__ in steps["parse"].error
        assert "the result of step" in steps["parse"].error


async def test_a_stage_knows_its_run_and_its_attempt(desk):
    graph = Graph("knows")

    @graph.stage(retry=Retry(attempts=2, base=0))
    def flaky(ctx: StageContext) -> list[Any]:
        if ctx.attempt == 1:
            raise ConnectionError("once")
        return [ctx.run_id, ctx.attempt]

    async with desk(graph) as at:
        run = await at.start(graph)
        assert await at.result(run) == [run.id, 2]


async def test_the_config_of_a_run_is_merged_field_by_field(desk):
    graph = Graph("config", input=Invoice)

    @graph.stage(config=ScoreConfig(factor=2, model="large"))
    async def score(ctx: StageContext[Invoice, ScoreConfig]) -> str:
        return f"{ctx.config.factor} {ctx.config.model}"

    async with desk(graph) as at:
        assert await at.run(graph, INVOICE) == "2 large"
        assert await at.run(graph, INVOICE, config={"score": {"factor": 5}}) == "5 large"
        assert await at.run(graph, INVOICE, config={"score": ScoreConfig(factor=6)}) == "6 large"


async def test_a_config_that_does_not_fit_starts_nothing(desk):
    graph, _ = parsing()

    @graph.stage(config=ScoreConfig)
    async def score(ctx: StageContext[Invoice, ScoreConfig]) -> int:
        return 1

    wrong = {"score": {"factor": "many", "modle": "x"}, "parse": {"a": 1}, "scoer": {}}
    async with desk(graph) as at:
        with pytest.raises(Invalid) as refused:
            await at.start(graph, INVOICE, config=wrong)
        lines = str(refused.value).splitlines()[1:]
        assert sorted(line.partition(": ")[0] for line in lines) == ["parse", "scoer", "score", "score"]
        assert await at.app.runs() == []


async def test_a_stage_that_has_ended_is_not_run_again_after_a_crash(desk):
    bodies = Bodies()
    graph, parse = parsing()

    @graph.stage(reads=[parse])
    async def first(ctx: StageContext[Invoice]) -> int:
        bodies.ran("first")
        return 1

    go = graph.receive("go", needs=[first])

    @graph.stage(reads=[first, go])
    async def second(ctx: StageContext[Invoice]) -> list[Any]:
        bodies.ran("second")
        return [ctx.require(first), ctx.require(go)]

    async with desk(graph) as at:
        run = await at.start(graph, INVOICE)
        await at.run_until_idle()
        await at.crash()
        await at.signal(run, "go", "on")
        assert await at.result(run) == [1, "on"]
        assert bodies == {"first": 1, "second": 1}


async def test_a_result_that_a_formula_made_has_the_type_of_the_graph(desk):
    graph = Graph("typed-result", output=Line)
    graph.set("made", {"id": "x", "price": 3})
    async with desk(graph) as at:
        assert await at.run(graph) == Line(id="x", price=3)


async def test_a_result_of_another_shape_fails_the_run(desk):
    graph = Graph("wrong-result", output=Line)
    graph.set("made", {"id": "x"})
    async with desk(graph) as at:
        info, _ = await ended(at, graph)
        assert info.state is RunState.FAILED


async def test_a_result_has_none_for_what_a_failed_step_did_not_give(desk):
    graph: Graph[Any, Any] = Graph("halves")
    bad = graph.fail("bad", "no luck", on_failure="continue")
    good = graph.set("good", 1)
    graph.returns({"bad": bad.output, "part": bad.output.part, "good": good.output, "sum": lambda bad: bad})
    async with desk(graph) as at:
        run = await at.start(graph)
        assert await at.result(run) == {"bad": None, "part": None, "good": 1, "sum": None}
        assert (await at.info(run)).state is RunState.PARTIAL


async def test_a_graph_runs_itself_as_a_child(desk):
    graph = Graph("countdown", input=int, output=list)
    graph.child(graph, id="again", inputs=lambda input: input - 1, when=lambda input: input > 0)
    graph.returns(lambda input, again: [input, *(again or [])])
    async with desk(graph) as at:
        assert await at.run(graph, 2) == [2, 1, 0]
