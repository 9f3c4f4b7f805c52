"""Definitions that were registered: workflows as data, each version once and for good."""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, NewType, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import InvalidDefinition

DefinitionId = NewType("DefinitionId", str)

# How much of a digest makes a code: enough that no two contents of one version share it.
CODE_DIGEST = 12


class DefinitionKind(StrEnum):
    """What a registered workflow is written as."""

    TEMPLATE = "template"
    """Its content is all of it: any worker with its executors can execute it."""
    GRAPH = "graph"
    """Its content describes it; its code stays with the processes that have it."""


class NewDefinition(NamedTuple):
    """A definition to be registered."""

    definition_id: DefinitionId
    tenant: str
    name: str
    version: int
    digest: str
    kind: DefinitionKind
    content: str
    actor: str | None = None

    @property
    def told(self) -> str:
        """What the event of its registration says."""
        return json.dumps({"name": self.name, "version": self.version, "kind": self.kind, "digest": self.digest})


class DefinitionView(NamedTuple):
    """A definition as it was registered; `number` counts all of a store, in the order of their commits."""

    number: int
    definition_id: DefinitionId
    tenant: str
    name: str
    version: int
    digest: str
    kind: DefinitionKind
    content: str
    registered_at: Instant
    actor: str | None

    @property
    def code(self) -> str:
        """What a worker must have to execute it."""
        return code_of(self.name, self.version, self.digest)


class Registered(NamedTuple):
    """The definition that stands under a name and version, whether it is new, and the newest version of the name."""

    definition: DefinitionView
    is_new: bool
    newest: int


class DefinitionFilter(NamedTuple):
    """Which definitions a list holds, newest first; `before` is the number that the page before ended with."""

    tenant: str | None = None
    name: str | None = None
    version: int | None = None
    before: int | None = None
    limit: int = 100


class DefinitionStore(Protocol):
    """The part of a store that keeps definitions."""

    async def register(self, definition: NewDefinition) -> Registered:
        """Keep a definition, with its event `template_registered`; one that stands under its version stays as it is."""
        ...

    async def definitions(self, where: DefinitionFilter) -> list[DefinitionView]:
        """A page of definitions, newest first."""
        ...

    async def definitions_after(self, number: int, limit: int = 100) -> list[DefinitionView]:
        """Those with higher numbers, in order, of all tenants: asked again and again, and cheap.

        Whoever has seen a number has seen all below it: numbers are given in the order of commits.
        """
        ...


def code_of(name: str, version: int, digest: str | None = None) -> str:
    """What a worker must have to execute a workflow: a function by its version, a plan by its content too."""
    return f"{name}@{version}" if digest is None else f"{name}@{version}#{digest[:CODE_DIGEST]}"


def codes_of(name: str, codes: Iterable[str]) -> list[str]:
    """The versions of a workflow among what workers can execute.

    Those with contents are left out: it may be another tenant that has registered them, under the same name.
    """
    return sorted({code for code in codes if code.rpartition("@")[0] == name and "#" not in code[len(name) :]})


def check_same(asked: NewDefinition, answer: Registered) -> DefinitionView:
    """Refuse a definition whose version stands for other content."""
    stands = answer.definition
    if stands.digest == asked.digest:
        return stands
    raise other_content(stands, asked.digest, answer.newest)


def other_content(stands: DefinitionView, digest: str, newest: int) -> InvalidDefinition:
    """Why content of another digest is refused under a version that stands."""
    return InvalidDefinition(
        f"Workflow {stands.name!r} has a version {stands.version} with other content: registered is {stands.digest}, "
        f"and this is {digest}. What is registered never changes: give the new content version {newest + 1}."
    )
