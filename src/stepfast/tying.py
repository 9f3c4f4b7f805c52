"""Commands about a step of a plan: they take along how the steps of that plan hang together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from stepfast.definitions import find_definition
from stepfast.kernel.commands import Request, Rerun, RetryRun, Rollback, Skip, StepCommand
from stepfast.kernel.definitions import DefinitionKind, code_of
from stepfast.kernel.errors import Invalid
from stepfast.kernel.plan_control import Ties
from stepfast.kernel.ports import Store
from stepfast.kernel.views import RunView
from stepfast.workflows.registry import Registry


async def tied(store: Store, registry: Registry, requests: Sequence[Request]) -> Sequence[Request]:
    """Commands as they are, but those about a step of a plan know which steps rest on it."""
    if not any(_names_step(request) for request in requests):
        return requests
    return [await _tie(store, registry, request) if _names_step(request) else request for request in requests]


def _names_step(request: Request) -> bool:
    match request.command:
        case Rerun(from_step=step) | RetryRun(step=step):
            return step is not None
        case Skip() | Rollback():
            return True
        case _:
            return False


async def _tie(store: Store, registry: Registry, request: Request) -> Request:
    command, run = request.command, await store.run(request.tenant, request.run_id)
    assert isinstance(command, StepCommand)
    if run is None or run.kind == "step":
        return request
    version, definition = _life(command, run)
    is_same = version == run.version
    code = run.code if is_same else code_of(run.workflow, version, definition)
    workflow = registry.by_code(code)
    ties = getattr(workflow, "ties", None) if workflow is not None else await _registered(store, run, version, code)
    if ties is None and workflow is None and definition is not None:
        raise Invalid(
            f"Run {run.run_id} is of {code}, whose plan is not known here, and only the plan says what rests on a "
            f"step. Give the command where its code is: `--app MODULE:NAME`, or in a process that imports it."
        )
    return request._replace(command=replace(command, ties=ties))


def _life(command: StepCommand, run: RunView) -> tuple[int, str | None]:
    """The version that a run goes on with, and the digest of its definition."""
    if isinstance(command, Rerun | RetryRun) and command.version not in (None, run.version):
        return command.version or run.version, command.definition
    return run.version, run.definition


async def _registered(store: Store, run: RunView, version: int, code: str) -> Ties | None:
    """The ties of a registered template; nothing of it need be executable here."""
    found = await find_definition(store, run.tenant, run.workflow, version)
    if found is None or found.kind is not DefinitionKind.TEMPLATE or found.code != code:
        return None
    # Slow to import, and of no use to an app that has functions alone.
    from stepfast.workflows.plans.ordering import ties_of
    from stepfast.workflows.templates.loading import load_template

    return ties_of(load_template(json.loads(found.content), None, name=found.code).plan)
