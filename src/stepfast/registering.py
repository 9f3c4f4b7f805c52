"""What is kept of templates and graphs when they are registered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from stepfast.definitions import Compiler, Described
from stepfast.kernel.definitions import DefinitionKind
from stepfast.kernel.errors import InvalidDefinition
from stepfast.kernel.texts import shown
from stepfast.workflows.functions import AsyncWorkflow, SyncWorkflow, Workflow
from stepfast.workflows.plans.describing import describe
from stepfast.workflows.plans.plan import Plan
from stepfast.workflows.plans.workflow import PlanWorkflow
from stepfast.workflows.templates.loading import Template
from stepfast.workflows.templates.workflow import TemplateWorkflow


class HasPlan(Protocol):
    """A graph."""

    def plan(self) -> Plan: ...


Registrable = str | Path | Mapping[str, Any] | Template | Workflow | HasPlan


def described(given: object, compiler: Compiler) -> Described:
    """What is to be kept of a template, a graph, or a workflow that was made of one."""
    if isinstance(given, str | Path | Mapping):
        return compiler.load(given)
    if isinstance(given, TemplateWorkflow):
        given = given.template
    if isinstance(given, Template):
        return of_plan(given.plan, given.content)
    if isinstance(given, PlanWorkflow):
        return of_plan(given.frame.plan)
    if callable(plan := getattr(given, "plan", None)):
        return of_plan(plan())
    if isinstance(given, AsyncWorkflow | SyncWorkflow | Workflow):
        name = given.name if isinstance(given, Workflow) else given.workflow.name
        raise InvalidDefinition(
            f"Workflow {name!r} is a function: its code is no data that could be registered. Name it in the app's "
            f"`workflows`; registered are templates and graphs."
        )
    raise InvalidDefinition(f"{shown(given)} cannot be registered: give a template (a file or its content) or a graph.")


def of_plan(plan: Plan, content: str | None = None) -> Described:
    """A plan with its template's content, or else, as a graph of Python's, with its description."""
    if not plan.digest:
        raise InvalidDefinition(f"Workflow {plan.name!r} has no digest, so nothing can be held to it.")
    if content is not None:
        return Described(plan.name, plan.version, plan.digest, DefinitionKind.TEMPLATE, content)
    text = json.dumps(describe(plan), ensure_ascii=False, sort_keys=True, default=str)
    return Described(plan.name, plan.version, plan.digest, DefinitionKind.GRAPH, text)
