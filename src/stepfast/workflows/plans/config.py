"""The configs of a plan's steps: what the author set, field by field under what the run's caller gave, and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import shown
from stepfast.workflows.plans.checking import Names, Problem
from stepfast.workflows.plans.plan import Plan, PlanStep, Use

Config = dict[str, Any]


class Configurable(Protocol):
    """What must be known of an executor to give it a config."""

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The JSON Schema of its config; None: it takes none."""
        ...

    def validate_config(self, given: dict[str, Any]) -> list[str]:
        """What does not fit, as `field: message`."""
        ...


Executors = Mapping[str, Configurable]


def merged(plan: Plan, given: object, executors: Executors) -> tuple[dict[str, Config], list[Problem]]:
    """The config of every step that calls an executor, and all that is wrong with them, as `step: field: message`.

    A field that the caller gives replaces the author's whole, also where its value is an object.
    """
    configs: dict[str, Config] = {}
    problems = _misplaced(plan, given)
    asked = given if isinstance(given, Mapping) else {}
    for number, step in enumerate(plan):
        if isinstance(step.verb, Use):
            configs[step.id] = {**step.verb.config, **_own(asked.get(step.id))}
            told = _misfits(step.id, step.verb.executor, configs[step.id], executors)
            problems += [Problem(step.id, message, "", number) for message in told]
        for part, use in _fixed(step):
            told = _misfits(f"{step.id}: {part}", use.executor, dict(use.config), executors)
            problems += [Problem(step.id, message, "", number) for message in told]
    return configs, problems


def checked(plan: Plan, given: object, executors: Executors) -> dict[str, Config]:
    """The same; all that is wrong is raised as one `Invalid`, a line each."""
    configs, problems = merged(plan, given, executors)
    if problems:
        lines = "\n".join(problem.message for problem in problems)
        raise Invalid(f"The config of workflow {plan.name!r} does not fit:\n{lines}")
    return configs


def _misplaced(plan: Plan, given: object) -> list[Problem]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        return [Problem("", f"config is {shown(given)}; give an object with the config of each step by its id")]
    known = Names(step.id for step in plan if isinstance(step.verb, Use))
    problems = []
    for name, config in given.items():
        if name not in known:
            told = f"{name}: no step of that id takes a config. {known.nearest(str(name))}"
            problems.append(Problem(str(name), told.rstrip()))
        elif not _is_config(config):
            problems.append(Problem(name, f"{name}: {shown(config)} is no config; give an object with its fields"))
    return problems


def _own(given: object) -> Config:
    return dict(given) if isinstance(given, Mapping) and _is_config(given) else {}


def _is_config(given: object) -> bool:
    return isinstance(given, Mapping) and all(isinstance(name, str) for name in given)


def _fixed(step: PlanStep) -> Iterator[tuple[str, Use]]:
    """The calls of a step that have their config from its author alone."""
    if step.undo is not None:
        yield "undo", step.undo
    yield from ((f"policy {policy.id}", policy.check) for policy in step.policies)


def _misfits(place: str, executor: str, config: Config, executors: Executors) -> list[str]:
    # One that nobody has registered is a problem of its own, told elsewhere.
    if executor not in executors:
        return []
    known = executors[executor]
    if known.config is None:
        return [f"{place}: {executor!r} takes no config"] if config else []
    return [f"{place}: {message}" for message in known.validate_config(config)]
