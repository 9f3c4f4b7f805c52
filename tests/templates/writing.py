"""Templates for tests: short to write, and what is wrong with them as lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.plans.plan import PlanStep, Set
from stepfast.workflows.templates.loading import Template, load_template
from stepfast.workflows.templates.problems import Problem, TemplateInvalid

Given = str | bytes | Path | Mapping[str, Any]

HEAD = "stepfast: 1\nworkflow: test\n"


def executors(*functions: Any, **named: Any) -> dict[str, Executor]:
    """Functions as executors, by the names that they have or are given; `_` in a given name is a dot."""
    found = [Executor.of(function) for function in functions]
    found += [Executor.of(function, name.replace("_", ".", 1)) for name, function in named.items()]
    return {executor.name: executor for executor in found}


def loaded(text: str | Mapping[str, Any], known: Mapping[str, Executor] | None = None) -> Template:
    return load_template(text, known)


def of_steps(steps: str, known: Mapping[str, Executor] | None = None, head: str = HEAD) -> Template:
    """The template of some steps."""
    return load_template(f"{head}steps:\n{steps}", known)


def step_of(steps: str, known: Mapping[str, Executor] | None = None, head: str = HEAD) -> PlanStep:
    """The last step of such a template."""
    return of_steps(steps, known, head).plan.block.steps[-1]


def value_of(template: Template) -> Any:
    """What the first step of a template computes, where it needs nothing for that."""
    verb = template.plan.block.steps[0].verb
    assert isinstance(verb, Set)
    return verb.value.evaluate({})


def problems(text: Given, known: Mapping[str, Executor] | None = None) -> list[Problem]:
    """Everything that is wrong with a template, of which something must be."""
    with pytest.raises(TemplateInvalid) as raised:
        load_template(text, known)
    return list(raised.value.problems)


def told(text: Given, known: Mapping[str, Executor] | None = None) -> list[str]:
    """The same as lines, without the name of the template."""
    return [str(problem).removeprefix("template:").strip() for problem in problems(text, known)]


def told_of_steps(steps: str, known: Mapping[str, Executor] | None = None, head: str = HEAD) -> list[str]:
    """What is wrong with a template of some steps; the first of them begins in line 4."""
    return told(f"{head}steps:\n{steps}", known)
