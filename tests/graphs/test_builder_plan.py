"""A graph as it is written becomes a plan; what is wrong with it is told at once, each in a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from stepfast import Graph, Invalid, OutputMissing, Retry, StageContext, WrongCall, step
from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.plans.plan import (
    Ask,
    Do,
    JoinRule,
    OnFailure,
    Parallel,
    Plan,
    RunChild,
    Switch,
    Use,
    walk,
)


class Line(BaseModel):
    id: str
    price: int


class Invoice(BaseModel):
    id: str
    lines: list[Line]


@dataclass
class Parsed:
    lines: list[Line]
    risk: float


class Totals(TypedDict):
    net: int


@step
async def charge(invoice: Invoice, amount: int = 0) -> str:
    return f"{invoice.id}: {amount}"


@step
async def price_of(line: Line, factor: int = 1) -> int:
    return line.price * factor


@step
async def give_back(receipt: str) -> None:
    return None


def new_graph() -> tuple[Graph[Invoice, Any], Any]:
    """A graph with one stage, and that stage."""
    graph = Graph("invoice", input=Invoice)

    @graph.stage
    async def parse(ctx: StageContext[Invoice]) -> Parsed:
        """Read it."""
        return Parsed(ctx.input.lines, 0.5)

    return graph, parse


def of(plan: Plan, step_id: str) -> Any:
    return next(each for each in plan if each.id == step_id)


def problems_of(graph: Graph[Any, Any], **options: Any) -> list[str]:
    with pytest.raises(InvalidDefinition) as refused:
        graph.plan(**options)
    assert refused.value.code == "E-VAL-002"
    return str(refused.value).splitlines()[1:]


# What is written, and what becomes of it.


def test_a_stage_is_a_step_with_what_it_was_given():
    graph, parse = new_graph()
    retry = Retry(attempts=2)

    @graph.stage(
        needs=[parse],
        retry=retry,
        timeout="5s",
        total_timeout="1m",
        queue="ai",
        priority=3,
        on_failure="continue",
        metadata={"owner": "legal"},
    )
    def score(ctx: StageContext[Invoice]) -> int:
        """Score it."""
        return 1

    made = of(graph.plan(), "score")
    assert (made.needs, made.retry, made.queue, made.priority) == (("parse",), retry, "ai", 3)
    assert (made.limits.attempt_ms, made.limits.total_ms) == (5_000, 60_000)
    assert (made.on_failure, made.description, made.metadata) == (
        OnFailure.CONTINUE,
        "Score it.",
        {"owner": "legal"},
    )


def test_a_handle_that_is_bound_is_a_reference():
    graph, parse = new_graph()
    graph.use(charge, id="pay", invoice=graph.input, amount=parse.output.lines[0].price)
    pay = of(graph.plan(), "pay")
    assert isinstance(pay.verb, Use)
    assert pay.verb.executor == "charge"
    assert set(pay.verb.inputs.references) == {("inputs",), ("steps", "parse", "output", "lines", "0", "price")}


def test_a_bound_handle_gives_the_part_that_it_names():
    graph, parse = new_graph()
    graph.use(charge, invoice=graph.input, amount=parse.output.lines[0].price)
    verb = of(graph.plan(), "charge").verb
    assert isinstance(verb, Use)
    invoice = Invoice(id="a", lines=[Line(id="x", price=7)])
    scope = {"inputs": invoice, "steps": {"parse": {"output": Parsed(invoice.lines, 0.1)}}}
    assert verb.inputs.evaluate(scope) == {"invoice": invoice, "amount": 7}


def test_a_lambda_is_given_what_its_parameters_name():
    graph, _ = new_graph()
    graph.set("worst", lambda parse, input: f"{input.id}: {parse.risk}")
    verb = of(graph.plan(), "worst").verb
    scope = {"inputs": Invoice(id="a", lines=[]), "steps": {"parse": {"output": Parsed([], 0.4)}}}
    assert verb.value.evaluate(scope) == "a: 0.4"
    assert set(verb.value.references) == {("steps", "parse", "output"), ("inputs",)}


def test_a_parameter_may_name_a_step_with_a_hyphen():
    graph = Graph("hyphens")
    graph.set("net-total", 3)
    graph.set("gross", lambda net_total: net_total * 2)
    assert of(graph.plan(), "gross").verb.value.evaluate({"steps": {"net-total": {"output": 3}}}) == 6


def test_handles_and_lambdas_may_stand_anywhere_in_an_input():
    graph, _ = new_graph()
    graph.use("mail.send", id="mail", to=["ops", graph.input.id], body={"risk": lambda parse: parse.risk, "n": 1})
    verb = of(graph.plan(), "mail").verb
    scope = {"inputs": Invoice(id="a", lines=[]), "steps": {"parse": {"output": Parsed([], 0.4)}}}
    assert verb.inputs.evaluate(scope) == {"to": ["ops", "a"], "body": {"risk": 0.4, "n": 1}}


def test_an_output_that_came_as_json_is_read_by_its_hint():
    graph, _ = new_graph()
    graph.set("risk", lambda parse: parse.risk)
    corrected = {"lines": [], "risk": 0.9}
    assert of(graph.plan(), "risk").verb.value.evaluate({"steps": {"parse": {"output": corrected}}}) == 0.9


def test_each_has_the_items_their_keys_and_the_join():
    graph, parse = new_graph()
    graph.each(price_of, over=parse.output.lines, key=lambda line: line.id, at_once=20, join="90%")
    made = of(graph.plan(), "price_of")
    assert made.each is not None
    assert (made.each.at_once, made.each.join) == (20, JoinRule("quorum", 90))
    assert made.each.key is not None
    assert made.each.key.evaluate({"item": Line(id="x", price=1)}) == "x"
    assert made.verb.inputs.evaluate({"item": Line(id="x", price=1)}) == {"line": Line(id="x", price=1)}


@pytest.mark.parametrize(
    ("spec", "rule"),
    [
        ("all", JoinRule("all")),
        ("any", JoinRule("any")),
        ("settled", JoinRule("settled")),
        (3, JoinRule("first", 3)),
        ("50%", JoinRule("quorum", 50)),
    ],
)
def test_a_join_is_a_rule(spec, rule):
    graph, parse = new_graph()
    graph.each(price_of, over=parse.output.lines, join=spec)
    assert of(graph.plan(), "price_of").each.join == rule


@pytest.mark.parametrize("spec", ["most", "0%", "101%", 0, -1, True, None, 1.5])
def test_a_join_that_means_nothing_is_refused(spec):
    graph, parse = new_graph()
    with pytest.raises(InvalidDefinition, match="join is"):
        graph.each(price_of, over=parse.output.lines, join=spec)


def test_a_sequence_orders_steps_and_groups():
    graph = Graph("sequence")
    first, second, third, last = (graph.set(name, 1) for name in ("first", "second", "third", "last"))
    graph.sequence(first, graph.parallel(second, third), last)
    plan = graph.plan()
    needs = {each.id: set(each.needs) for each in plan}
    assert needs == {"first": set(), "second": {"first"}, "third": {"first"}, "last": {"second", "third"}}


def test_steps_given_to_a_switch_become_parts_of_it():
    graph, parse = new_graph()
    stop, go = graph.fail("stop", "too risky"), graph.emit("go", "invoice.good", parse.output.risk)
    graph.switch("route", (lambda parse: parse.risk > 0.5, stop), otherwise=[go])
    plan = graph.plan()
    assert [each.id for each in plan.block.steps] == ["parse", "route"]
    route = of(plan, "route").verb
    assert isinstance(route, Switch)
    assert [[each.id for each in walk(case.block)] for case in route.cases] == [["stop"], ["go"]]
    assert route.cases[1].when is None


def test_every_verb_has_its_method():
    graph, parse = new_graph()
    wait = graph.sleep("wait", "5m")
    ask = graph.review("ask", lambda input: f"Invoice {input.id}", parse.output, role="legal", needs=[wait])
    paid = graph.receive("paid", int, timeout="1h", needs=[ask])
    sub = graph.child("archive", invoice=graph.input, version=2, needs=[paid])
    both = graph.do("both", graph.set("one", 1), graph.set("two", 2))
    either = graph.branches("either", graph.set("left", 1), graph.set("right", 2), join="any")
    graph.loop(both, lambda output: output is None or output < 3, most=5)
    graph.catch(sub, graph.set("instead", None), errors=[ValueError, "E-RUN-007"])
    plan = graph.plan()
    assert isinstance(of(plan, "ask").verb, Ask)
    assert of(plan, "ask").verb.terms == {"role": "legal"}
    assert of(plan, "paid").verb.timeout.evaluate({}) == "1h"
    assert of(plan, "paid").verb.schema == {"type": "integer"}
    assert isinstance(of(plan, "archive").verb, RunChild)
    assert (of(plan, "archive").verb.version, of(plan, "archive").catch[0].errors) == (2, ("ValueError", "E-RUN-007"))
    assert isinstance(of(plan, "both").verb, Do)
    assert of(plan, "both").loop.most == 5
    assert isinstance(of(plan, "either").verb, Parallel)
    assert either.id == "either"


def test_gates_and_undo_read_the_output_of_their_step():
    graph, _ = new_graph()
    graph.use(
        charge,
        invoice=graph.input,
        after=graph.gate(lambda output: "!" in output, reason="low_confidence", role="analyst"),
        undo=give_back,
    )
    made = of(graph.plan(), "charge")
    assert made.after.when.evaluate({"output": "paid!"}) is True
    assert (made.after.reason, made.after.terms) == ("low_confidence", {"role": "analyst"})
    assert made.undo.inputs.evaluate({"output": "paid"}) == {"receipt": "paid"}


def test_the_digest_changes_with_what_a_graph_does():
    first, _ = new_graph()
    second, again = new_graph()
    assert first.plan().digest == second.plan().digest
    second.set("more", again.output.risk)
    assert first.plan().digest != second.plan().digest


def test_the_digest_does_not_change_with_words_for_people():
    first, _ = new_graph()
    second = Graph("invoice", input=Invoice, description="Invoices, in words")

    @second.stage(description="Another text", metadata={"owner": "x"}, estimate=lambda input: 1)
    async def parse(ctx: StageContext[Invoice]) -> Parsed:
        return Parsed(ctx.input.lines, 0.5)

    assert first.plan().digest == second.plan().digest


# What is refused.


def test_all_problems_come_at_once():
    graph, parse = new_graph()
    graph.set("parse", 1)
    graph.set("two", 2, needs=["prase"])
    graph.set("three", lambda sroce: 1)
    graph.use(charge, id="four", invoice=graph.input, amuont=3)
    graph.set("five", parse.output.riks)
    told = problems_of(graph)
    assert len(told) == 5
    assert "two steps have the id 'parse'" in told[0]
    assert "step 'two' needs 'prase', which does not exist. Did you mean 'parse'?" in told[1]
    assert "step 'three' has a function with the parameter 'sroce', and no step has that id" in told[2]
    assert "'amuont'" in told[3]
    assert "parse.output.riks does not exist" in told[4]
    assert "lines, risk" in told[4]


def test_a_stage_that_needs_what_is_not_there_is_told_once():
    graph, _ = new_graph()

    @graph.stage(needs=["prase"])
    async def score(ctx: StageContext[Invoice]) -> int:
        return 1

    assert problems_of(graph) == ["- step 'score' needs 'prase', which does not exist. Did you mean 'parse'?"]


def test_a_ring_is_named_in_full():
    graph = Graph("ring")
    first, second, third = (graph.set(name, 1) for name in ("first", "second", "third"))
    graph.sequence(first, second, third)
    graph.sequence(third, first)
    (told,) = problems_of(graph)
    assert "first -> third -> second -> first" in told


def test_a_step_that_needs_itself_is_refused():
    graph = Graph("itself")
    graph.set("only", 1, needs=["only"])
    assert "step 'only' needs itself" in problems_of(graph)[0]


def test_a_tie_inside_a_parallel_group_is_refused():
    graph = Graph("group")
    first = graph.set("first", 1)
    between = graph.set("between", first.output)
    last = graph.set("last", between.output)
    graph.parallel(first, last)
    (told,) = problems_of(graph)
    assert "step 'last' waits for 'first', and both are in one parallel group (last -> between -> first)" in told


def test_a_step_of_another_graph_is_refused():
    other = Graph("other")
    foreign = other.set("foreign", 1)
    graph = Graph("mine")
    graph.set("own", 1, needs=[foreign])
    graph.set("reader", foreign.output)
    told = problems_of(graph)
    assert "step 'own' names 'foreign' of graph 'other'" in told[0]
    assert any("step 'reader' names 'foreign' of graph 'other'" in each for each in told)


def test_the_handle_from_before_each_is_refused():
    graph, parse = new_graph()
    price = graph.use(price_of, line=graph.item)
    graph.each(price, over=parse.output.lines)
    graph.set("sum", price.output)
    assert "Use the handle that graph.each(...) returned" in problems_of(graph)[0]


def test_a_step_can_be_a_part_of_one_other_only():
    graph = Graph("homes")
    part = graph.set("part", 1)
    graph.do("one", part)
    graph.do("two", part)
    assert any("step 'part' is a part of 'one' and of 'two'" in each for each in problems_of(graph))


def test_a_step_inside_a_repeated_one_cannot_be_named_from_outside():
    graph = Graph("repeated")
    inner = graph.set("inner", graph.item)
    graph.each(graph.do("outer", inner), over=[1, 2])
    graph.set("reader", inner.output)
    assert any("'inner', which is done many times inside 'outer'" in each for each in problems_of(graph))


def test_a_step_where_a_value_is_wanted_is_refused():
    graph, parse = new_graph()
    graph.set("one", [parse])
    graph.set("two", charge)
    told = problems_of(graph)
    assert "Give parse.output." in told[0]
    assert "graph.use(charge, ...)" in told[1]


def test_a_step_is_repeated_for_one_list_only():
    graph, parse = new_graph()
    price = graph.use(price_of, line=graph.item)
    graph.each(price, over=parse.output.lines)
    graph.each(price, over=graph.input.lines)
    assert "step 'price_of' is given to graph.each twice" in problems_of(graph)[0]


def test_an_executor_that_the_app_does_not_have_is_refused():
    graph = Graph("names")
    graph.use("mail.sned", id="mail", to="x")
    assert problems_of(graph, executors=["mail.send"]) == [
        "- step 'mail' uses 'mail.sned', and there is no such executor. Did you mean 'mail.send'?"
    ]


def test_an_id_that_no_record_could_have_is_refused():
    graph = Graph("ids")
    graph.set("a.b", 1)
    assert "the id 'a.b' cannot be used" in problems_of(graph)[0]


def test_a_stage_with_the_input_of_another_graph_is_refused():
    graph = Graph("input", input=Invoice)

    @graph.stage  # type: ignore[arg-type]
    async def wrong(ctx: StageContext[Line]) -> int:
        return 1

    assert "StageContext[Invoice, ...]" in problems_of(graph)[0]


@pytest.mark.parametrize("options", [{"on_failure": "explode"}, {"timeout": 0}, {"timeout": "soon"}])
def test_an_option_that_means_nothing_is_refused_with_its_step(options):
    graph = Graph("options")
    graph.set("one", 1, **options)
    assert problems_of(graph)[0].startswith("- step 'one': ")


def test_a_graph_without_steps_is_refused():
    with pytest.raises(InvalidDefinition, match="has no steps"):
        Graph("empty").plan()


def test_a_function_that_is_no_step_cannot_be_used():
    graph = Graph("plain")
    graph.use(len, id="one", obj=[])  # type: ignore[call-overload]
    assert "mark the function with @step" in problems_of(graph)[0]


def test_a_stage_takes_its_context_alone():
    graph = Graph("context")
    with pytest.raises(InvalidDefinition, match="must take one argument"):

        @graph.stage  # type: ignore[arg-type]
        async def two(ctx: StageContext, more: int) -> int:
            return 1


def test_a_value_cannot_be_compared_before_a_run():
    graph, parse = new_graph()
    with pytest.raises(InvalidDefinition, match="when=lambda parse"):
        graph.when(parse.output.risk == 0.5, parse)


def test_a_graph_in_use_cannot_be_changed():
    graph, _ = new_graph()
    assert graph.workflow.code.startswith("invoice@1#")
    with pytest.raises(InvalidDefinition, match="cannot be changed"):
        graph.set("late", 1)


@pytest.mark.parametrize("version", [0, -1, True, "1", 2**31])
def test_a_version_is_a_whole_number_from_1_on(version):
    with pytest.raises(InvalidDefinition, match="whole number from 1 to 2,147,483,647"):
        Graph("version", version=version)


# A stage alone.


async def test_a_stage_can_be_called_alone():
    graph, parse = new_graph()

    @graph.stage(reads=[parse])
    async def risk(ctx: StageContext[Invoice]) -> float:
        return float(ctx.require(parse).risk)

    context = StageContext(Invoice(id="a", lines=[]), outputs={parse: Parsed([], 0.3)})
    assert await risk(context) == 0.3


@pytest.mark.parametrize("output", [None, False, "", 0, []])
def test_an_empty_output_is_there(output):
    _, parse = new_graph()
    context = StageContext(Invoice(id="a", lines=[]), outputs={parse: output})
    assert context.has(parse)
    assert context.require(parse) == output


def test_a_missing_output_is_none_for_those_who_can_do_without():
    _, parse = new_graph()
    context: StageContext = StageContext(None, declared=frozenset({"parse"}))
    assert context.optional(parse) is None
    assert not context.has(parse)


def test_a_missing_output_that_is_required_has_a_code():
    _, parse = new_graph()
    context: StageContext = StageContext(None, declared=frozenset({"parse"}), stage="score")
    with pytest.raises(OutputMissing, match="Stage 'score' requires the output of 'parse'") as missing:
        context.require(parse)
    assert missing.value.code == "E-STEP-003"
    assert isinstance(missing.value, Invalid)


def test_an_output_that_was_not_declared_cannot_be_read():
    _, parse = new_graph()
    context: StageContext = StageContext(None, stage="score")
    with pytest.raises(WrongCall, match=r"Add it to its needs=\[...\] or reads=\[...\]"):
        context.optional(parse)
