"""Configs of a plan's steps: merged field by field, and all that is wrong with them told at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from stepfast import Invalid
from stepfast.workflows.plans.config import checked, merged
from stepfast.workflows.plans.plan import Block, Constant, Do, Plan, PlanStep, Policy, Set, Use


class Strict(NamedTuple):
    """An executor whose config has one field, a number."""

    config: dict[str, Any] | None = {}  # noqa: RUF012 - a tuple's default is never changed

    def validate_config(self, given: dict[str, Any]) -> list[str]:
        unknown = [f"{name}: there is no such field" for name in given if name not in ("level", "mode")]
        return [*([] if isinstance(given.get("level"), int) else ["level: it must be a number"]), *unknown]


EXECUTORS = {"strict": Strict(), "plain": Strict(config=None)}


def using(step_id: str, executor: str = "strict", **config: Any) -> PlanStep:
    return PlanStep(step_id, Use(executor, Constant({}), config))


def plan_of(*steps: PlanStep) -> Plan:
    return Plan("scoring", 1, Block(steps))


def messages(plan: Plan, given: Any) -> list[str]:
    return [problem.message for problem in merged(plan, given, EXECUTORS)[1]]


def test_what_the_caller_gives_comes_before_what_the_author_set():
    configs, problems = merged(plan_of(using("score", level=1, mode="a")), {"score": {"level": 2}}, EXECUTORS)
    assert (configs, problems) == ({"score": {"level": 2, "mode": "a"}}, [])


def test_a_field_is_replaced_whole():
    configs, _ = merged(plan_of(using("score", level=1, mode={"a": 1})), {"score": {"mode": {"b": 2}}}, EXECUTORS)
    assert configs["score"]["mode"] == {"b": 2}


def test_the_plan_itself_is_not_changed():
    plan = plan_of(using("score", level=1))
    merged(plan, {"score": {"level": 2}}, EXECUTORS)
    assert merged(plan, None, EXECUTORS)[0] == {"score": {"level": 1}}


def test_every_step_is_checked_also_those_that_nobody_mentions():
    plan = plan_of(using("one", level=1), using("two"), PlanStep("both", Do(Block((using("three", level="x"),)))))
    assert messages(plan, None) == ["two: level: it must be a number", "three: level: it must be a number"]


def test_all_that_is_wrong_comes_at_once_as_step_field_message():
    plan = plan_of(using("one"), using("two", "plain"), PlanStep("three", Set(Constant(1))))
    with pytest.raises(Invalid) as refused:
        checked(plan, {"one": {"other": 1}, "two": {"level": 1}, "three": {}, "four": {}}, EXECUTORS)
    assert str(refused.value).splitlines() == [
        "The config of workflow 'scoring' does not fit:",
        "three: no step of that id takes a config.",
        "four: no step of that id takes a config.",
        "one: level: it must be a number",
        "one: other: there is no such field",
        "two: 'plain' takes no config",
    ]


def test_a_step_that_was_misspelt_is_named():
    assert messages(plan_of(using("score", level=1)), {"scoer": {}}) == [
        "scoer: no step of that id takes a config. Did you mean 'score'?"
    ]


@pytest.mark.parametrize("given", [3, "level", [1], {"one": 3}, {"one": {1: 2}}, {1: {}}])
def test_what_is_no_config_is_refused(given):
    assert messages(plan_of(using("one", level=1)), given)


def test_the_configs_of_policies_and_undos_are_checked_too():
    policy = Policy("no-pii", Use("strict", Constant({}), {"level": "x"}))
    step = PlanStep("post", Set(Constant(1)), undo=Use("strict", Constant({})), policies=(policy,))
    assert messages(plan_of(step), None) == [
        "post: undo: level: it must be a number",
        "post: policy no-pii: level: it must be a number",
    ]


def test_an_executor_that_is_not_here_is_not_asked():
    assert messages(plan_of(using("one", "elsewhere", level="x")), None) == []
