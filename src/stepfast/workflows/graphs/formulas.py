"""What people bind a step's inputs and conditions to, as formulas of a plan."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from stepfast.kernel.errors import Invalid
from stepfast.workflows.graphs.drafts import GraphStep
from stepfast.workflows.graphs.hints import NoSuchPart, part_of, restored
from stepfast.workflows.graphs.values import Key, Value, path_of, root_of, step_of, told
from stepfast.workflows.plans.describing import told as told_formula
from stepfast.workflows.plans.plan import Constant, Formula, Reference, Scope
from stepfast.workflows.steps import AsyncStep, SyncStep

INPUT = "input"

# What a lambda can ask for beside the ids of steps, and where the scope has it.
NAMES: Mapping[str, str] = {
    INPUT: "inputs",
    "item": "item",
    "output": "output",
    "round": "round",
    "error": "error",
    "run": "run",
    "tenant": "tenant",
    "assets": "assets",
    "writes": "writes",
}


class Surroundings(Protocol):
    """What must be known of a graph, and of the step at hand, to read a binding."""

    @property
    def may_be_missing(self) -> bool:
        """Whether the outputs of steps that have none are read as None."""
        ...

    def hint_of(self, name: str) -> Any:
        """The hint of `input`, `item` or `output`."""
        ...

    def output_hint(self, step_id: str) -> Any:
        """The hint of a step's output."""
        ...

    def step_named(self, parameter: str) -> str | None:
        """The id of the step that a parameter means."""
        ...

    def check_own(self, value: Value[Any]) -> None:
        """Take note when a value is of a step that cannot be read here."""
        ...

    def refuse(self, message: str, hint: str = "") -> None:
        """Take note of something that cannot be."""
        ...


@dataclass(frozen=True, slots=True)
class Reading:
    """A value of the scope, or a part of one."""

    root: Reference
    path: tuple[Key, ...]
    hint: Any
    """Of what the root leads to."""
    shown: str
    may_be_missing: bool = False

    @property
    def references(self) -> tuple[Reference, ...]:
        return ((*self.root, *map(str, self.path)),)

    def described(self) -> Any:
        return f"${{ {self.shown} }}"

    def evaluate(self, scope: Scope) -> Any:
        if self.may_be_missing and self.root[0] == "steps" and self.root[2] not in scope["steps"].get(self.root[1], ()):
            return None
        value = restored(followed(scope, self.root, self.shown), self.hint)
        return followed(value, self.path, self.shown)


@dataclass(frozen=True, slots=True)
class Calling:
    """What a function of Python's makes of some values."""

    function: Callable[..., Any]
    parts: tuple[tuple[str, Formula], ...]
    """What it is given, by the names of its parameters."""

    @property
    def references(self) -> tuple[Reference, ...]:
        return references_of(part for _, part in self.parts)

    def described(self) -> Any:
        name = getattr(self.function, "__name__", "")
        given = ", ".join(parameter for parameter, _ in self.parts)
        return f"${{ {'' if name == '<lambda>' else name}({given}) }}"

    def evaluate(self, scope: Scope) -> Any:
        return self.function(*(part.evaluate(scope) for _, part in self.parts))


@dataclass(frozen=True, slots=True)
class Collected:
    """A dict or list in which some values are known only in a run."""

    parts: Mapping[str, Formula] | tuple[Formula, ...]

    @property
    def references(self) -> tuple[Reference, ...]:
        return references_of(self.parts.values() if isinstance(self.parts, Mapping) else self.parts)

    def described(self) -> Any:
        if isinstance(self.parts, Mapping):
            return {name: told_formula(part) for name, part in self.parts.items()}
        return [told_formula(part) for part in self.parts]

    def evaluate(self, scope: Scope) -> Any:
        if isinstance(self.parts, Mapping):
            return {name: part.evaluate(scope) for name, part in self.parts.items()}
        return [part.evaluate(scope) for part in self.parts]


@dataclass(frozen=True, slots=True)
class StageInputs:
    """The durable input of a stage: the run's, the outputs that it declares as far as they are there, and its item."""

    input: Reading
    reads: tuple[Reading, ...]
    needs: tuple[Reading, ...]
    item: Reading | None

    @property
    def references(self) -> tuple[Reference, ...]:
        # Of those that it merely needs it can do without the output: to read them so would skip it with them.
        ends = tuple((*reading.root[:2], "state") for reading in self.needs)
        parts = (self.input, *self.reads, *(() if self.item is None else (self.item,)))
        return (*references_of(parts), *ends)

    def described(self) -> Any:
        return [
            each.described() for each in (self.input, *self.reads, *self.needs, *([self.item] if self.item else ()))
        ]

    def evaluate(self, scope: Scope) -> Any:
        steps = scope["steps"]
        there = [each for each in (*self.reads, *self.needs) if "output" in steps.get(each.root[1], ())]
        named: dict[str, Any] = {"input": self.input.evaluate(scope)}
        if self.reads or self.needs:
            named["outputs"] = {each.root[1]: each.evaluate(scope) for each in there}
        return named if self.item is None else {**named, "item": self.item.evaluate(scope)}


def formula_of(binding: Any, around: Surroundings) -> Formula:
    """The formula of what a step's input, condition or text is bound to."""
    if isinstance(binding, Value):
        return reading_of(binding, around)
    if isinstance(binding, GraphStep | AsyncStep | SyncStep):
        return _refused_step(binding, around)
    if is_function(binding):
        return calling_of(binding, around)
    if isinstance(binding, Mapping) and has_unknown(binding):
        return Collected({name: formula_of(part, around) for name, part in binding.items()})
    if isinstance(binding, list | tuple) and has_unknown(binding):
        return Collected(tuple(formula_of(part, around) for part in binding))
    return Constant(binding)


def optional_formula(binding: Any, around: Surroundings) -> Formula | None:
    """The same of what may be left out."""
    return None if binding is None else formula_of(binding, around)


def _refused_step(step: Any, around: Surroundings) -> Formula:
    if isinstance(step, GraphStep):
        around.refuse(f"step {step.id!r} itself is given where a value is wanted", f"Give {step.id}.output.")
    else:
        name = step.body.name
        hint = f"Make it a step of the graph with graph.use({name}, ...), and give the output of that."
        around.refuse(f"the function {name!r} is given where a value is wanted", hint)
    return Constant(None)


def is_function(binding: Any) -> bool:
    """Whether a binding is a function to be called in the run."""
    return inspect.isfunction(binding) or inspect.ismethod(binding) or isinstance(binding, functools.partial)


def has_unknown(binding: Any) -> bool:
    """Whether there is something in it that only a run knows."""
    if isinstance(binding, Mapping):
        return any(has_unknown(part) for part in binding.values())
    if isinstance(binding, list | tuple):
        return any(has_unknown(part) for part in binding)
    return isinstance(binding, Value | GraphStep | AsyncStep | SyncStep) or is_function(binding)


def reading_of(value: Value[Any], around: Surroundings) -> Formula:
    """The formula that reads a handle."""
    step, asked = step_of(value), root_of(value)
    around.check_own(value)
    if step is None:
        root: Reference = (NAMES[asked],)
        hint = around.hint_of(asked)
    else:
        root = ("steps", step.id, asked)
        hint = step.hint() if asked == "output" else Any
    _check_path(value, hint, around)
    return Reading(root, path_of(value), hint, told(value), around.may_be_missing)


def _check_path(value: Value[Any], hint: Any, around: Surroundings) -> None:
    for key in path_of(value):
        try:
            hint = part_of(hint, key)
        except NoSuchPart as error:
            known = ", ".join(error.names) or "none"
            around.refuse(f"{told(value)} does not exist: there is no field {key!r}", f"The fields are: {known}.")
            return


def calling_of(function: Callable[..., Any], around: Surroundings) -> Formula:
    """The formula that calls a function with what its parameters are named for."""
    parts = tuple(
        (parameter.name, _named(parameter.name, around))
        for parameter in inspect.signature(function).parameters.values()
        if is_plain(parameter, around)
    )
    return Calling(function, parts)


def is_plain(parameter: inspect.Parameter, around: Surroundings) -> bool:
    """Whether a parameter can be given a value by its name; `*rest` and `*, named` cannot."""
    if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
        return True
    around.refuse(f"a function in a graph has a parameter {parameter}", "Name each value that it reads, plainly.")
    return False


def _named(name: str, around: Surroundings) -> Formula:
    if name in NAMES:
        return Reading((NAMES[name],), (), around.hint_of(name), name)
    step_id = around.step_named(name)
    if step_id is None:
        return Constant(None)
    hint, shown = around.output_hint(step_id), f"{step_id}.output"
    return Reading(("steps", step_id, "output"), (), hint, shown, around.may_be_missing)


def references_of(formulas: Any) -> tuple[Reference, ...]:
    """All that several formulas read, once each."""
    return tuple(dict.fromkeys(_references(formulas)))


def _references(formulas: Any) -> Iterator[Reference]:
    for formula in formulas:
        yield from formula.references


def followed(value: Any, path: tuple[Key, ...], shown: str) -> Any:
    """The part of a value that a path leads to."""
    for key in path:
        try:
            is_field = isinstance(key, str) and not isinstance(value, Mapping)
            value = getattr(value, str(key)) if is_field else value[key]
        except (AttributeError, LookupError, TypeError) as error:
            raise Invalid(f"{shown} cannot be read: there is no {key!r} in what the run has there.") from error
    return value
