"""Policies before a step reads: nothing is read before they let it."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import PolicyConflict, RunFailed, RunState
from stepfast.testing import Engine
from stepfast.workflows.plans import guarding
from stepfast.workflows.plans.plan import PlanStep
from tests.policies.harness import CALLS, CITING, WORLD, begun, read_and_written, template

FAILING = template(CITING, "  - {id: no-secrets, check: policy.no_secrets_in, before: read, on: [cite]}")
ASKING = template(
    CITING, "  - {id: no-secrets, check: policy.no_secrets_in, before: read, conflict: review, role: privacy}"
)


async def test_what_a_policy_has_nothing_against_is_read(opened):
    await opened.app.assets.put("open", "source")
    run = await begun(opened, FAILING)
    assert await opened.result(run) == "open"
    assert await read_and_written(opened, run) == (["source@1"], ["cited@1"])


async def refused(opened: Engine) -> tuple[Any, RunState]:
    await opened.app.assets.put("text", "source", tags=["secret"])
    run = await begun(opened, FAILING)
    return run, (await opened.info(run)).state


async def test_a_conflict_that_fails_leaves_nothing_done_and_nothing_read(opened):
    run, state = await refused(opened)
    assert (state, CALLS["cite"]) == (RunState.FAILED, 0)
    assert await read_and_written(opened, run) == ([], [])


async def test_the_broken_twin_that_asks_nobody_reads_what_is_secret(opened, monkeypatch):
    async def let(self: object, step: PlanStep, *rest: object) -> bool:
        return True

    monkeypatch.setattr(guarding.Guards, "before_reading", let)
    run, _ = await refused(opened)
    assert await read_and_written(opened, run) == (["source@1"], ["cited@1"])


async def test_a_conflict_names_policy_step_asset_and_reason_and_has_a_code(opened):
    run, _ = await refused(opened)
    with pytest.raises(RunFailed) as failed:
        await opened.result(run)
    conflict = failed.value.__cause__
    assert isinstance(conflict, PolicyConflict)
    assert conflict.code == "E-POL-001"
    assert str(conflict) == ("Policy no-secrets refuses that step cite reads asset:source@1: asset:source@1 is secret")


async def test_a_retry_asks_again_about_what_is_there_then(opened):
    run, _ = await refused(opened)
    await opened.app.assets.put("now open", "source", tags=[])
    await run.retry()
    assert await opened.result(run) == "now open"
    assert await read_and_written(opened, run) == (["source@2"], ["cited@1"])


async def in_review(opened: Engine) -> tuple[Any, Any]:
    await opened.app.assets.put("text", "source", tags=["secret"])
    run = await begun(opened, ASKING)
    (question,) = await opened.reviews(run)
    return run, question


async def test_a_conflict_for_people_opens_an_item_and_holds_the_step_back(opened):
    run, question = await in_review(opened)
    (item,) = await opened.app.exceptions.list(kind="policy_conflict")
    assert (item.run_id, question.role) == (run.id, "privacy")
    assert question.title.startswith("Policy no-secrets refuses that step cite reads asset:source@1")
    assert (CALLS["cite"], await read_and_written(opened, run)) == (0, ([], []))


async def test_a_person_may_let_it_read_the_versions_that_were_shown(opened):
    run, question = await in_review(opened)
    await opened.app.assets.put("newer", "source")
    await opened.decide(question, "continue", actor="ann", role="privacy")
    assert await opened.result(run) == "text"
    assert await read_and_written(opened, run) == (["source@1"], ["cited@1"])


async def test_a_person_who_rejects_fails_the_step_and_nothing_is_read(opened):
    run, question = await in_review(opened)
    await opened.decide(question, "reject", actor="ann", role="privacy")
    with pytest.raises(RunFailed, match="rejected"):
        await opened.result(run)
    assert (CALLS["cite"], await read_and_written(opened, run)) == (0, ([], []))


async def test_a_person_may_have_it_looked_up_and_checked_anew(opened):
    run, question = await in_review(opened)
    await opened.app.assets.put("newer", "source", tags=[])
    await opened.decide(question, "retry", actor="ann", role="privacy")
    assert await opened.result(run) == "newer"
    assert CALLS["no_secrets_in"] == 2
    assert await read_and_written(opened, run) == (["source@2"], ["cited@1"])


async def test_a_person_may_turn_to_another(opened):
    run, question = await in_review(opened)
    await opened.decide(question, "escalate", to="carol", actor="ann", role="privacy")
    (asked,) = await opened.reviews(run)
    assert (asked.assignee, CALLS["cite"]) == ("carol", 0)


async def test_a_refused_step_fails_as_it_says_itself(opened):
    steps = """
  - {id: cite, use: docs.cite, reads: {asset: source}, on_failure: continue}
  - {id: after, needs: [cite], use: docs.say, with: {text: on}}
"""
    text = template(steps, "  - {id: no-secrets, check: policy.no_secrets_in, before: read}")
    await opened.app.assets.put("text", "source", tags=["secret"])
    run = await begun(opened, text)
    assert (await opened.info(run)).state is RunState.PARTIAL
    assert (CALLS["cite"], CALLS["say"]) == (0, 1)


async def test_a_conflict_can_be_caught_by_its_code(opened):
    steps = """
  - id: cite
    use: docs.cite
    reads: {asset: source}
    catch: [{errors: [E-POL-001], do: [{id: instead, set: "${ error.type }"}]}]
"""
    await opened.app.assets.put("text", "source", tags=["secret"])
    run = await begun(opened, template(steps, "  - {id: no-secrets, check: policy.no_secrets_in, before: read}"))
    assert await opened.result(run) == "PolicyConflict"


async def test_each_item_is_checked_by_itself(opened):
    steps = """
  - {id: cite, each: "${ ['a', 'b'] }", join: settled, use: docs.cite, reads: {asset: "${ item }"}}
"""
    await opened.app.assets.put("of a", "a", tags=["secret"])
    await opened.app.assets.put("of b", "b")
    run = await begun(opened, template(steps, "  - {id: no-secrets, check: policy.no_secrets_in, before: read}"))
    assert (await opened.result(run))["results"] == ["of b"]
    assert await read_and_written(opened, run) == (["b@1"], [])


async def test_a_policy_without_steps_guards_every_step_that_reads(opened):
    await opened.app.assets.put("text", "source", tags=["secret"])
    steps = "  - {id: say, use: docs.say, with: {text: first}}\n" + CITING.lstrip("\n")
    run = await begun(opened, template(steps, "  - {id: no-secrets, check: policy.no_secrets_in, before: read}"))
    assert (await opened.info(run)).state is RunState.FAILED
    assert (CALLS["say"], CALLS["cite"], CALLS["no_secrets_in"]) == (1, 0, 1)


async def test_a_policy_is_asked_only_when_its_condition_holds(opened):
    when = "${ assets.exists(a, a.media_type == 'application/pdf') }"
    text = template(CITING, f'  - {{id: no-secrets, check: policy.no_secrets_in, before: read, when: "{when}"}}')
    await opened.app.assets.put("text", "source", tags=["secret"])
    run = await begun(opened, text)
    assert await opened.result(run) == "text"
    assert CALLS["no_secrets_in"] == 0


async def test_a_retry_asks_every_policy_about_what_is_there_then(opened):
    policies = """
  - {id: first, check: policy.odd, before: read, with: {output: "${ assets[0].uri }"}}
  - {id: no-secrets, check: policy.no_secrets_in, before: read}
"""
    WORLD["answer"] = {"ok": True}
    await opened.app.assets.put("text", "source", tags=["secret"])
    run = await begun(opened, template(CITING, policies))
    await opened.app.assets.put("now open", "source", tags=[])
    await run.retry()
    assert await opened.result(run) == "now open"
    assert (CALLS["odd"], CALLS["no_secrets_in"]) == (2, 2)


async def test_an_item_of_a_conflict_names_policy_step_and_asset(opened):
    await in_review(opened)
    (item,) = await opened.app.exceptions.list(kind="policy_conflict")
    assert "Policy no-secrets refuses that step cite reads asset:source@1" in str(item)
