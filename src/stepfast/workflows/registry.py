"""What a process can execute, by name and version."""

from __future__ import annotations

import difflib
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from stepfast.kernel.errors import InvalidDefinition, WorkflowNotFound
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import shown
from stepfast.workflows.codec import ArgumentsCodec, ValueCodec
from stepfast.workflows.namesakes import refuse_namesake

if TYPE_CHECKING:
    from stepfast.workflows.bodies import StepBody
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
        self._is_hidden: Callable[[T], bool] | None = None
        self.changes = 0

    def add(self, definition: T) -> None:
        """Take note of a definition; one from the same place replaces the earlier, as a reload does."""
        self._by_code[definition.code][definition.place] = definition
        self.changes += 1

    def only(self, code: str) -> T | None:
        """The one definition of that code, if there is one; two are refused."""
        found = self._shown(self._by_code[code]) if code in self._by_code else []
        if len(found) > 1:
            raise _two_of_one_name(*found[:2])
        return found[0] if found else None

    def __iter__(self) -> Iterator[T]:
        return iter([definition for places in self._by_code.values() for definition in self._shown(places)])

    @contextmanager
    def without(self, is_hidden: Callable[[T], bool]) -> Iterator[None]:
        """Leave some out for a while, as if they were not there."""
        before, self._is_hidden = self._is_hidden, is_hidden
        self.changes += 1
        try:
            yield
        finally:
            self._is_hidden = before
            self.changes += 1

    def _shown(self, places: Mapping[str, T]) -> list[T]:
        is_hidden = self._is_hidden
        return [each for each in places.values() if is_hidden is None or not is_hidden(each)]


# A worker says of so many definitions why it cannot execute them, and so much.
MAX_LACKS = 100
MAX_PROBLEM = 300

DEFINED: Defined[Workflow] = Defined()
DEFINED_STEPS: Defined[StepAlone] = Defined()


class Steps(Protocol):
    """The steps of one app that can be runs of their own."""

    @property
    def changes(self) -> int:
        """A number that rises whenever what is known has changed."""
        ...

    def announced(self) -> Iterable[Executable]:
        """Those that a worker announces."""
        ...

    def alone(self, name: str) -> Executable | None:
        """One of them by its name, announced or not."""
        ...

    def load(self) -> None:
        """Make known what is known only when somebody asks."""
        ...


class AllSteps:
    """Every step that is defined in the process; those with a queue of their own are announced."""

    @property
    def changes(self) -> int:
        return DEFINED_STEPS.changes

    def announced(self) -> Iterable[Executable]:
        return [step for step in DEFINED_STEPS if step.queue]

    def alone(self, name: str) -> Executable | None:
        return DEFINED_STEPS.only(name)

    def load(self) -> None: ...


class Registry:
    """The workflows of one app: the ones it was given, or else every one defined in the process.

    Steps are known to every app: they are called by workflows, not listed with them. Those with a queue of their own
    are announced by its workers, if they are among its executors; any other is executed on its own only for a workflow
    that has spread it out.
    """

    def __init__(self, workflows: Iterable[Workflow] | None, steps: Steps | None = None) -> None:
        self._steps: Steps = steps or AllSteps()
        self._all_defined = workflows is None
        self._given: dict[str, Executable] = {}
        self._seen: dict[str, tuple[str, StepBody]] = {}
        """The steps that the functions of workflows see, by name, each with the code of the first that does."""
        self._known_at: tuple[int, ...] = ()
        # An app keeps what is its own, and nothing that merely was in the process when it looked.
        self._known_then: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()
        self._known_count = 0
        self._learned: dict[tuple[str, str, int], Workflow] = {}
        self._learned_codes: set[str] = set()
        self._lacks: dict[str, str] = {}
        for workflow in workflows or ():
            self.add(workflow)

    def add(self, workflow: Workflow) -> None:
        """Make a workflow known to the app."""
        other = self._given.get(workflow.code)
        if other is workflow:
            return
        if other is None:
            if any(workflow is learned for learned in self._learned.values()):
                return
            self._refuse_other_content(workflow)
        elif other.place != workflow.place:
            raise _two_of_one_name(other, workflow)
        self._refuse_namesakes(workflow)
        self._given[workflow.code] = workflow
        self._known_at = ()

    def _refuse_namesakes(self, workflow: Workflow) -> None:
        """Refuse two steps of one name that the functions of the app's workflows see; others are found in runs."""
        code, others = workflow.code, self._seen
        found: dict[str, tuple[str, StepBody]] = {}
        if code in self._given:
            # It is defined again, and may see other steps now.
            others = {name: seen for name, seen in others.items() if seen[0] != code}
        for body in workflow.visible_steps():
            _, known = others.get(body.name) or found.setdefault(body.name, (code, body))
            refuse_namesake(known, body)
        self._seen = others
        self._seen.update(found)

    def _refuse_other_content(self, workflow: Workflow) -> None:
        for other in self._given.values():
            if (other.name, other.version) == (workflow.name, workflow.version):
                raise InvalidDefinition(
                    f"Workflow {workflow.name!r} has two contents under version {workflow.version}: {other.code} of "
                    f"{other.place} and {workflow.code} of {workflow.place}. Give the changed one version "
                    f"{workflow.version + 1}."
                )

    def learn(self, tenant: str, workflow: Workflow) -> None:
        """Make a workflow known that a tenant has registered: it is executed here, and started for that tenant."""
        self._learned[tenant, workflow.name, workflow.version] = workflow
        self._lacks.pop(workflow.code, None)

    def lack(self, code: str, problem: str) -> None:
        """Take note that a registered workflow cannot be executed here, and why."""
        if code in self._lacks or len(self._lacks) < MAX_LACKS:
            self._lacks[code] = problem[:MAX_PROBLEM]

    def lacks(self) -> dict[str, str]:
        """What was registered and cannot be executed here, by its code, and why."""
        return dict(self._lacks)

    @property
    def changes(self) -> tuple[int, ...]:
        """Another value whenever something was defined since, of which what is registered may be made."""
        return (DEFINED.changes, self._steps.changes, len(self._given), len(self._learned))

    def find(self, name: str, version: int | None = None, tenant: str | None = None) -> Workflow | None:
        """The workflow of a name, in a version or its newest: of the app's own, or else of those of a tenant."""
        own = [workflow for workflow in self.workflows() if workflow.name == name]
        learned = [each for (whose, known, _), each in self._learned.items() if (whose, known) == (tenant, name)]
        fits = [each for each in own or learned if version in (None, each.version)]
        return max(fits, key=lambda workflow: workflow.version, default=None)

    def by_code(self, code: str) -> Executable | None:
        """The workflow of that name and version, or the step of that name, if this app has it."""
        return self._known().get(code) or self._steps.alone(code) or DEFINED_STEPS.only(code)

    def load(self) -> None:
        """Make known what is known only when somebody asks: a worker is about to say what it can execute."""
        self._steps.load()

    def newest(self, name: str) -> Workflow:
        """The highest version of a workflow."""
        versions = [workflow for workflow in self.workflows() if workflow.name == name]
        if not versions:
            raise WorkflowNotFound(f"No workflow is named {shown(name)} here. {self._names_for_people(name)}")
        return max(versions, key=lambda workflow: workflow.version)

    def codes(self) -> list[str]:
        """What a worker of this app can execute."""
        return sorted(self._known())

    def queues(self) -> list[str]:
        """The queues that its workflows and steps name."""
        own = {definition.queue for definition in self._known().values() if definition.queue}
        return sorted(own.union(queue for _, queue in self._calls_elsewhere(self._known().values())))

    def workflows(self) -> list[Workflow]:
        """Every workflow of the app's own, without the steps, and without what tenants have registered."""
        from stepfast.workflows.functions import Workflow

        known = self._known().items()
        return [each for code, each in known if isinstance(each, Workflow) and code not in self._learned_codes]

    def _known(self) -> Mapping[str, Executable]:
        # Asked for every run, and changed only when something is defined, or is dropped by whoever had it.
        state = self.changes
        if state != self._known_at or len(self._known_then) < self._known_count:
            found = self._gather()
            self._known_then, self._known_count = weakref.WeakValueDictionary(found), len(found)
            self._known_at = state
        return self._known_then

    def _gather(self) -> dict[str, Executable]:
        known = dict(self._given)
        defined: list[Executable] = [*(DEFINED if self._all_defined else ()), *self._steps.announced()]
        for definition in defined:
            other = known.setdefault(definition.code, definition)
            if other.place != definition.place:
                raise _two_of_one_name(other, definition)
        learned = {workflow.code: workflow for workflow in self._learned.values()}
        self._learned_codes = learned.keys() - known.keys()
        known = {**learned, **known}
        wanted = {name: self._steps.alone(name) for name, _ in self._calls_elsewhere(list(known.values()))}
        return {name: step for name, step in wanted.items() if step is not None} | known

    def _calls_elsewhere(self, definitions: Iterable[Executable]) -> Iterator[tuple[str, str]]:
        """What workflows call as runs of their own, each by its name and the queue that those stand in."""
        for definition in definitions:
            yield from getattr(definition, "calls_elsewhere", ())

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
