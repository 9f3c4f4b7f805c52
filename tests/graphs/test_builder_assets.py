"""Assets that steps of graphs say they read and write, as steps of templates do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast import Graph, RunFailed, StageContext, load_template, step, storage
from stepfast.kernel.assets import Role
from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.plans.describing import describe
from stepfast.workflows.templates.problems import TemplateInvalid
from tests.graphs.conftest import Desk

Items = list[dict[str, Any]]


@step(name="summarise")
async def summarise(assets: Items) -> str:
    return (await storage.read_asset(assets[0])).decode()[:7]


@step(name="told")
async def told(text: str) -> str:
    return text


def summary(**options: Any) -> Graph[str, Any]:
    graph = Graph("summary", input=str)
    made = graph.use(
        summarise,
        reads={"asset": graph.input, "type": "text/*"},
        writes={"asset": "summary", "tags": ["made"], "metadata": {"of": lambda assets: assets[0]["id"]}},
        **options,
    )
    graph.returns({"text": made.output, "asset": made.assets[0].uri})
    return graph


async def test_a_step_is_given_what_it_reads_and_what_it_gives_becomes_an_asset(desk: Desk):
    graph = summary()
    async with desk(graph) as opened:
        await opened.app.assets.put("Payment in 30 days.", "contract")
        run = await opened.start(graph, "contract")
        assert await opened.result(run) == {"text": "Payment", "asset": "asset:summary@1"}
        made = await opened.app.assets.get("summary")
        assert (made.step, made.tags, made.metadata, made.inputs) == (
            "summarise#1",
            ("made",),
            {"of": "contract"},
            ("asset:contract@1",),
        )
        rows = await opened.app.assets.lineage(run_id=run.id)
        assert {(row.role, row.asset_id) for row in rows} == {(Role.READ, "contract"), (Role.WRITE, "summary")}


async def test_a_stage_has_them_in_its_context(desk: Desk):
    graph = Graph("staged", input=str)

    @graph.stage
    async def find(ctx: StageContext[str]) -> str:
        return ctx.input

    @graph.stage(reads=[find, {"asset": find.output}], writes={"asset": "cited", "content": lambda output: output[:3]})
    async def cite(ctx: StageContext[str]) -> str:
        assert ctx.require(find) == ctx.assets[0]["id"]
        return (await storage.read_asset(ctx.assets[0])).decode()

    async with desk(graph) as opened:
        await opened.app.assets.put("Payment", "contract")
        assert await opened.run(graph, "contract") == "Payment"
        assert await opened.app.assets.read("cited") == b"Pay"


async def test_each_item_reads_and_writes_its_own(desk: Desk):
    graph = Graph("many", input=list[str])
    reads = {"asset": graph.item}
    graph.each(summarise, graph.input, reads=reads, writes={"asset": lambda item: f"short/{item}"})
    async with desk(graph) as opened:
        for name in ("a", "b"):
            await opened.app.assets.put(f"{name * 9}", name)
        joined = await opened.run(graph, ["a", "b"])
        assert joined["results"] == ["aaaaaaa", "bbbbbbb"]
        assert await opened.app.assets.read("short/b") == b"bbbbbbb"


@step(name="shortened")
async def shortened(assets: Items, config: dict[str, int]) -> str:
    return (await storage.read_asset(assets[0])).decode()[: config["length"]]


async def test_a_step_that_reads_its_item_may_have_a_config_beside(desk: Desk):
    graph = Graph("many", input=list[str])
    graph.each(shortened, graph.input, reads={"asset": graph.item}, config={"length": 3})
    async with desk(graph) as opened:
        await opened.app.assets.put("Payment", "contract")
        assert (await opened.run(graph, ["contract"]))["results"] == ["Pay"]


@step(name="idle")
async def idle() -> None: ...


def test_a_step_that_takes_nothing_is_done_for_no_items():
    graph = Graph("many", input=list[str])
    with pytest.raises(InvalidDefinition, match="step 'idle' takes nothing"):
        graph.each(idle, graph.input)


def test_none_says_nothing():
    graph: Any = Graph("quiet", input=str)
    graph.use(told, text=graph.input, reads=None, writes=None, policies=None, needs=None)
    graph.use(told, id="writing", text=graph.input, writes={"asset": "a", "type": None, "tags": None})
    first, second = graph.plan()
    assert (first.reads, first.writes, first.policies, first.needs) == ((), (), (), ())
    assert second.writes[0].tags == ()


async def test_an_asset_of_another_type_fails_the_step_before_it_is_done(desk: Desk):
    graph = summary()
    async with desk(graph) as opened:
        await opened.app.assets.put(b"%PDF", "contract", media_type="application/pdf")
        with pytest.raises(RunFailed, match="application/pdf"):
            await opened.run(graph, "contract")


def test_types_are_compared_in_small_letters_however_they_are_written():
    graph = Graph("letters", input=str)
    graph.use(summarise, reads={"asset": graph.input, "type": "Text/*"}, writes={"asset": "s", "type": "Text/Plain"})
    [made] = graph.plan()
    assert (made.reads[0].media_type, made.writes[0].media_type) == ("text/*", "text/plain")


async def test_what_is_put_into_the_way_of_what_a_step_writes_is_left_alone(desk: Desk):
    graph = summary()
    async with desk(graph) as opened:
        await opened.app.assets.put("Payment in 30 days.", "contract")
        await opened.app.assets.put("mine", "summary")
        assert (await opened.run(graph, "contract"))["asset"] == "asset:summary-2@1"
        assert await opened.app.assets.read("summary") == b"mine"


def test_the_plan_is_that_of_the_same_template():
    graph = Graph("same", input=dict[str, str])
    graph.use(
        "docs.copy",
        id="copy",
        reads={"asset": "source", "type": "text/*"},
        writes={"asset": "copy", "type": "text/plain", "tags": ["made"]},
    )
    template = load_template(
        """
stepfast: 1
workflow: same
steps:
  - id: copy
    use: docs.copy
    reads: {asset: source, type: text/*}
    writes: {asset: copy, type: text/plain, tags: [made]}
"""
    )
    mine, theirs = (describe(plan)["steps"][0]["assets"] for plan in (graph.plan(), template.plan))
    assert json.loads(json.dumps(mine)) == json.loads(json.dumps(theirs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reads": "source"}, r'reads is \'source\'; write {"asset": ...}'),
        ({"reads": {"type": "text/plain"}}, "reads: there is no 'asset'"),
        ({"reads": {"asset": "../up"}}, "reads: The asset's id is '../up'"),
        ({"reads": [{"asset": "a", "tags": ["x"]}]}, "reads: it has 'tags'; known are asset, type"),
        ({"reads": {"asset": "a", "type": "text"}}, "reads: The media type is 'text'"),
        ({"writes": {"asset": "a@1"}}, "writes: The asset's id is 'a@1'"),
        ({"writes": {"asset": "a", "type": "image/*"}}, "writes: The media type is 'image/\\*'"),
        ({"writes": {"asset": "a", "metadata": 3}}, "writes: metadata is 3"),
        ({"writes": {"asset": "a", "tags": "x"}}, "writes: tags is 'x'; give a list of texts"),
        ({"reads": {"asset": "a", "type": lambda input: input}}, "reads: type is <function"),
        ({"writes": {"asset": "a", "tags": [lambda output: output]}}, "writes: tags is .*, which only a run knows"),
        ({"writes": {"asset": lambda writes: writes}}, "reads 'writes' where there is none"),
        ({"writes": {"asset": lambda assets: assets}}, "reads 'assets' where there is none"),
        ({"reads": {"asset": lambda assets: assets}}, "reads 'assets' where there is none"),
        ({"reads": {"asset": lambda output: output}}, "reads 'output' where there is none"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused_when_the_graph_is_made(options, message):
    graph: Any = Graph("wrong", input=str)
    graph.use(told, text=graph.input, **options)
    with pytest.raises(InvalidDefinition, match=message) as refused:
        graph.plan()
    assert refused.value.code == TemplateInvalid.code == "E-VAL-002"


def test_a_step_that_writes_nothing_has_no_assets_to_read():
    graph = Graph("wrong", input=str)
    first = graph.use(told, id="first", text=graph.input)
    graph.use(told, id="second", text=first.assets[0].uri)
    with pytest.raises(InvalidDefinition, match=r"reads first\.assets\[0\]\.uri, and there are none"):
        graph.plan()


def test_a_step_that_reads_nothing_must_be_given_its_assets():
    graph = Graph("wrong", input=str)
    graph.use(summarise)
    with pytest.raises(InvalidDefinition, match="missing a required argument: 'assets'"):
        graph.plan()
