"""Plans in a test's hands: executors that note what they are called with, and plans made of a few words."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from stepfast import Invalid
from stepfast.kernel.retry import Retry
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.plans.frame import Frame
from stepfast.workflows.plans.plan import Block, Computed, Constant, Formula, Plan, PlanStep, Use
from stepfast.workflows.plans.workflow import PlanWorkflow

ONCE = Retry(attempts=1)


class Executors:
    """Executors by their names; each call of one is noted."""

    def __init__(self, **functions: Callable[..., Any]) -> None:
        self._bodies = {name: StepBody(function, name, ONCE, None) for name, function in functions.items()}

    def __call__(self, name: str) -> Any:
        if name not in self._bodies:
            raise Invalid(f"There is no executor {name!r} here.")
        return SimpleNamespace(name=name, body=self._bodies[name])


def value(function: Callable[[Any], Any], *reads: str) -> Formula:
    """A formula of Python's: `steps.a.output` is named as "a", anything else by its whole path."""
    paths = tuple(tuple(read.split(".")) if "." in read else ("steps", read, "output") for read in reads)
    return Computed(function, paths)


def output(step_id: str) -> Formula:
    """What a step gave."""
    return value(lambda scope: scope["steps"][step_id]["output"], step_id)


def use(executor: str, **inputs: Any) -> Use:
    """A call of an executor; inputs are formulas or constants."""
    formulas = {name: each if hasattr(each, "evaluate") else Constant(each) for name, each in inputs.items()}
    reads = tuple(reference for each in formulas.values() for reference in each.references)
    return Use(executor, Computed(lambda scope: {name: f.evaluate(scope) for name, f in formulas.items()}, reads))


def step(step_id: str, verb: Any, **options: Any) -> PlanStep:
    return PlanStep(step_id, verb, **options)


async def _shape(inputs: Any = None, config: dict[str, Any] | None = None) -> None:
    """What runs of a plan are started with."""


def plan_workflow(*steps: PlanStep, executors: Any = None, name: str = "plan", **options: Any) -> PlanWorkflow:
    """A workflow of these steps."""
    plan = Plan(name, 1, Block(tuple(steps)), **options)

    def no_workflow(wanted: str, version: int | None, tenant: str) -> Any:
        raise Invalid(f"There is no workflow {wanted!r} here.")

    frame = Frame(plan, executors or Executors(), no_workflow, is_plain=True)
    return PlanWorkflow(frame, ArgumentsCodec(_shape, f"workflow {name!r}"), ValueCodec(Any, f"the result of {name!r}"))
