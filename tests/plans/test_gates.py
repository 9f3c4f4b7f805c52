"""People in a plan: before a step, after it, in its place, and where it is blocked."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import RunFailed, RunState
from stepfast.testing import engine
from stepfast.workflows.plans.plan import Ask, Constant, Gate, Policy
from tests.plans.harness import Executors, output, plan_workflow, step, use, value


class Called:
    """Executors that count their calls."""

    def __init__(self) -> None:
        self.count = 0
        self.executors = Executors(score=self.score, unsure=self.unsure, check=self.check)

    async def score(self) -> dict[str, Any]:
        self.count += 1
        return {"score": self.count, "confidence": 0.4}

    async def unsure(self) -> dict[str, Any]:
        return {"score": 7, "review_required": True}

    async def check(self, score: int) -> dict[str, Any]:
        return {"ok": score > 1, "reason": "too low"}


@pytest.fixture
def called() -> Called:
    return Called()


LOW = Gate(value(lambda scope: scope["output"]["confidence"] < 0.6), "low_confidence", terms={"role": "analyst"})


async def asked(opened: Any, flow: Any) -> tuple[Any, Any]:
    """A run that waits for a person, and what the person is asked."""
    run = await opened.start(flow)
    await opened.run_until_idle()
    (question,) = await opened.reviews(run)
    return run, question


async def test_an_output_is_looked_at_when_the_gate_says_so(called):
    flow = plan_workflow(step("score", use("score"), after=LOW), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        assert (question.kind, question.role) == ("low_confidence", "analyst")
        await opened.decide(question, "continue", actor="ann", role="analyst")
        assert (await opened.result(run))["score"] == 1


async def test_a_corrected_output_counts_instead(called):
    flow = plan_workflow(
        step("score", use("score"), after=LOW),
        step("next", use("check", score=value(_score, "score"))),
        executors=called.executors,
    )
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        corrected = {"score": 9, "confidence": 1}
        await opened.decide(question, "correct", value=corrected, actor="ann", role="analyst")
        assert (await opened.result(run))["ok"] is True


def _score(scope: Any) -> int:
    number: int = scope["steps"]["score"]["output"]["score"]
    return number


async def test_retry_does_the_step_again_and_asks_again(called):
    flow = plan_workflow(step("score", use("score"), after=LOW), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        await opened.decide(question, "retry", actor="ann", role="analyst")
        await opened.run_until_idle()
        (second,) = await opened.reviews(run)
        await opened.decide(second, "continue", actor="ann", role="analyst")
        assert (await opened.result(run))["score"] == 2
    assert called.count == 2


async def test_a_rejected_output_fails_the_step(called):
    flow = plan_workflow(step("score", use("score"), after=LOW), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        await opened.decide(question, "reject", actor="ann", role="analyst")
        with pytest.raises(RunFailed, match="rejected"):
            await opened.result(run)


async def test_a_gate_before_a_step_holds_it_back(called):
    flow = plan_workflow(step("score", use("score"), before=Gate()), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        assert called.count == 0
        await opened.decide(question, "continue", actor="ann")
        await opened.result(run)
    assert called.count == 1


async def test_an_executor_may_ask_for_a_review_of_its_output(called):
    flow = plan_workflow(step("score", use("unsure")), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        assert question.kind == "review_required"
        await opened.decide(question, "continue", actor="ann")
        assert (await opened.result(run))["score"] == 7


async def test_a_step_that_requires_what_does_not_hold_is_blocked_until_a_person_lets_it_go_on(called):
    flow = plan_workflow(step("score", use("score"), require=Constant(False)), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        assert question.kind == "blocked"
        assert (await opened.info(run)).state is RunState.WAITING
        (item,) = await opened.app.exceptions.list(kind="blocked")
        assert item.run_id == run.id
        await opened.decide(question, "continue", actor="ann")
        await opened.result(run)
    assert called.count == 1


async def test_a_policy_that_refuses_an_output_asks_a_person(called):
    policy = Policy("not_low", use("check", score=value(lambda scope: scope["output"]["score"])), "review")
    flow = plan_workflow(step("score", use("score"), policies=(policy,)), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        assert question.kind == "policy_conflict"
        assert "too low" in question.title
        await opened.decide(question, "continue", actor="ann")
        assert (await opened.result(run))["score"] == 1


async def test_a_policy_that_fails_the_step_names_its_reason(called):
    policy = Policy("not_low", use("check", score=value(lambda scope: scope["output"]["score"])))
    flow = plan_workflow(step("score", use("score"), policies=(policy,)), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        with pytest.raises(RunFailed, match="not_low refuses the output of step score: too low"):
            await opened.result(run)


async def test_a_review_is_a_step_whose_output_is_what_was_shown(called):
    ask = Ask(Constant("All right?"), output("score"), {"type": "object"}, {"verdicts": ["continue", "retry"]})
    flow = plan_workflow(step("score", use("score")), step("approve", ask), executors=called.executors)
    async with engine(workflows=[flow]) as opened:
        run, question = await asked(opened, flow)
        assert question.title == "All right?"
        await opened.decide(question, "retry", actor="ann")
        await opened.run_until_idle()
        (second,) = await opened.reviews(run)
        await opened.decide(second, "continue", actor="ann")
        assert (await opened.result(run))["score"] == 2
    assert called.count == 2
