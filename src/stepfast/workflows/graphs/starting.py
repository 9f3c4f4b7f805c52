"""A graph as what an app starts: its arguments, its config checked, and what it costs before it runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.graphs.compiling import json_of
from stepfast.workflows.graphs.hints import restored
from stepfast.workflows.plans.checking import uses_of
from stepfast.workflows.plans.config import checked
from stepfast.workflows.plans.frame import FindExecutor, as_json
from stepfast.workflows.plans.plan import Plan, Use

CONFIG_HINT = dict[str, dict[str, Any]]


class Estimate(NamedTuple):
    """What a run is likely to cost: in all, and each step that says so."""

    total: float
    steps: dict[str, float]


class GraphArguments(ArgumentsCodec):
    """The arguments of a graph: its input, and a config for some of its steps, which is checked when a run starts."""

    def __init__(self, name: str, input_hint: Any, check: Callable[[Any], object]) -> None:
        super().__init__(_starter(input_hint), f"graph {name!r}")
        self._check = check
        self._is_good_alone = False
        """Whether the config has been found good as the graph sets it, which is what most runs are started with."""

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        bound = super().bind(args, kwargs)
        bound["config"] = plain_config(bound["config"])
        if bound["config"] is not None or not self._is_good_alone:
            self._check(bound["config"])
            self._is_good_alone = self._is_good_alone or bound["config"] is None
        return bound


class GraphResult(ValueCodec):
    """The result of a graph; what a person, a message or a formula brought as JSON is read by the graph's hint."""

    def __init__(self, hint: Any, what: str) -> None:
        super().__init__(hint, what)
        self._hint = hint

    def encode(self, value: Any) -> str:
        return super().encode(restored(value, self._hint))

    def restore(self, value: Any) -> tuple[str, Any]:
        return super().restore(restored(value, self._hint))


def plain_config(given: Any) -> Any:
    """What a caller gives as config, with typed configs of steps as JSON."""
    if not isinstance(given, Mapping):
        return given
    return {name: json_of(config) if _is_typed(config) else config for name, config in given.items()}


def _is_typed(config: object) -> bool:
    return hasattr(type(config), "model_fields") or hasattr(config, "__dataclass_fields__")


def _starter(input_hint: Any) -> Callable[..., Any]:
    def start(inputs: Any = None, config: Any = None) -> None:
        """Stands for the workflow where its arguments are read."""

    named: Any = start
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = None if may_be_none(input_hint) else inspect.Parameter.empty
    parameters = [
        inspect.Parameter("inputs", kind, annotation=input_hint, default=default),
        inspect.Parameter("config", kind, annotation=CONFIG_HINT, default=None),
    ]
    named.__signature__ = inspect.Signature(parameters)
    named.__annotations__ = {"inputs": input_hint, "config": CONFIG_HINT}
    return start


def may_be_none(hint: Any) -> bool:
    """Whether a value of that hint need not be given."""
    return hint in (Any, None, type(None)) or type(None) in typing.get_args(hint)


def configurable(plan: Plan, find: FindExecutor) -> dict[str, Executor]:
    """The executors of a plan that are known here."""
    found: dict[str, Any] = {}
    for step in plan:
        for use in uses_of(step):
            try:
                found[use.executor] = find(use.executor)
            except StepfastError:
                # Another process may have it; whether any does is asked elsewhere.
                continue
    return found


def described_configs(plan: Plan, find: FindExecutor) -> dict[str, dict[str, Any]]:
    """Of each step that takes a config: the JSON Schema of it, and what the graph sets of it."""
    executors = configurable(plan, find)
    taking = ((step.id, step.verb) for step in plan if isinstance(step.verb, Use))
    schemas = ((step_id, use, getattr(executors.get(use.executor), "config", None)) for step_id, use in taking)
    return {
        step_id: {"schema": schema, "set": as_json(dict(use.config))}
        for step_id, use, schema in schemas
        if schema is not None
    }


def estimated(plan: Plan, given: Any, config: Any, find: FindExecutor) -> Estimate:
    """What the steps of a plan say that they will cost, with this input and config."""
    executors = configurable(plan, find)
    configs = checked(plan, plain_config(config), executors)
    costs: dict[str, float] = {}
    for step in plan:
        if step.estimate is not None:
            scope = {"inputs": given, "config": _typed(step.verb, configs.get(step.id, {}), executors)}
            costs[step.id] = _cost(step.id, step.estimate.evaluate(scope))
    return Estimate(sum(costs.values()), costs)


def _typed(verb: object, config: dict[str, Any], executors: Mapping[str, Executor]) -> Any:
    executor = executors.get(verb.executor) if isinstance(verb, Use) else None
    if executor is None or not executor.takes_config:
        return None
    return executor.body.arguments.read_one("config", config)


def _cost(step_id: str, cost: object) -> float:
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        raise Invalid(f"The estimate of step {step_id!r} is {cost!r}; it must be a number.")
    return cost
