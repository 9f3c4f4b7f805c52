"""What is not sure, marked or refused does not count before somebody has said so."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Invalid, NotFound, RunFailed, RunState, StepfastError
from stepfast.testing import Engine
from tests.transformations.harness import CALLS, WORLD, begun, flow, lineage, put_contract, transforming

QUIET = '  - {id: quiet, check: docs.quiet, before: write, with: {output: "${ output }"}%s}'


async def in_template(opened: Engine) -> Any:
    return await begun(opened, flow(), document="contract")


async def in_function(opened: Engine) -> Any:
    run = await opened.start(transforming, "contract")
    await opened.run_until_idle()
    return run


BEGIN = pytest.mark.parametrize("begin", [in_template, in_function], ids=["template", "function"])


async def asked(opened: Engine, begin: Any) -> tuple[Any, Any]:
    await put_contract(opened)
    run = await begin(opened)
    (question,) = await opened.reviews(run)
    return run, question


@BEGIN
async def test_low_confidence_has_a_person_look_before_there_is_an_asset(opened, begin):
    WORLD["confidence"] = 0.7
    run, question = await asked(opened, begin)
    assert question.kind == "low_confidence"
    assert [asset.id for asset in await opened.app.assets.list()] == ["contract"]
    await opened.decide(question, "continue", actor="ann")
    await opened.result(run)
    assert await opened.app.assets.read("contract/to_text") == b"pay in 30 days!"


@BEGIN
async def test_what_the_transformation_marks_is_looked_at(opened, begin):
    WORLD["review_required"] = True
    _, question = await asked(opened, begin)
    assert question.kind == "review_required"


@BEGIN
async def test_what_is_rejected_leaves_no_asset(opened, begin):
    WORLD["confidence"] = 0.7
    run, question = await asked(opened, begin)
    await opened.decide(question, "reject", actor="ann")
    with pytest.raises(RunFailed, match="rejected"):
        await opened.result(run)
    assert [asset.id for asset in await opened.app.assets.list()] == ["contract"]
    assert await lineage(opened, "contract/to_text") == []


@BEGIN
async def test_corrected_content_is_what_counts(opened, begin):
    WORLD["confidence"] = 0.7
    run, question = await asked(opened, begin)
    correction = {"outputs": [{"content": "pay in 14 days", "tags": ["by-hand"]}]}
    await opened.decide(question, "correct", correction, actor="ann")
    await opened.result(run)
    made = await opened.app.assets.get("contract/to_text")
    assert (await opened.app.assets.read("contract/to_text"), made.tags) == (b"pay in 14 days", ("by-hand",))
    assert made.inputs == ("asset:contract@1",)


@BEGIN
async def test_it_may_be_done_again(opened, begin):
    WORLD["confidence"] = 0.7
    run, question = await asked(opened, begin)
    WORLD["confidence"] = 0.9
    await opened.decide(question, "retry", actor="ann")
    await opened.result(run)
    assert CALLS["to_text"] == 2
    assert [asset.id for asset in await opened.app.assets.list()] == ["contract", "contract/to_text"]


async def test_a_step_may_want_it_surer(opened):
    await put_contract(opened)
    gate = ', gate: {after: {when: "${ output.confidence < 0.95 }", reason: low_confidence}}'
    run = await begun(opened, flow(rest=gate), document="contract")
    (question,) = await opened.reviews(run)
    assert (question.kind, len(await opened.app.assets.list())) == ("low_confidence", 1)


async def test_a_policy_before_reading_holds_a_transformation_back(opened):
    await put_contract(opened, tags=["secret"])
    run = await begun(opened, flow("  - {id: clean, check: docs.clean, before: read}"), document="contract")
    assert (await opened.info(run)).state is RunState.FAILED
    assert (CALLS["to_text"], await lineage(opened, "contract")) == (0, [])
    assert await opened.app.transformations.list(run_id=run.id) == []


async def test_what_was_checked_is_what_is_read(opened):
    await put_contract(opened)
    WORLD["app"] = opened.app
    text = flow("  - {id: clean, check: docs.clean, before: read}").replace("inputs.document }", "inputs.document.id }")
    run = await begun(opened, text, document="contract")
    await opened.result(run)
    assert (WORLD["source"].version, (await opened.app.assets.get("contract")).version) == (1, 2)


async def test_a_policy_before_writing_sees_what_is_to_be_made(opened):
    await put_contract(opened)
    run = await begun(opened, flow(QUIET % ""), document="contract")
    await opened.result(run)
    (told,) = WORLD["writes"]
    assert (told["id"], told["media_type"], told["tags"], told["size"]) == (
        "contract/to_text",
        "text/plain",
        ["made"],
        15,
    )


async def test_a_policy_before_writing_leaves_no_asset(opened):
    await put_contract(opened, b"a secret")
    run = await begun(opened, flow(QUIET % ", on: [text]"), document="contract")
    with pytest.raises(RunFailed, match="Policy quiet refuses that step text writes 'contract/to_text'"):
        await opened.result(run)
    assert [asset.id for asset in await opened.app.assets.list()] == ["contract"]
    assert await lineage(opened, "contract/to_text") == []


async def test_a_person_may_correct_what_a_policy_refuses(opened):
    await put_contract(opened, b"a secret")
    run = await begun(opened, flow(QUIET % ", conflict: review"), document="contract")
    (question,) = await opened.reviews(run)
    assert question.kind == "policy_conflict"
    await opened.decide(question, "correct", {"outputs": [{"content": "nothing"}]}, actor="ann")
    await opened.result(run)
    assert await opened.app.assets.read("contract/to_text") == b"nothing"


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [{"content": "one"}, {"content": "two"}],
        [{"tags": [""]}],
        [{"tags": ["a\0b"]}],
        [{"tags": ["x" * 5_000]}],
        [{"metadata": "none"}],
        ["text"],
    ],
)
@BEGIN
async def test_a_correction_that_cannot_be_kept_is_refused_to_who_makes_it(opened, begin, outputs):
    WORLD["review_required"] = True
    run, question = await asked(opened, begin)
    with pytest.raises(Invalid):
        await opened.decide(question, "correct", {"outputs": outputs}, actor="ann")
    assert await opened.reviews(run) == [question]


@BEGIN
async def test_a_source_that_gets_a_new_version_during_the_review_changes_nothing(opened, begin):
    WORLD["review_required"] = True
    run, question = await asked(opened, begin)
    await opened.app.assets.put(b"pay at once", "contract", media_type="application/pdf", fresh=False)
    await opened.decide(question, "continue", actor="ann")
    await opened.result(run)
    made = await opened.app.assets.get("contract/to_text")
    assert (made.inputs, await opened.app.assets.read(made.id)) == (("asset:contract@1",), b"pay in 30 days!")


@BEGIN
async def test_a_run_that_is_cancelled_during_the_review_leaves_no_asset_and_no_question(opened, begin):
    WORLD["review_required"] = True
    run, question = await asked(opened, begin)
    await run.cancel()
    await opened.run_until_idle()
    assert ([asset.id for asset in await opened.app.assets.list()], await opened.reviews(run)) == (["contract"], [])
    with pytest.raises(StepfastError):
        await opened.decide(question, "continue", actor="ann")


@BEGIN
async def test_what_was_put_aside_is_kept_for_as_long_as_somebody_may_still_let_it_count(opened, begin):
    WORLD["review_required"] = True
    run, question = await asked(opened, begin)
    opened.clock.advance("40d")
    await opened.app.retention.prune(older_than="1d")
    await opened.decide(question, "continue", actor="ann")
    await opened.result(run)
    assert await opened.app.assets.read("contract/to_text") == b"pay in 30 days!"


async def test_what_another_tenant_made_is_neither_listed_nor_told(opened):
    await opened.app.assets.put(b"ours", "contract", media_type="application/pdf", tenant="acme")
    run = await opened.start(transforming, "contract", tenant="acme")
    await opened.result(run)
    assert len(await opened.app.transformations.list(run_id=run.id, tenant="acme")) == 1
    assert await opened.app.transformations.list(asset="contract", tenant="other") == []
    with pytest.raises(NotFound):
        await opened.app.transformations.list(run_id=run.id, tenant="other")
