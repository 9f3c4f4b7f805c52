"""The workflows that an app can start: those of its code, and those that were registered on its store."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from stepfast.base import AppBase
from stepfast.kernel.definitions import (
    DefinitionFilter,
    DefinitionId,
    DefinitionView,
    check_same,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import WorkflowNotFound
from stepfast.kernel.ids import RANDOM_BITS, new_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.texts import check_optional_text, check_text, shown
from stepfast.workflows.functions import MAX_VERSION, Workflow

if TYPE_CHECKING:
    from stepfast.registering import Registrable

CODE, REGISTERED = "code", "registered"
PAGE = 500


class WorkflowView(NamedTuple):
    """One version of a workflow: what it is, the digest of its definition if that is data, and where it is from.

    `sources` has `code` when this app's code has it, and `registered` when the store does.
    """

    name: str
    version: int
    kind: str
    digest: str | None
    sources: tuple[str, ...]
    code: str
    """What a worker must have to execute it."""
    queue: str | None
    tenant: str | None = None
    registered_at: Instant | None = None
    actor: str | None = None
    content: str | None = None
    """JSON: a template whole, or the description of a graph."""


Views = list[WorkflowView]
Definitions = list[DefinitionView]


class Workflows:
    """What there is to start, in every version."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(self, name: str | None = None, *, tenant: str | None = None) -> Views:
        """Every version of every workflow, by name, or those of one name."""
        whose = self._whose(tenant)
        own = [workflow for workflow in self._app.definitions() if name in (None, workflow.name)]
        views = {workflow.code: _own_view(workflow) for workflow in own}
        for definition in await self._registered(whose, check_optional_text("name", name)):
            views[definition.code] = _merged(definition, views.get(definition.code))
        return sorted(views.values(), key=lambda view: (view.name, view.version, view.code))

    async def get(self, name: str, version: int | None = None, *, tenant: str | None = None) -> WorkflowView:
        """One workflow, in a version or the newest."""
        if version is not None:
            check_whole("version", version, 1, MAX_VERSION)
        found = await self.list(check_text("name", name), tenant=tenant)
        fits = [view for view in found if version in (None, view.version)]
        if fits:
            return max(fits, key=lambda view: view.version)
        if found:
            versions = ", ".join(str(view.version) for view in found)
            raise WorkflowNotFound(f"Workflow {shown(name)} has no version {version}. It has: {versions}.")
        raise WorkflowNotFound(f"Workflow {shown(name)} not found. List them with `stepfast workflows list`.")

    async def register(
        self, given: Registrable, *, actor: str | None = None, tenant: str | None = None
    ) -> DefinitionView:
        """Keep a definition for good, with the event `template_registered`."""
        # Slow to import, and needed only by those who register something.
        from stepfast.registering import described

        parts, app = self._app._open_parts(), self._app
        definition_id = DefinitionId(new_id(app._clock.now(), secrets.randbits(RANDOM_BITS)))
        who = check_optional_text("actor", actor)
        new = described(given, app.compiler).to_register(definition_id, self._whose(tenant), who)
        answer = await parts.store.register(new)
        stands = check_same(new, answer)
        if answer.is_new:
            app._standing.forget()
            parts.defined(stands)
        return stands

    async def _registered(self, tenant: str, name: str | None) -> Definitions:
        store = self._app._open_parts().store
        where = DefinitionFilter(tenant, name, limit=PAGE)
        found: Definitions = []
        while page := await store.definitions(where):
            found += page
            where = where._replace(before=page[-1].number)
        return found

    def _whose(self, tenant: str | None) -> str:
        return self._app.tenant if tenant is None else check_text("tenant", tenant)


def _own_view(workflow: Workflow) -> WorkflowView:
    return WorkflowView(
        *(workflow.name, workflow.version, workflow.kind, workflow.digest, (CODE,), workflow.code, workflow.queue)
    )


def _merged(definition: DefinitionView, own: WorkflowView | None) -> WorkflowView:
    """What is registered, and of the app's code too where its content is the same."""
    return WorkflowView(
        name=definition.name,
        version=definition.version,
        kind=definition.kind,
        digest=definition.digest,
        sources=(REGISTERED,) if own is None else (*own.sources, REGISTERED),
        code=definition.code,
        queue=None if own is None else own.queue,
        tenant=definition.tenant,
        registered_at=definition.registered_at,
        actor=definition.actor,
        content=definition.content,
    )
