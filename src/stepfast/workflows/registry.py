"""What a process can execute, by name and version."""

from __future__ import annotations

import difflib
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from stepfast.kernel.errors import Invalid, InvalidDefinition
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import shown
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec

if TYPE_CHECKING:
    from stepfast.workflows.functions import Workflow
    from stepfast.workflows.steps import StepAlone


class Executable(Protocol):
    """What a worker executes for a run: a workflow, or a step on its own."""

    name: str
    version: int
    queue: str
    is_async: bool
    timeout_ms: int | None
    retry: Retry | None
    arguments: ArgumentsCodec
    result: ValueCodec

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def code(self) -> str: ...

    @property
    def place(self) -> str: ...


T = TypeVar("T", bound=Executable)


class Defined(Generic[T]):
    """Every definition that was made in this process and still exists."""

    def __init__(self) -> None:
        self._by_code: defaultdict[str, weakref.WeakValueDictionary[str, T]]
        self._by_code = defaultdict(weakref.WeakValueDictionary)
        self.changes = 0

    def add(self, definition: T) -> None:
        """Take note of a definition; one from the same place replaces the earlier, as a reload does."""
        self._by_code[definition.code][definition.place] = definition
        self.changes += 1

    def only(self, code: str) -> T | None:
        """The one definition of that code, if there is one; two are refused."""
        found = list(self._by_code[code].values()) if code in self._by_code else []
        if len(found) > 1:
            raise _two_of_one_name(*found[:2])
        return found[0] if found else None

    def __iter__(self) -> Iterator[T]:
        return iter([definition for places in self._by_code.values() for definition in places.values()])


DEFINED: Defined[Workflow] = Defined()
DEFINED_STEPS: Defined[StepAlone] = Defined()


class Registry:
    """The workflows of one app: the ones it was given, or else every one defined in the process.

    Steps are known to every app: they are called by workflows, not listed with them. Those with a queue of their own
    are announced by its workers; any other is executed on its own only for a workflow that has spread it out.
    """

    def __init__(self, workflows: Iterable[Workflow] | None) -> None:
        self._all_defined = workflows is None
        self._given: dict[str, Executable] = {}
        self._known_at: tuple[int, ...] = ()
        self._known_then: dict[str, Executable] = {}
        for workflow in workflows or ():
            self.add(workflow)

    def add(self, workflow: Workflow) -> None:
        """Make a workflow known to the app."""
        other = self._given.setdefault(workflow.code, workflow)
        if other is workflow:
            return
        if other.place != workflow.place:
            raise _two_of_one_name(other, workflow)
        self._given[workflow.code] = workflow
        self._known_at = ()

    def by_code(self, code: str) -> Executable | None:
        """The workflow of that name and version, or the step of that name, if this app has it."""
        return self._known().get(code) or DEFINED_STEPS.only(code)

    def newest(self, name: str) -> Workflow:
        """The highest version of a workflow."""
        versions = [workflow for workflow in self.workflows() if workflow.name == name]
        if not versions:
            raise Invalid(f"No workflow is named {shown(name)} here. {self._names_for_people(name)}")
        return max(versions, key=lambda workflow: workflow.version)

    def codes(self) -> list[str]:
        """What a worker of this app can execute."""
        return sorted(self._known())

    def queues(self) -> list[str]:
        """The queues that its workflows and steps name."""
        return sorted({definition.queue for definition in self._known().values()})

    def workflows(self) -> list[Workflow]:
        """Every workflow that it knows, without the steps."""
        from stepfast.workflows.functions import Workflow

        return [known for known in self._known().values() if isinstance(known, Workflow)]

    def _known(self) -> dict[str, Executable]:
        # Asked for every run, and changed only when something is defined.
        state = (DEFINED.changes, DEFINED_STEPS.changes, len(self._given))
        if state != self._known_at:
            self._known_then = self._gather()
            self._known_at = state
        return self._known_then

    def _gather(self) -> dict[str, Executable]:
        known = dict(self._given)
        announced = [step for step in DEFINED_STEPS if step.queue]
        defined: list[Executable] = [*(DEFINED if self._all_defined else ()), *announced]
        for definition in defined:
            other = known.setdefault(definition.code, definition)
            if other.place != definition.place:
                raise _two_of_one_name(other, definition)
        return known

    def _names_for_people(self, wanted: str) -> str:
        names = sorted({workflow.name for workflow in self.workflows()})
        if not names:
            return "None is defined: is the module that has them imported?"
        nearest = difflib.get_close_matches(wanted, names, 1)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        return f"{hint}Known are: {', '.join(names)}."


def _two_of_one_name(first: Executable, second: Executable) -> InvalidDefinition:
    return InvalidDefinition(
        f"Two definitions are called {first.code}: {first.place} and {second.place}. "
        f"Give one of them another name (name=...) or version."
    )
