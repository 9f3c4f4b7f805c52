"""A plan as data and as a picture, before anything of it has run."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from stepfast import Graph, Invalid, Retry, StageContext, step
from stepfast.workflows.plans.describing import layers
from stepfast.workflows.plans.drawing import mermaid
from stepfast.workflows.plans.plan import Block, Constant, Plan, PlanStep, Set


class Contract(BaseModel):
    pages: int


class ScoreConfig(BaseModel):
    price: float = 0.5


@step
async def publish(text: str) -> str:
    return text


def contract() -> Graph[Contract, Any]:
    graph = Graph("contract", version=3, input=Contract, description="Score a contract.", at_once=4)

    @graph.stage(estimate=lambda input: input.pages * 2)
    async def parse(ctx: StageContext[Contract]) -> list[str]:
        """Cut it into clauses."""
        return ["a"] * ctx.input.pages

    @graph.stage(config=ScoreConfig(price=0.25), estimate=lambda input, config: input.pages * config.price, queue="ai")
    async def score(ctx: StageContext[Contract, ScoreConfig, str]) -> int:
        return len(ctx.item)

    scores = graph.each(score, over=parse.output, at_once=20, join="90%")
    risk = graph.set("risk", lambda score: len(score["failed"]) > 0)
    length = graph.set("length", lambda parse: len(parse))
    both = graph.parallel(risk, length)
    graph.use(publish, text=lambda risk: str(risk), needs=[both, scores], retry=Retry(attempts=2), timeout="5s")
    return graph


def test_a_description_is_plain_json():
    view = contract().describe()
    assert json.loads(json.dumps(view)) == view
    assert (view["name"], view["version"], view["description"], view["at_once"]) == (
        "contract",
        3,
        "Score a contract.",
        4,
    )


def test_a_description_is_plain_json_whatever_the_author_wrote():
    graph = Graph("wide", metadata={"since": date(2026, 1, 1)})
    graph.review("ask", "Good?", Contract(pages=3), expires=timedelta(hours=1), verdicts={"continue"})
    graph.sleep("wait", timedelta(hours=2), metadata={"when": date(2026, 1, 2)})
    view = graph.describe()
    assert json.loads(json.dumps(view)) == view


def test_a_description_has_the_order_in_layers_and_the_groups():
    view = contract().describe()
    assert view["layers"] == [["parse"], ["score", "length"], ["risk"], ["publish"]]
    assert view["groups"] == [["risk", "length"]]


def test_a_description_tells_of_each_step_what_it_does_and_under_what_terms():
    steps = {each["id"]: each for each in contract().describe()["steps"]}
    score, publishing = steps["score"], steps["publish"]
    assert (score["verb"], score["executor"], score["config"], score["queue"]) == (
        "use",
        "contract-3.score",
        {"price": 0.25},
        "ai",
    )
    assert score["each"] == {"over": "${ parse.output }", "as": "item", "join": {"quorum": "90%"}, "at_once": 20}
    assert (publishing["needs"], publishing["reads"]) == (["risk", "length", "score"], ["risk"])
    assert (publishing["timeout_ms"], publishing["retry"]["attempts"]) == (5_000, 2)
    assert steps["parse"]["description"] == "Cut it into clauses."


def test_a_description_tells_what_can_be_configured():
    configs = contract().describe()["configs"]
    assert list(configs) == ["score"]
    assert configs["score"]["set"] == {"price": 0.25}
    assert configs["score"]["schema"]["properties"]["price"]["type"] == "number"


def test_a_picture_has_every_step_and_every_tie():
    picture = contract().mermaid()
    boxes = dict(re.findall(r'(s\d+)\["(\w+)', picture))
    assert sorted(boxes.values()) == ["length", "parse", "publish", "risk", "score"]
    ties = {(boxes[one], arrow, boxes[other]) for one, arrow, other in re.findall(r"(s\d+) (\S+) (s\d+)\n", picture)}
    assert ties == {
        ("parse", "-->", "score"),
        ("parse", "-->", "length"),
        ("score", "-->", "risk"),
        ("risk", "-->", "publish"),
        ("length", "-.->", "publish"),
        ("score", "-.->", "publish"),
    }
    assert "for each item" in picture


def test_a_picture_shows_what_is_inside_a_step():
    graph = Graph("inside")
    small, large = graph.set("small", 1), graph.set("large", 2)
    graph.switch("route", (True, [small]), otherwise=[large])
    picture = graph.mermaid()
    assert picture.count("subgraph") == picture.count("end\n") == 3
    assert "otherwise" in picture


@pytest.mark.parametrize("id", ['end"]', "<script>", "a;b", "x\ny", "`", "graph", "#quot;"])
def test_a_picture_takes_no_id_for_its_own_language(id):
    picture = mermaid(Plan("hostile", 1, Block((PlanStep(id, Set(Constant(1))),))))
    assert re.fullmatch(r'flowchart TD\n  s0\["[\w #;.,\'-]+<br/>set"\]\n', picture)


def test_a_long_plan_is_put_into_layers():
    steps = [PlanStep(f"s{n}", Set(Constant(n)), needs=(f"s{n - 1}",) if n else ()) for n in range(5_000)]
    assert [len(layer) for layer in layers(Block(tuple(steps)))] == [1] * 5_000


def test_a_ring_can_be_shown():
    ring = Block((PlanStep("a", Set(Constant(1)), needs=("b",)), PlanStep("b", Set(Constant(1)), needs=("a",))))
    assert layers(ring) == [["a", "b"]]


def test_costs_are_estimated_before_the_run_for_each_step_and_in_all():
    estimate = contract().estimate(Contract(pages=8))
    assert (estimate.steps, estimate.total) == ({"parse": 16, "score": 2.0}, 18.0)


def test_an_estimate_counts_with_the_config_that_the_run_will_have():
    assert contract().estimate(Contract(pages=8), {"score": {"price": 1}}).steps["score"] == 8.0


def test_an_estimate_with_a_config_that_does_not_fit_is_refused():
    with pytest.raises(Invalid, match="score: price: "):
        contract().estimate(Contract(pages=8), {"score": {"price": "much"}})


def test_an_estimate_with_an_input_that_does_not_fit_is_refused():
    given: Any = {"pages": "many"}
    with pytest.raises(Invalid, match="the input of graph 'contract'"):
        contract().estimate(given)


def test_an_estimate_that_is_no_number_is_refused():
    graph = Graph("words")
    graph.set("one", 1, estimate=lambda: "much")  # type: ignore[arg-type, return-value]
    with pytest.raises(Invalid, match="must be a number"):
        graph.estimate(None)


def test_an_estimate_that_would_need_the_run_is_refused():
    graph = Graph("later")
    graph.set("one", 1)
    graph.set("two", 2, estimate=lambda one: 3)
    with pytest.raises(Invalid, match="Before a run only `input` and `config` are known"):
        graph.estimate(None)
