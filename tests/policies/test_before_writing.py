"""Policies before a step writes: nothing is written before they let it."""

from __future__ import annotations

import pytest

from stepfast import RunFailed, RunState
from stepfast.workflows.plans import guarding
from tests.policies.harness import CALLS, WORLD, begun, read_and_written, template

SAYING = """
  - id: say
    use: docs.say
    with: {text: "${ inputs.text }"}
    undo: {use: docs.unsay, with: {text: "${ output }"}}
    on_failure: compensate
    writes: {asset: said, type: text/markdown, tags: [made], metadata: {of: "${ inputs.text }"}}
"""
INPUTS = "inputs: {text: {}}"
WITH = 'with: {output: "${ output }"}'
FAILING = template(SAYING, f"  - {{id: quiet, check: policy.no_secrets_out, before: write, {WITH}}}", INPUTS)
ASKING = template(
    SAYING, f"  - {{id: quiet, check: policy.no_secrets_out, before: write, conflict: review, {WITH}}}", INPUTS
)


async def test_what_a_policy_has_nothing_against_is_written(opened):
    run = await begun(opened, FAILING, text="hello")
    await opened.result(run)
    assert await opened.app.assets.read("said") == b"hello"


async def test_a_policy_sees_what_is_about_to_be_written(opened):
    await begun(opened, FAILING, text="hello")
    (told,) = WORLD["writes"]
    assert (told["id"], told["media_type"], told["tags"]) == ("said", "text/markdown", ["made"])
    assert (told["metadata"], told["size"]) == ({"of": "hello"}, 5)


async def test_a_conflict_that_fails_leaves_nothing_written_and_the_step_undone(opened):
    run = await begun(opened, FAILING, text="a secret")
    assert (await opened.info(run)).state is RunState.FAILED
    assert await opened.app.assets.list() == []
    assert (await read_and_written(opened, run), CALLS["unsay a secret"]) == (([], []), 1)
    with pytest.raises(RunFailed, match="Policy quiet refuses that step say writes 'said': it tells a secret"):
        await opened.result(run)


async def test_the_broken_twin_that_asks_nobody_writes_it(opened, monkeypatch):
    async def nothing_against(self, step, place, branch, output, let):
        return output, True

    monkeypatch.setattr(guarding.Guards, "writing", nothing_against)
    run = await begun(opened, FAILING, text="a secret")
    assert await read_and_written(opened, run) == ([], ["said@1"])


async def asked(opened):
    run = await begun(opened, ASKING, text="a secret")
    (question,) = await opened.reviews(run)
    return run, question


async def test_a_conflict_for_people_holds_the_write_back(opened):
    run, _ = await asked(opened)
    assert [item.run_id for item in await opened.app.exceptions.list(kind="policy_conflict")] == [run.id]
    assert (CALLS["say"], await opened.app.assets.list()) == (1, [])


@pytest.mark.parametrize(("verdict", "value", "written"), [("continue", None, "a secret"), ("correct", "***", "***")])
async def test_a_person_decides_what_is_written(opened, verdict, value, written):
    run, question = await asked(opened)
    await opened.decide(question, verdict, value, actor="ann")
    assert await opened.result(run) == written
    assert await opened.app.assets.read("said") == written.encode()
    assert CALLS["say"] == 1


async def test_what_a_person_rejects_is_not_written(opened):
    run, question = await asked(opened)
    await opened.decide(question, "reject", actor="ann")
    with pytest.raises(RunFailed, match="rejected"):
        await opened.result(run)
    assert (await opened.app.assets.list(), CALLS["unsay a secret"]) == ([], 1)


async def test_a_person_may_have_the_step_done_again_and_it_is_checked_again(opened):
    run, question = await asked(opened)
    await opened.decide(question, "retry", actor="ann")
    await opened.run_until_idle()
    (second,) = await opened.reviews(run)
    await opened.decide(second, "continue", actor="ann")
    await opened.result(run)
    assert (CALLS["say"], CALLS["no_secrets_out"]) == (2, 2)
    assert [asset.id for asset in await opened.app.assets.list()] == ["said"]


async def test_policies_of_output_and_write_are_asked_in_turn_and_a_correction_is_seen_by_the_next(opened):
    policies = f"""
  - {{id: first, check: policy.no_secrets_out, on: [say], conflict: review, {WITH[:-1]}, writes: []}}}}
  - {{id: second, check: policy.no_secrets_out, before: write, {WITH}}}
"""
    run = await begun(opened, template(SAYING, policies, INPUTS), text="a secret")
    (question,) = await opened.reviews(run)
    await opened.decide(question, "correct", "open", actor="ann")
    assert await opened.result(run) == "open"
    assert CALLS["no_secrets_out"] == 2
