"""The executors of one app: those it was given, those of installed packages, every step, and the built-in ones."""

from __future__ import annotations

import difflib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any

from stepfast.kernel.errors import ExecutorNotFound, InvalidDefinition
from stepfast.kernel.retry import Retry
from stepfast.kernel.texts import check_list, shown
from stepfast.workflows.executors import plugins
from stepfast.workflows.executors.domains import Domain
from stepfast.workflows.executors.executor import Executor, executor_of_step, two_of_one_name
from stepfast.workflows.executors.health import HealthCheck
from stepfast.workflows.executors.plugins import Loaded, Problem
from stepfast.workflows.registry import DEFINED_STEPS
from stepfast.workflows.steps import AsyncStep, StepAlone, SyncStep

Executors = list[Executor]


class Registering(ABC):
    """Whatever executors are registered with: an app's registry, or the stage of a plugin."""

    def register(
        self,
        thing: object,
        name: str | None = None,
        description: str | None = None,
        *,
        health: HealthCheck | None = None,
    ) -> Executor:
        """Make a function, a step, a class with `execute` (made without arguments) or an instance an executor."""
        known = self._registered(name) if name else None
        if known is not None and known.is_of(source_of(thing)):
            # A class is made once, however often it is registered.
            return known
        return self.add(Executor.of(thing, name, description, health))

    def domain(self, name: str, *, retry: Retry | None = None) -> Domain:
        """A domain whose executors are registered here."""
        return Domain(name, retry=retry, home=self)

    @abstractmethod
    def add(self, executor: Executor) -> Executor:
        """Make an executor known; of two with one name the second is refused, unless both are the very same thing."""

    @abstractmethod
    def _registered(self, name: str) -> Executor | None:
        """What is registered under a name already."""


class ExecutorRegistry(Registering):
    """What steps can call by name in one app.

    Every step that is defined in the process is known, and what plugins bring is known once it is asked for; unless
    executors were given, which are then all there is beside the built-in ones.
    """

    def __init__(
        self, given: Iterable[object] | None = None, builtins: Callable[[], Iterable[Executor]] = tuple
    ) -> None:
        self._is_closed = given is not None
        self._make_builtins = builtins
        self._given: dict[str, Executor] = {}
        self._hidden: set[str] = set()
        self._changes = 0
        self._lock = threading.RLock()
        self._loading = threading.Lock()
        self._is_loaded = False
        self._problems: list[Problem] = []
        self.changed: Callable[[], None] = lambda: None
        for thing in () if given is None else check_list("executors", given, "executors, domains or steps"):
            for executor in _executors_of(thing):
                self.add(executor)

    @cached_property
    def _builtins(self) -> dict[str, Executor]:
        return {executor.name: executor for executor in self._make_builtins()}

    def _registered(self, name: str) -> Executor | None:
        return self._given.get(name)

    def add(self, executor: Executor) -> Executor:
        """Make an executor known; of two with one name the second is refused, unless both are the very same thing."""
        with self._lock:
            known = self._own(executor.name)
            if known is not None and not known.is_of(executor.source):
                raise two_of_one_name(known, executor)
            if executor.name in self._given and executor.name not in self._hidden:
                return self._given[executor.name]
            self._given[executor.name] = executor
            self._hidden.discard(executor.name)
            self._note_change()
        return executor

    def unregister(self, name: str) -> None:
        """Forget an executor; open runs that need it wait for a worker that has it."""
        # Before the lock is taken: plugins may be looked through, and register something meanwhile.
        self.get(name)
        with self._lock:
            self._given.pop(name, None)
            # Also a step, which is known without being registered, and what a plugin brings.
            self._hidden.add(name)
            self._note_change()

    def get(self, name: str) -> Executor:
        """The executor of that name; plugins are looked through when nobody else has it."""
        found = self.find(name)
        if found is None:
            raise ExecutorNotFound(f"No executor is named {shown(name)} here. {self._names_for_people(name)}")
        return found

    def find(self, name: str) -> Executor | None:
        """The same; None where there is none."""
        found = self._own(name)
        if found is None and name not in self._hidden:
            self.load()
            found = self._own(name)
        return found

    def list(self, domain: str | None = None) -> Executors:
        """Every executor, by name; those of a domain, and of the domains in it, if one is named."""
        self.load()
        known = {**self._builtins, **self._given}
        defined = () if self._is_closed else DEFINED_STEPS
        steps = [executor_of_step(step) for step in defined if step.name not in known]
        every = [each for each in (*known.values(), *steps) if each.name not in self._hidden]
        wanted = [each for each in every if domain is None or each.name.startswith(f"{domain}.")]
        return sorted(wanted, key=lambda each: (each.name, each.origin))

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The plugins that could not be used, and why."""
        self.load()
        return tuple(self._problems)

    def load(self) -> None:
        """Import the plugins and take over what they bring; done once."""
        # A plugin may ask for executors itself; it must not wait for its own end.
        if self._is_loaded or self._is_closed or plugins.is_loading():
            return
        with self._loading:
            self._load_once()

    def _load_once(self) -> None:
        if self._is_loaded:
            return
        for loaded in plugins.load(plugins.EXECUTORS, self._problems):
            self._take_over(loaded)
        self._is_loaded = True

    def _take_over(self, loaded: Loaded) -> None:
        """All that a plugin brings, or nothing of it."""
        stage = Stage(self, loaded.plugin.origin)
        brought = plugins.contained(loaded.plugin, self._problems, partial(stage.taken, loaded.thing))
        try:
            for executor in brought or ():
                self.add(executor)
        except InvalidDefinition as error:
            # Somebody has registered one of that name since the plugin was asked.
            self._problems.append(plugins.problem_of(loaded.plugin, error))

    def _own(self, name: str) -> Executor | None:
        """What is known under a name without a look at plugins; two steps of one name are refused."""
        if name in self._hidden:
            return None
        known = self._given.get(name) or self._builtins.get(name)
        if known is not None or self._is_closed:
            return known
        step = DEFINED_STEPS.only(name)
        return None if step is None else executor_of_step(step)

    def _note_change(self) -> None:
        self._changes += 1
        self.changed()

    def _names_for_people(self, wanted: str) -> str:
        names = sorted({executor.name for executor in self.list()})
        nearest = difflib.get_close_matches(str(wanted), names, 1)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        return f"{hint}List those there are with `stepfast executors list`."

    @property
    def changes(self) -> int:
        """How often what is known here has changed."""
        return self._changes + DEFINED_STEPS.changes

    def announced(self) -> Iterable[StepAlone]:
        """Those that a worker announces: each has a queue of its own, in which its calls are runs."""
        given = [executor.alone for executor in self._given.values() if executor.queue]
        steps = [] if self._is_closed else [step for step in DEFINED_STEPS if step.queue]
        return [step for step in (*given, *steps) if step.name not in self._hidden]

    def alone(self, name: str) -> StepAlone | None:
        """An executor as what a worker executes for a run of its own."""
        known = self._own(name)
        return None if known is None else known.alone


class Stage(Registering):
    """Where a plugin's executors stand until it has brought all of them; it is what its `register` is called with."""

    def __init__(self, registry: ExecutorRegistry, origin: str) -> None:
        self._registry = registry
        self._origin = origin
        self.executors: dict[str, Executor] = {}

    def taken(self, thing: Any) -> Executors:
        """What an entry point brings: it is a function `register(executors)`, or what is to be registered."""
        if callable(thing) and not isinstance(thing, type | AsyncStep | SyncStep) and not hasattr(thing, "execute"):
            thing(self)
        else:
            for executor in _executors_of(thing):
                self.add(executor)
        return [*self.executors.values()]

    def _registered(self, name: str) -> Executor | None:
        return self.executors.get(name)

    def add(self, executor: Executor) -> Executor:
        """Take an executor, if nobody else has its name."""
        known = self.executors.get(executor.name) or self._registry._own(executor.name)
        if known is not None and not known.is_of(executor.source):
            raise two_of_one_name(known, executor)
        self.executors[executor.name] = Executor.of(executor, origin=self._origin)
        return self.executors[executor.name]


def source_of(thing: object) -> object:
    """The very thing that an executor is made of."""
    if isinstance(thing, Executor):
        return thing.source
    return thing.body.function if isinstance(thing, AsyncStep | SyncStep) else thing


def _executors_of(thing: object) -> list[Executor]:
    if isinstance(thing, Domain):
        if not (executors := thing.list()):
            raise InvalidDefinition(f"Domain {thing.name} has no executors. Add some before it is registered.")
        return executors
    return [Executor.of(thing)]
