"""Registered workflows: what a tenant has under a name, and which content a version stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from stepfast.kernel.commands import Request, Rerun, RetryRun
from stepfast.kernel.definitions import DefinitionFilter, DefinitionId, DefinitionKind, DefinitionView, NewDefinition
from stepfast.kernel.errors import InvalidDefinition, WorkflowNotFound
from stepfast.kernel.ports import Store
from stepfast.kernel.texts import check_text, shown
from stepfast.workflows.executors.registry import ExecutorRegistry
from stepfast.workflows.functions import Workflow
from stepfast.workflows.registry import Registry

# A definition is read whole by every worker: what is larger is no workflow, but data that belongs into its inputs.
MAX_CONTENT = 1_000_000


class Described(NamedTuple):
    """A definition apart from who registers it: what its runs are pinned to, and the JSON that is kept of it."""

    name: str
    version: int
    digest: str
    kind: DefinitionKind
    content: str

    def to_register(self, definition_id: DefinitionId, tenant: str, actor: str | None) -> NewDefinition:
        """The same for a tenant."""
        if len(self.content) > MAX_CONTENT:
            raise InvalidDefinition(
                f"Workflow {self.name!r} cannot be registered: as JSON it has {len(self.content):,} characters, and "
                f"the limit is {MAX_CONTENT:,}. Give what is data as an input instead."
            )
        return NewDefinition(definition_id, tenant, *self, actor)


class Compiler(Protocol):
    """Makes workflows of templates."""

    def load(self, source: str | Path | Mapping[str, Any]) -> Described:
        """Read and check a template from its file, its text or its content; raises all that is wrong with it."""
        ...

    def compile(self, definition: DefinitionView, is_executed: bool = True) -> Workflow:
        """Make a workflow of a registered template; raises what is missing here, if it is to be executed here."""
        ...


class TemplateCompiler:
    """Compiles templates with the executors of an app."""

    def __init__(self, executors: ExecutorRegistry, registry: Registry, knows_executors: bool = True) -> None:
        self._executors = executors
        self._registry = registry
        self._knows_executors = knows_executors

    def load(self, source: str | Path | Mapping[str, Any]) -> Described:
        """Read and check a template."""
        from stepfast.workflows.templates.loading import load_template

        template = load_template(source, self._executors if self._knows_executors else None)
        identity = (template.name, template.version, template.digest)
        return Described(*identity, DefinitionKind.TEMPLATE, template.content)

    def compile(self, definition: DefinitionView, is_executed: bool = True) -> Workflow:
        """Make a workflow of a registered template."""
        # Slow to import, and of no use to an app that has functions alone.
        from stepfast.workflows.templates.loading import load_template

        executors = self._executors if is_executed else None
        template = load_template(json.loads(definition.content), executors, name=definition.code)
        if template.digest != definition.digest:
            raise InvalidDefinition(
                f"The content of {definition.code} has digest {template.digest} here, and was registered with "
                f"{definition.digest}. Register it anew under the next version."
            )
        return template.bound(self._executors.get, partial(self._workflow, definition.tenant))

    def _workflow(self, tenant: str, name: str, version: int | None) -> Workflow:
        found = self._registry.find(name, version, tenant)
        if found is None:
            which = shown(name) if version is None else f"{shown(name)} in version {version}"
            raise WorkflowNotFound(f"Workflow {which} is not known here.")
        return found


async def find_definition(store: Store, tenant: str, name: str, version: int | None = None) -> DefinitionView | None:
    """What a tenant has registered under a name, in a version or the newest."""
    where = DefinitionFilter(tenant, check_text("The workflow's name", name), version)
    newest: DefinitionView | None = None
    while page := await store.definitions(where):
        newest = max([*page, *([newest] if newest else [])], key=lambda definition: definition.version)
        if len(page) < where.limit:
            break
        where = where._replace(before=page[-1].number)
    return newest


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
    if run is None or run.kind == "step":
        return request
    own = registry.find(run.workflow, command.version, run.tenant)
    if own is not None:
        return request._replace(command=replace(command, definition=own.digest))
    found = await find_definition(store, run.tenant, run.workflow, command.version)
    return request._replace(command=replace(command, definition=found.digest if found else None))
