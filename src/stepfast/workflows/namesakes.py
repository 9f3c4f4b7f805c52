"""Two steps of one name: a run finds records by the name, and would take those of one for those of the other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from stepfast.kernel.errors import InvalidDefinition
from stepfast.workflows.bodies import StepBody
from stepfast.workflows.class_names import SCRIPT


def refuse_namesake(known: StepBody, other: StepBody) -> None:
    """Refuse a step that has the name of another; one that was defined again is still the same."""
    if not _are_same(known.function, other.function):
        raise InvalidDefinition(
            f"Two steps are called {other.name!r}: {_place(known.function)} and {_place(other.function)}. A run would "
            f"take the records of one for those of the other: give one of them another name, @step(name=...)."
        )


def _are_same(one: Callable[..., Any], other: Callable[..., Any]) -> bool:
    if one.__qualname__ != other.__qualname__:
        return False
    modules = {one.__module__, other.__module__}
    # A script that is imported by its name too is loaded twice, under two names.
    return len(modules) == 1 or (SCRIPT in modules and _file(one) == _file(other))


def _file(function: Callable[..., Any]) -> str | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return None if code is None else str(code.co_filename)


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
