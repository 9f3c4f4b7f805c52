"""Commands take along what they mean: how the steps of a plan hang together, and what a version stands for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from stepfast.definitions import find_definition
from stepfast.kernel.blobs import is_reference
from stepfast.kernel.commands import Request, Rerun, RetryRun, Rollback, Skip, StepCommand
from stepfast.kernel.definitions import DefinitionKind, code_of, codes_of
from stepfast.kernel.errors import Invalid
from stepfast.kernel.plan_control import Ties
from stepfast.kernel.ports import Store
from stepfast.kernel.texts import shown
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
    command = replace(command, ties=ties)
    misfit_of = getattr(workflow, "misfit_of", None)
    # A large output is in the blob store by now: whoever executes the run reads it.
    if isinstance(command, Skip) and misfit_of is not None and not is_reference(command.value):
        command = replace(command, misfit=misfit_of(command.step, json.loads(command.value)))
    return request._replace(command=command)


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


async def pinned(store: Store, registry: Registry, requests: Sequence[Request]) -> Sequence[Request]:
    """Commands that name a version, with the content that this version stands for."""
    if not any(_names_version(request) for request in requests):
        return requests
    return [await _pin(store, registry, request) if _names_version(request) else request for request in requests]


def _names_version(request: Request) -> bool:
    return isinstance(request.command, RetryRun | Rerun) and request.command.version is not None


async def _pin(store: Store, registry: Registry, request: Request) -> Request:
    command, run = request.command, await store.run(request.tenant, request.run_id)
    assert isinstance(command, RetryRun | Rerun)
    if run is None or run.kind == "step" or command.version in (None, run.version):
        return request
    own = registry.find(run.workflow, command.version, run.tenant)
    if own is not None:
        return request._replace(command=replace(command, definition=own.digest))
    found = await find_definition(store, run.tenant, run.workflow, command.version)
    if found is not None:
        return request._replace(command=replace(command, definition=found.digest))
    # Left to the store to refuse: a command that is sent again with its key has its answer, whoever is there now.
    return request._replace(command=replace(command, lacks=await _lacks(store, registry, run, command.version)))


async def _lacks(store: Store, registry: Registry, run: RunView, version: int) -> str | None:
    """Why nothing could go on with a version that is neither registered nor known here; None: something may."""
    what = f"Workflow {shown(run.workflow)} has no version {version} that"
    if run.definition is not None:
        # Without its digest no worker would ever take the run up.
        return f"{what} is registered or known here. Register it, or name the app that has it."
    now = await store.now()
    codes = {code for worker in await store.workers() if worker.is_alive(now) for code in worker.codes}
    own = {workflow.code for workflow in registry.workflows() if workflow.name == run.workflow}
    known = sorted(own.union(codes_of(run.workflow, codes)))
    # Where nobody has the workflow in any version, those who do may just not be there yet.
    if code_of(run.workflow, version) in codes or not known:
        return None
    return (
        f"{what} a live worker or this app has: there is {', '.join(known)}. Name one that is there, or start a "
        f"worker that has version {version} first."
    )
