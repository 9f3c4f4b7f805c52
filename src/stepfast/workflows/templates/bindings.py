"""Values with expressions, compiled; what is wrong with them is noted with its place in the template."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stepfast.workflows.expressions import Binding, BindingProblem, InvalidBinding, compile_value
from stepfast.workflows.plans.plan import Reference, Scope
from stepfast.workflows.templates.nodes import Document
from stepfast.workflows.templates.problems import Path, Problem


@dataclass(frozen=True, slots=True)
class Written:
    """A value of a template, compiled, and as it was written."""

    binding: Binding
    source: Any

    @property
    def references(self) -> tuple[Reference, ...]:
        """The paths that it reads."""
        return self.binding.references

    def evaluate(self, scope: Scope) -> Any:
        """The value in a run."""
        return self.binding.evaluate(scope)

    def described(self) -> Any:
        """The value for people who read the plan."""
        return self.source


def bind(document: Document, value: Any, path: Path, problems: list[Problem]) -> Binding:
    """The value compiled; where that cannot be, one that is nothing, and the reasons go to `problems`."""
    try:
        return compile_value(trimmed(value))
    except InvalidBinding as invalid:
        problems += placed(document, value, path, invalid.problems)
        # The rest of the value may have faults of another kind, which are to be told as well.
        faulty = {_parts(value, each.pointer) for each in invalid.problems}
        return compile_value(_without(value, (), faulty))


def trimmed(value: Any) -> Any:
    """A text that is one expression and ends with a line, as a block of YAML does, is that expression."""
    if isinstance(value, str) and value.startswith("${") and value != value.rstrip():
        return value.rstrip()
    return value


def placed(document: Document, value: Any, path: Path, found: Iterable[BindingProblem]) -> Iterable[Problem]:
    """Problems of a value as problems of the template that it stands in."""
    for each in found:
        place = (*path, *_parts(value, each.pointer))
        yield document.problem("expressions", place, each.message, each.hint, offset=each.start)


def _without(value: Any, path: Path, faulty: set[Path]) -> Any:
    if path in faulty:
        return None
    if isinstance(value, dict):
        return {name: _without(each, (*path, name), faulty) for name, each in value.items()}
    if isinstance(value, list):
        return [_without(each, (*path, number), faulty) for number, each in enumerate(value)]
    return value


def _parts(value: Any, pointer: str) -> Path:
    parts: list[str | int] = []
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        key: str | int = int(name) if isinstance(value, list) else name
        parts.append(key)
        value = value[key]
    return tuple(parts)
