"""Transformations in use: each is a run of its own, and what it makes is an asset that knows what it is made of."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from stepfast import Derived, Domain, Graph, NotFound, Retry, RunFailed, Source, each, reconstructing, workflow
from stepfast.kernel.errors import AssetNotFound, Invalid, StoreUnavailable
from stepfast.sync import Stepfast as BlockingStepfast
from stepfast.testing import engine
from tests.support.sql import execute
from tests.transformations.harness import (
    CALLS,
    WORLD,
    begun,
    docs,
    flow,
    lineage,
    put_contract,
    to_text,
    transforming,
    transforming_in_a_thread,
)


async def test_a_step_makes_an_asset_of_an_asset(opened):
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")
    assert await opened.result(run) == {"uri": "asset:contract/to_text@1", "sure": 0.9}
    made = await opened.app.assets.get("contract/to_text")
    assert await opened.app.assets.read("contract/to_text") == b"pay in 30 days!"
    assert (made.media_type, made.tags, made.metadata) == ("text/plain", ("made",), {"pages": 1})


async def test_it_is_given_content_and_what_is_known_of_it(opened):
    await put_contract(opened, tags=["legal"], metadata={"of": "acme"})
    await begun(opened, flow(), document="contract")
    source = WORLD["source"]
    assert (source.uri, source.content, source.tags) == ("asset:contract@1", b"pay in 30 days", ("legal",))
    assert (source.media_type, source.metadata) == ("application/pdf", {"of": "acme"})


def wrapped(function: Any) -> Any:
    @functools.wraps(function)
    def call(**given: Any) -> Any:
        return function(**given)

    return call


own = Domain("own", retry=Retry(attempts=1))


@own.transformation("loud")
@wrapped
async def loud(document: Source) -> Derived:
    return Derived(document.text.upper())


async def test_a_coroutine_that_a_plain_function_gives_is_awaited():
    graph = Graph("loudly", input=str)
    graph.use(loud, document=graph.input)
    async with engine(workflows=[graph]) as opened:
        await put_contract(opened)
        await opened.run(graph, "contract")
        assert await opened.app.assets.read("contract/loud") == b"PAY IN 30 DAYS"


async def test_each_use_is_a_run_of_its_own(opened):
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")
    (used,) = await opened.app.transformations.list(run_id=run.id)
    assert (used.name, used.version, used.confidence, used.state) == ("docs.to_text", 3, 0.9, "completed")
    assert (used.parent_id, used.inputs, used.outputs) == (run.id, ("asset:contract@1",), ("asset:contract/to_text@1",))
    assert used.duration_ms == 0
    assert used.run_id in [view.run_id for view in await opened.app.runs()]


async def test_its_run_step_attempt_and_inputs_are_those_of_the_asset(opened):
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")
    (used,) = await opened.app.transformations.list(run_id=run.id)
    made = await opened.app.assets.get("contract/to_text")
    assert (made.run_id, made.step, made.attempt) == (used.run_id, "docs.to_text#1", 1)
    assert made.inputs == ("asset:contract@1",)
    assert await lineage(opened, "contract") == [(used.run_id, "read", "contract", 1)]
    assert await lineage(opened, "contract/to_text") == [(used.run_id, "write", "contract/to_text", 1)]


async def test_its_using_run_is_reconstructed_and_reported_with_it(opened):
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")
    found = await run.reconstruct()
    assert list(found.transformations) == await opened.app.transformations.list(run_id=run.id)
    (told,) = found.plain()["transformations"]
    assert (told["name"], told["state"]) == ("docs.to_text", "completed")
    page = (await opened.app.audit.report(run.id)).replace("\\", "")
    for text in ("How sure", *told["inputs"], *told["outputs"]):
        assert text in page


async def test_an_asset_names_the_transformations_around_it(opened):
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")
    of_run = await opened.app.transformations.list(run_id=run.id)
    assert await opened.app.transformations.list(asset="contract") == of_run
    assert await opened.app.transformations.list(asset="contract/to_text") == of_run
    assert await opened.app.transformations.list(asset="contract", tenant="acme") == []


async def test_whose_are_meant_must_be_said(opened):
    with pytest.raises(Invalid, match="Say whose transformations are meant"):
        await opened.app.transformations.list()
    with pytest.raises(NotFound):
        await opened.app.transformations.list(run_id="01977420-dc00-7b18-b798-74985a8c5b26")


@pytest.mark.parametrize("version", [0, -1, True, "1", 2**40])
async def test_a_version_that_cannot_be_is_refused(opened, version):
    with pytest.raises(Invalid, match="version"):
        await opened.app.transformations.list(asset="contract", version=version)


async def test_a_rerun_leaves_what_was_made_alone(opened):
    WORLD["id"] = "fixed"
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")
    await run.rerun()
    assert (await opened.result(run))["uri"] == "asset:fixed-2@1"
    assert {row[2] for row in await lineage(opened, "fixed")} == {"fixed", "fixed-2"}


@pytest.mark.parametrize("code", [transforming, transforming_in_a_thread], ids=["async", "thread"])
async def test_functions_use_it_too(opened, code):
    await put_contract(opened)
    run = await opened.start(code, "contract")
    assert await opened.result(run) == ["asset:contract/to_text@1"]
    (used,) = await opened.app.transformations.list(run_id=run.id)
    assert used.outputs == ("asset:contract/to_text@1",)


SPLIT = """
stepfast: 1
workflow: flow
inputs: {documents: {kind: collection}}
steps:
  - {id: split, use: docs.split, with: {documents: "${ inputs.documents }", by: ", "}}
output: "${ steps.split.assets.map(a, a.id) }"
"""


async def test_several_assets_become_several_and_an_attempt_that_failed_leaves_none(opened):
    WORLD["attempts"] = 2
    for name in ("a", "b"):
        await opened.app.assets.put(f"{name}1, {name}2", name)
    await opened.app.assets.collect("all", ["a", "b"])
    run = await begun(opened, SPLIT, documents="all")
    assert await opened.result(run) == [f"a/part-{number}" for number in range(4)]
    made = await opened.app.assets.get("a/part-3")
    assert (made.attempt, made.inputs) == (2, ("asset:a@1", "asset:b@1"))
    assert await opened.app.assets.read("a/part-3") == b"b2"
    assert len(await opened.app.assets.list()) == 6


EACH = """
stepfast: 1
workflow: flow
inputs: {documents: {kind: collection}}
steps:
  - {id: text, each: "${ inputs.documents }", use: docs.to_text, with: {document: "${ item }"}}
output: "${ steps.text.output.results.map(r, r.outputs[0].uri) }"
"""


async def test_each_item_is_a_run_of_its_own(opened):
    for name in ("a", "b"):
        await opened.app.assets.put(name, name, media_type="application/pdf")
    await opened.app.assets.collect("all", ["a", "b"])
    run = await begun(opened, EACH, documents="all")
    assert await opened.result(run) == ["asset:a/to_text@1", "asset:b/to_text@1"]
    assert len(await opened.app.transformations.list(run_id=run.id)) == 2


async def test_a_step_may_have_it_done_in_a_queue(opened):
    await put_contract(opened)
    run = await begun(opened, flow(rest=", queue: slow"), document="contract")
    assert (await opened.result(run))["uri"] == "asset:contract/to_text@1"
    (used,) = await opened.app.transformations.list(run_id=run.id)
    assert (await opened.info(used.run_id)).queue == "slow"


async def test_another_tenant_s_asset_is_not_there(opened):
    await put_contract(opened, tenant="acme")
    run = await opened.start(transforming, "contract")
    with pytest.raises(RunFailed) as failed:
        await opened.result(run)
    assert isinstance(failed.value.__cause__, AssetNotFound)
    assert CALLS["to_text"] == 0


async def test_an_asset_of_another_type_is_refused(opened):
    await opened.app.assets.put("text", "note")
    run = await opened.start(transforming, "note")
    with pytest.raises(RunFailed, match=r"'note' is text/plain; 'document' of transformation docs.to_text takes"):
        await opened.result(run)
    assert CALLS["to_text"] == 0


async def test_outside_of_runs_it_is_a_plain_function():
    made = await to_text(Source("a", 1, "asset:a@1", "application/pdf", {}, (), b"text"))
    assert (made.content, made.media_type) == ("text!", "text/plain")


@workflow(name="transforming_each")
async def transforming_each(assets: list[str]) -> list[str]:
    made = await each(to_text, assets)
    return [one["outputs"][0]["uri"] for one in made]


async def test_a_workflow_may_use_it_for_many_at_once():
    async with engine(workflows=[transforming_each], executors=[docs]) as opened:
        for name in ("a", "b"):
            await opened.app.assets.put(name, name, media_type="application/pdf")
        run = await opened.start(transforming_each, ["a", "b"])
        assert await opened.result(run) == ["asset:a/to_text@1", "asset:b/to_text@1"]


async def test_the_retries_of_a_step_hold_for_its_transformation(opened):
    WORLD["attempts"] = 5
    await opened.app.assets.put("a, b", "a")
    await opened.app.assets.collect("all", ["a"])
    text = SPLIT.replace("use: docs.split", "retry: {attempts: 5, base: 0s}, use: docs.split")
    run = await begun(opened, text, documents="all")
    assert await opened.result(run) == ["a/part-0", "a/part-1"]
    assert (await opened.app.assets.get("a/part-0")).attempt == 5


async def test_an_app_may_have_one_of_its_own():
    async with engine(workflows=[]) as opened:
        own = opened.app.executors.domain("own")

        @own.transformation("copy")
        async def copied(document: Source) -> Derived:
            return Derived(document.content, document.media_type)

        await opened.app.assets.put("text", "note")
        text = "stepfast: 1\nworkflow: flow\nsteps: [{id: copy, use: own.copy, with: {document: note}}]"
        run = await begun(opened, text)
        await opened.result(run)
        assert await opened.app.assets.read("note/copy") == b"text"


def test_blocking_code_lists_them_too(tmp_path):
    with BlockingStepfast(f"sqlite:///{tmp_path}/app.db", workflows=[transforming], executors=[docs]) as app:
        app.assets.put("text", "contract", media_type="application/pdf")
        run = app.start(transforming, "contract")
        run.result()
        assert [used.name for used in app.transformations.list(run_id=run.id)] == ["docs.to_text"]


async def test_what_cannot_be_read_of_a_transformation_is_named_and_the_rest_is_there(opened, monkeypatch):
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")

    async def away(*_: object) -> None:
        raise StoreUnavailable("no such blob")

    monkeypatch.setattr(reconstructing, "transformation_of", away)
    found = await run.reconstruct()
    (child,) = found.children
    assert (found.transformations, found.cut) == ((), (f"transformation {child.run_id}: no such blob",))


async def test_a_mark_that_is_none_makes_no_transformation_of_a_run(opened, database):
    await put_contract(opened)
    run = await begun(opened, flow(), document="contract")
    hollow = '{"transformation": {}}'
    await execute(database, f"update stepfast.run set metadata = '{hollow}' where kind = 'step'")
    assert (await run.reconstruct()).transformations == ()
    assert await opened.app.transformations.list(asset="contract") == []
