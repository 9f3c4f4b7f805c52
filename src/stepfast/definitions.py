"""Registered workflows: what a tenant has under a name, and which content a version stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from stepfast.kernel.definitions import (
    DefinitionFilter,
    DefinitionId,
    DefinitionKind,
    DefinitionView,
    NewDefinition,
    other_content,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import InvalidDefinition, WorkflowNotFound
from stepfast.kernel.texts import check_text, shown
from stepfast.workflows.executors.executor import BUILTIN
from stepfast.workflows.executors.registry import ExecutorRegistry
from stepfast.workflows.functions import Workflow
from stepfast.workflows.registry import Registry

if TYPE_CHECKING:
    from stepfast.kernel.ports import Clock, Store

# A definition is read whole by every worker: what is larger is no workflow, but data that belongs into its inputs.
MAX_CONTENT = 1_000_000
# How long a version that is not registered counts as such without a new look.
NOT_REGISTERED_MS = 1_000
MOST_KEPT = 10_000


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
        return template.bound(self._executors.get, partial(workflow_of, self._registry))


def workflow_of(registry: Registry, name: str, version: int | None, tenant: str) -> Workflow:
    """The workflow that a run of a tenant names: of the app's own, or of what that tenant has registered."""
    found = registry.find(name, version, tenant)
    if found is not None:
        return found
    which = shown(name) if version is None else f"{shown(name)} in version {version}"
    raise WorkflowNotFound(
        f"Workflow {which} is not known here: it is none of the app's `workflows`, and none that tenant {tenant!r} has "
        f"registered and this worker has the executors for. See `stepfast workflows list`."
    )


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


class Belonging:
    """Whether what is registered is meant to be executed by this app, or by another one on the same database."""

    def __init__(self, store: Store, registry: Registry, executors: ExecutorRegistry) -> None:
        self._store = store
        self._registry = registry
        own = [executor for executor in executors.list() if executor.kind != BUILTIN]
        self._own = {executor.name for executor in own}
        self._domains = {executor.domain for executor in own if executor.domain}
        self._found: dict[tuple[str, str, int], bool] = {}

    async def is_ours(self, tenant: str, name: str, version: int) -> bool:
        """Whether this app has one of the executors of a template, or others of the domain of one."""
        key = (tenant, name, version)
        if key not in self._found:
            stands = await find_definition(self._store, *key)
            used = set() if stands is None else executors_in(stands.content)
            self._found[key] = any(self._is_near(executor) for executor in used)
        return self._found[key]

    def has_another_version(self, tenant: str, name: str) -> bool:
        """Whether this app has the workflow in some version, of its own or registered."""
        return self._registry.find(name, None, tenant) is not None

    def _is_near(self, executor: str) -> bool:
        return executor in self._own or executor.rpartition(".")[0] in self._domains


def executors_in(content: str) -> set[str]:
    """What a template calls by name."""
    from stepfast.workflows.plans.checking import uses_of
    from stepfast.workflows.templates.loading import load_template

    plan = load_template(json.loads(content)).plan
    return {use.executor for step in plan for use in uses_of(step)}


class Standing:
    """Holds starts to what is registered: a version that stands for a content is not started with another."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._found: dict[tuple[str, str, int], tuple[DefinitionView | None, Instant]] = {}

    async def check(self, workflow: Workflow, tenant: str) -> None:
        """Refuse a workflow whose version the tenant has registered with other content."""
        if workflow.digest is None:
            return
        stands = await self._stands(tenant, workflow.name, workflow.version)
        if stands is not None and stands.digest != workflow.digest:
            newest = await find_definition(self._store, tenant, workflow.name)
            raise other_content(stands, workflow.digest, (newest or stands).version)

    def forget(self) -> None:
        """Ask anew: something was registered here."""
        self._found.clear()

    async def _stands(self, tenant: str, name: str, version: int) -> DefinitionView | None:
        key, now = (tenant, name, version), self._clock.now()
        found, asked_at = self._found.get(key, (None, None))
        # What stands never changes; what does not may have been registered by another process meanwhile.
        if found is None and (asked_at is None or not 0 <= now - asked_at < NOT_REGISTERED_MS):
            found = await find_definition(self._store, tenant, name, version)
            if len(self._found) >= MOST_KEPT:
                self._found.clear()
            self._found[key] = found, now
        return found
