"""Steps put together as they run, on both stores: for many items, on conditions, after failures, with people."""

from __future__ import annotations

import pytest

from stepfast import (
    Graph,
    Invalid,
    Retry,
    RunState,
    StageContext,
    Stepfast,
    step,
)
from tests.graphs.invoices import INVOICE, Invoice, Line, ScoreConfig, archive, ended, parsing, price_of, refuse
from tests.support.apps import QUICK, app_on


async def test_stages_read_typed_outputs_in_threads_and_in_the_loop(desk):
    graph, parse = parsing()

    @graph.stage(reads=[parse])
    def last_line(ctx: StageContext[Invoice]) -> Line:
        lines: list[Line] = ctx.require(parse).lines
        return lines[-1]

    @graph.stage(reads=[last_line, parse])
    async def told(ctx: StageContext[Invoice]) -> str:
        return f"{ctx.require(last_line).id} of {ctx.require(parse).day.year}"

    async with desk(graph) as at:
        assert await at.run(graph, INVOICE) == "y of 2026"


async def test_each_item_of_a_stage_has_its_own_record(desk):
    graph, parse = parsing()

    @graph.stage(needs=[parse])
    async def score(ctx: StageContext[Invoice, None, Line]) -> Line:
        return Line(id=ctx.item.id, price=ctx.item.price * len(ctx.require(parse).lines))

    scores = graph.each(score, over=parse.output.lines, key=lambda line: line.id, at_once=1)

    @graph.stage(reads=[scores])
    async def total(ctx: StageContext[Invoice]) -> int:
        return sum(line.price for line in ctx.require(scores)["results"])

    async with desk(graph) as at:
        run = await at.start(graph, INVOICE)
        assert await at.result(run) == 10
        paths = {each.call.path for each in await at.steps(run) if each.call.name == "score"}
        assert {"score[x]", "score[y]"} <= paths


async def test_items_that_fail_are_told_where_all_may_settle(desk):
    graph, _ = parsing()
    priced = graph.each(
        price_of, over=graph.input.lines, key=lambda line: line.id, join="settled", retry=Retry(attempts=1)
    )
    graph.set("told", lambda price_of: [price_of["results"], [each["key"] for each in price_of["failed"]]])
    graph.returns({"told": graph.set("all", lambda told: told).output, "good": priced.output["results"]})
    invoice = Invoice(id="a", lines=[Line(id="x", price=2), Line(id="bad", price=-1)])
    async with desk(graph) as at:
        assert await at.run(graph, invoice) == {"told": [[2], ["bad"]], "good": [2]}


async def test_a_switch_takes_the_first_way_that_holds(desk):
    graph, _ = parsing()
    small, large = graph.set("small", "small"), graph.set("large", "large")
    route = graph.switch("route", (lambda parse: len(parse.lines) > 5, large), otherwise=small)
    graph.returns(route.output)
    async with desk(graph) as at:
        assert await at.run(graph, INVOICE) == "small"


async def test_a_loop_goes_on_as_long_as_its_condition_holds(desk):
    graph = Graph("loop")
    one = graph.set("one", lambda round: round)
    graph.loop(one, lambda output: output is None or output < 3, most=9)
    async with desk(graph) as at:
        assert await at.run(graph) == 3


async def test_steps_that_catch_a_failure_give_the_output(desk):
    graph = Graph("catch", input=Invoice)
    sent = graph.use(refuse, invoice=graph.input)
    graph.catch(sent, graph.set("instead", lambda error: error["message"]), errors=[ConnectionError])
    graph.returns(sent.output)
    async with desk(graph) as at:
        assert await at.run(graph, INVOICE) == "nobody takes a"


async def test_the_first_of_several_branches_can_be_enough(desk):
    graph = Graph("branches", input=Invoice)
    either = graph.branches("either", graph.use(refuse, invoice=graph.input), graph.set("plain", "by hand"), join="any")
    graph.returns(either.output.results)
    async with desk(graph) as at:
        assert await at.run(graph, INVOICE) == {"plain": "by hand"}


async def test_a_failure_that_is_let_pass_makes_the_run_partial(desk):
    graph = Graph("partial", input=Invoice)
    sent = graph.use(refuse, invoice=graph.input, on_failure="continue")

    @graph.stage(needs=[sent])
    async def last(ctx: StageContext[Invoice]) -> str:
        return ctx.optional(sent) or "not sent"

    async with desk(graph) as at:
        info, steps = await ended(at, graph, INVOICE)
        assert (info.state, steps["last"].value) == (RunState.PARTIAL, '"not sent"')


async def test_what_was_done_is_undone_when_a_step_says_so(desk):
    undone: list[str] = []

    @step
    async def release(ticket: str) -> None:
        undone.append(ticket)

    graph = Graph("undo", input=Invoice)

    @graph.stage(undo=graph.undo(release, ticket=lambda output: output.id))
    async def reserve(ctx: StageContext[Invoice]) -> Line:
        return ctx.input.lines[0]

    graph.use(refuse, invoice=graph.input, needs=[reserve], on_failure="compensate")
    async with desk(graph) as at:
        info, _ = await ended(at, graph, INVOICE)
        assert (info.state, undone) == (RunState.FAILED, ["x"])


async def test_a_signal_comes_in_the_type_that_was_asked_for(desk):
    graph = Graph("signal")
    line = graph.receive("line", Line)

    @graph.stage(reads=[line])
    async def reader(ctx: StageContext) -> int:
        return ctx.require(line).price

    async with desk(graph) as at:
        run = await at.start(graph)
        await at.run_until_idle()
        await at.signal(run, "line", {"id": "x", "price": 4})
        assert await at.result(run) == 4


async def test_a_person_corrects_an_output_and_the_next_stage_gets_its_type(desk):
    graph = Graph("review", input=Invoice)

    @graph.stage(after=graph.gate(lambda output: output.price < 5, reason="low_confidence", role="analyst"))
    async def cheapest(ctx: StageContext[Invoice]) -> Line:
        return min(ctx.input.lines, key=lambda line: line.price)

    @graph.stage(reads=[cheapest])
    async def price(ctx: StageContext[Invoice]) -> int:
        return ctx.require(cheapest).price

    async with desk(graph) as at:
        run = await at.start(graph, INVOICE)
        await at.run_until_idle()
        [asked] = await at.reviews(run)
        await at.decide(asked, "correct", {"id": "x", "price": 9}, role="analyst")
        assert await at.result(run) == 9


async def test_a_correction_that_is_no_output_of_the_stage_is_refused(desk):
    graph = Graph("review", input=Invoice)

    @graph.stage(after=graph.gate(lambda output: output.price < 5, reason="low_confidence", role="analyst"))
    async def cheapest(ctx: StageContext[Invoice]) -> Line:
        return min(ctx.input.lines, key=lambda line: line.price)

    async with desk(graph) as at:
        run = await at.start(graph, INVOICE)
        await at.run_until_idle()
        [asked] = await at.reviews(run)
        with pytest.raises(Invalid, match="price"):
            await at.decide(asked, "correct", {"id": "x", "price": "dear"}, role="analyst")
        assert (await at.info(run)).state == "waiting"


async def test_a_review_step_gives_what_was_shown_in_its_type(desk):
    graph = Graph("asking", input=Invoice)
    answer = graph.review("answer", lambda input: f"Pay {input.id}?", graph.input.lines[0], type=Line)

    @graph.stage(reads=[answer])
    async def price(ctx: StageContext[Invoice]) -> int:
        return int(ctx.require(answer).price)

    async with desk(graph) as at:
        run = await at.start(graph, INVOICE)
        await at.run_until_idle()
        [asked] = await at.reviews(run)
        assert asked.title == "Pay a?"
        await at.decide(asked, "continue")
        assert await at.result(run) == 2


async def test_workflows_and_graphs_run_as_children(desk):
    inner = Graph("inner", input=Line, output=int)

    @inner.stage
    async def double(ctx: StageContext[Line]) -> int:
        return ctx.input.price * 2

    graph = Graph("outer", input=Invoice)
    kept = graph.child(archive, invoice=graph.input)
    doubled = graph.child(inner, inputs=graph.input.lines[0])
    graph.returns([kept.output, doubled.output])
    async with desk(graph, inner, archive) as at:
        assert await at.run(graph, INVOICE) == ["archived a", 4]


async def test_a_stage_with_a_queue_is_a_run_of_its_own(database):
    graph, parse = parsing("queued")

    @graph.stage(reads=[parse], queue="gpu", config=ScoreConfig)
    async def embed(ctx: StageContext[Invoice, ScoreConfig]) -> int:
        return len(ctx.require(parse).lines) * ctx.config.factor

    async with app_on(database, [graph]) as app:
        run = await app.start(graph, INVOICE, config={"embed": {"factor": 4}})
        assert await run.result() == 8
        kinds = {each.workflow: each.queue for each in await app.runs() if each.kind == "step"}
        assert kinds == {"queued-1.embed": "gpu"}


async def test_time_passes_and_an_event_is_written(desk):
    graph = Graph("events", input=Invoice)
    graph.sleep("wait", lambda input: len(input.lines) * 3600)
    graph.emit("told", "invoice.late", graph.input.id, needs=["wait"])
    async with desk(graph) as at:
        run = await at.start(graph, INVOICE)
        assert await at.result(run) == "a"
        assert "invoice.late" in {each.type for each in await at.events(run)}


async def test_the_handle_of_a_group_orders_what_follows_it(desk):
    graph = Graph("grouped")
    first, second = graph.set("first", 1), graph.set("second", 2)
    both = graph.parallel(first, second)

    @graph.stage(needs=[both])
    async def total(ctx: StageContext) -> int:
        return int(ctx.require(first)) + int(ctx.require(second))

    async with desk(graph) as at:
        assert await at.run(graph) == 3


async def test_without_a_last_step_alone_each_last_one_gives_its_output(desk):
    graph = Graph("ends")
    graph.set("left", 1)
    graph.set("right", 2)
    async with desk(graph) as at:
        assert await at.run(graph) == {"left": 1, "right": 2}


async def test_a_graph_calls_the_executors_of_its_app_by_name(database):
    async def shout(text: str) -> str:
        return f"{text}!"

    graph = Graph("by-name")
    graph.use("graph_text.shout", id="shouted", text="hello")
    async with app_on(database, [graph]) as app:
        app.executors.register(shout, "graph_text.shout")
        assert await (await app.start(graph)).result() == "hello!"


async def test_a_stage_with_a_queue_runs_in_an_app_that_was_given_its_executors(database):
    graph = Graph("closed")

    @graph.stage(queue="gpu")
    async def embed(ctx: StageContext) -> int:
        return 1

    async with Stepfast(database, workflows=[graph], executors=[price_of], worker=QUICK) as app:
        assert await (await app.start(graph)).result() == 1


async def test_stages_inside_a_repeated_step_have_the_item(desk):
    graph = Graph("within", input=Invoice)

    @graph.stage
    async def double(ctx: StageContext[Invoice, None, Line]) -> int:
        return ctx.item.price * 2

    @graph.stage(reads=[double])
    async def told(ctx: StageContext[Invoice, None, Line]) -> str:
        return f"{ctx.item.id}: {ctx.require(double)}"

    every = graph.each(graph.do("line", double, told), over=graph.input.lines, key=lambda line: line.id)
    graph.returns(every.output.results)
    async with desk(graph) as at:
        assert await at.run(graph, INVOICE) == ["x: 4", "y: 6"]


async def test_items_of_a_stage_with_a_queue_are_runs_of_their_own(database):
    graph = Graph("spread", input=Invoice)

    @graph.stage(queue="gpu")
    async def price(ctx: StageContext[Invoice, None, Line]) -> int:
        return ctx.item.price

    graph.returns(graph.each(price, over=graph.input.lines).output.results)
    async with app_on(database, [graph]) as app:
        assert await (await app.start(graph, INVOICE)).result() == [2, 3]
        assert len([each for each in await app.runs() if each.workflow == "spread-1.price"]) == 2
