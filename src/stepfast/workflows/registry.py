"""Which workflows a process knows, by name and version."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stepfast.kernel.errors import Invalid, InvalidDefinition

if TYPE_CHECKING:
    from stepfast.workflows.functions import Workflow


class Defined:
    """Every workflow that was defined in this process and still exists."""

    def __init__(self) -> None:
        self._workflows: weakref.WeakSet[Workflow] = weakref.WeakSet()

    def add(self, workflow: Workflow) -> None:
        """Take note of a definition; one from the same place replaces the earlier, as a reload does."""
        for other in list(self._workflows):
            if other.code == workflow.code and other.place == workflow.place:
                self._workflows.discard(other)
        self._workflows.add(workflow)

    def __iter__(self) -> Iterator[Workflow]:
        return iter(list(self._workflows))


DEFINED = Defined()


class Registry:
    """The workflows of one app: the ones it was given, or else every one defined in the process."""

    def __init__(self, workflows: Iterable[Workflow] | None) -> None:
        self._all_defined = workflows is None
        self._given: dict[str, Workflow] = {}
        for workflow in workflows or ():
            self.add(workflow)

    def add(self, workflow: Workflow) -> None:
        """Make a workflow known to the app."""
        other = self._given.setdefault(workflow.code, workflow)
        if other is not workflow and other.place != workflow.place:
            raise _two_of_one_name(other, workflow)
        self._given[workflow.code] = workflow

    def by_code(self, code: str) -> Workflow | None:
        """The workflow of that name and version, if this app has it."""
        return self._known().get(code)

    def newest(self, name: str) -> Workflow:
        """The highest version of a workflow."""
        versions = [workflow for workflow in self._known().values() if workflow.name == name]
        if not versions:
            raise Invalid(f"No workflow is named {name!r} here. {self._names_for_people()}")
        return max(versions, key=lambda workflow: workflow.version)

    def codes(self) -> list[str]:
        """What a worker of this app can execute."""
        return sorted(self._known())

    def queues(self) -> list[str]:
        """The queues that its workflows name."""
        return sorted({workflow.queue for workflow in self._known().values()})

    def _known(self) -> dict[str, Workflow]:
        if not self._all_defined:
            return self._given
        known = dict(self._given)
        for workflow in DEFINED:
            other = known.setdefault(workflow.code, workflow)
            if other.place != workflow.place:
                raise _two_of_one_name(other, workflow)
        return known

    def _names_for_people(self) -> str:
        names = sorted({workflow.name for workflow in self._known().values()})
        return f"Known are: {', '.join(names)}." if names else "None is defined: is the module that has them imported?"


def _two_of_one_name(first: Workflow, second: Workflow) -> InvalidDefinition:
    return InvalidDefinition(
        f"Two workflows are called {first.code}: {first.place} and {second.place}. "
        f"Give one of them another name (name=...) or version."
    )
