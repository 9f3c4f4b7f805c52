"""Ways around a policy: corrections, reruns, steps inside others, queues and outputs that a person gives."""

from __future__ import annotations

import pytest

from stepfast import RunFailed, RunState
from stepfast.workflows.plans import gates
from tests.policies.harness import CALLS, WORLD, begun, read_and_written, template
from tests.policies.test_before_writing import INPUTS, SAYING, WITH

SAYS_NOTHING = f"{WITH[:-1]}, writes: []}}"
FIRST = f"  - {{id: first, check: policy.no_secrets_out, before: write, {WITH}}}\n"
ASKS = "  - {id: asks, check: policy.odd, before: write, conflict: review, when: \"${ output == 'plain' }\"}\n"
READS = "  - {id: clean, check: policy.no_secrets_in, before: read}"


@pytest.fixture(autouse=True)
def no() -> None:
    WORLD["answer"] = {"ok": False, "reason": "so"}


async def corrected(opened, policies: str, steps: str = SAYING):
    run = await begun(opened, template(steps, policies, INPUTS), text="plain")
    (question,) = await opened.reviews(run)
    await opened.decide(question, "correct", "a secret", actor="ann")
    await opened.run_until_idle()
    return run


async def test_who_decides_on_one_policy_puts_nothing_by_an_earlier_one(opened):
    run = await corrected(opened, FIRST + ASKS)
    assert await opened.app.assets.list() == []
    with pytest.raises(RunFailed, match="Policy first refuses that step say writes 'said': it tells a secret"):
        await opened.result(run)


async def test_what_a_reviewer_puts_in_its_place_goes_by_the_policies_of_the_output(opened):
    policy = f"  - {{id: first, check: policy.no_secrets_out, on: [say], {SAYS_NOTHING}}}\n"
    run = await corrected(opened, policy, f"{SAYING}    gate: {{after: {{title: Right?}}}}\n")
    assert await opened.app.assets.list() == []
    with pytest.raises(RunFailed, match="Policy first refuses the output of step say"):
        await opened.result(run)


async def once(self, step, place, branch, output):
    guards = self._interpreter.guards
    for stage in (guards.output, guards.writing):
        output, _ = await stage(step, place, branch, output, {})
    return output, True


async def test_the_broken_twin_that_asks_once_writes_what_a_person_put_in(opened, monkeypatch):
    monkeypatch.setattr(gates.Gates, "after", once)
    await corrected(opened, FIRST + ASKS)
    assert await opened.app.assets.read("said") == b"a secret"


async def test_a_policy_that_has_seen_a_correction_is_not_asked_again(opened):
    policies = f"{FIRST}{ASKS}  - {{id: last, check: policy.no_secrets_out, before: write, {WITH}}}\n"
    run = await begun(opened, template(SAYING, policies, INPUTS), text="plain")
    (question,) = await opened.reviews(run)
    await opened.decide(question, "correct", "open", actor="ann")
    assert await opened.result(run) == "open"
    assert (CALLS["no_secrets_out"], CALLS["odd"]) == (3, 1)


INSIDE = {
    "do": "  - {id: outer, do: [%s]}",
    "switch": "  - {id: outer, switch: [{when: true, do: [%s]}]}",
    "parallel": "  - {id: outer, parallel: [%s]}",
    "while": '  - {id: outer, while: {when: "${ round == 1 }", max: 2}, do: [%s]}',
    "catch": "  - {id: outer, fail: no, catch: [{do: [%s]}]}",
}
CITES = "{id: cite, use: docs.cite, reads: {asset: source}%s}"


@pytest.mark.parametrize("where", INSIDE)
@pytest.mark.parametrize("rest", ["", ", queue: default", ', each: "${ [1, 2] }"'])
async def test_a_policy_for_all_that_read_guards_steps_wherever_they_stand(opened, where, rest):
    await opened.app.assets.put("hidden", "source", tags=["secret"])
    run = await begun(opened, template(INSIDE[where] % (CITES % rest), READS))
    assert (await opened.info(run)).state is RunState.FAILED
    assert (await read_and_written(opened, run), CALLS["cite"]) == (([], []), 0)
    with pytest.raises(RunFailed, match="Policy clean refuses that step cite reads asset:source@1"):
        await opened.result(run)


async def test_a_rerun_asks_again_about_what_is_there_then(opened):
    await opened.app.assets.put("open", "source")
    run = await begun(opened, template(f"  - {{id: before, set: 1}}\n  - {CITES % ', needs: [before]'}", READS))
    assert await opened.result(run) == "open"
    await opened.app.assets.put("hidden", "source", tags=["secret"], fresh=False)
    await run.rerun("cite")
    with pytest.raises(RunFailed, match="Policy clean refuses that step cite reads asset:source@2"):
        await opened.result(run)
    assert CALLS["cite"] == 1


async def test_an_output_that_a_person_gives_writes_nothing(opened):
    run = await begun(opened, template(SAYING, FIRST, INPUTS), text="a secret")
    await run.skip("say", "a secret")
    await opened.run_until_idle()
    assert await opened.app.assets.list() == []
