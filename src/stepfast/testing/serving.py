"""Which workflows the engine of a test has: those that were asked for, or all that no other test has made."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast

from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import guarded
from stepfast.workflows.functions import AnyWorkflow, AsyncWorkflow, SyncWorkflow, Workflow
from stepfast.workflows.graphs.graph import Graph
from stepfast.workflows.registry import DEFINED, DEFINED_STEPS, Executable
from stepfast.workflows.templates.loading import Template

One = AnyWorkflow | Template | ModuleType
Served = One | Iterable[One] | None

STARTABLE = (AsyncWorkflow, SyncWorkflow, Workflow, Graph, Template)


def served(given: Served) -> list[Any] | None:
    """Workflows by themselves, for those that are named and for modules that have some; None stands for all."""
    if given is None:
        return None
    several = cast(Iterable[One], given if isinstance(given, Iterable) else [given])
    return [each for one in several for each in (_found_in(one) if isinstance(one, ModuleType) else [one])]


def _found_in(module: ModuleType) -> list[Any]:
    found = [value for value in vars(module).values() if isinstance(value, STARTABLE)]
    if not found:
        raise Invalid(f"Module {module.__name__!r} has no workflows. Name the module that defines them.")
    return found


@contextmanager
def without_other_tests(item: Any, tests: dict[str, set[str]]) -> Iterator[None]:
    """Leave out, while a test runs, what other tests of the process have defined; `tests` has all by their modules."""
    module = getattr(item, "module", None)
    if module is None:
        yield
        return
    modules = tests.keys() - {module.__name__} - _modules_named_in(module)
    own = f"{item.function.__module__}.{item.function.__qualname__}"
    places = set().union(*tests.values()) - {own}

    def is_of_another(definition: Executable) -> bool:
        around, _, _ = definition.place.partition(".<locals>.")
        return around in places or _module_of(definition.place) in modules

    with DEFINED.without(is_of_another), DEFINED_STEPS.without(is_of_another):
        yield


def _modules_named_in(module: ModuleType) -> set[str]:
    """The modules of all that a module has imported, which thereby belongs to it too."""
    named = [guarded(lambda value: getattr(value, "__module__", None), value) for value in vars(module).values()]
    modules = [value.__name__ for value in vars(module).values() if isinstance(value, ModuleType)]
    return {name for name in (*named, *modules) if isinstance(name, str)}


def _module_of(place: str) -> str:
    """The module of a place such as `package.module.function`, or `package.module: graph name`."""
    parts = place.partition(":")[0].split(".")
    names = [*itertools.accumulate(parts, "{}.{}".format)]
    return next((name for name in reversed(names) if name in sys.modules), "")
