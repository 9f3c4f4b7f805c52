"""Values of templates: any JSON, with expressions in its texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stepfast.kernel.errors import EvaluationFailed
from stepfast.workflows.expressions.budget import new_meter
from stepfast.workflows.expressions.conversions import as_json
from stepfast.workflows.expressions.expression import Expression, compile_expression
from stepfast.workflows.expressions.functions import DISPATCHERS, FUNCTIONS
from stepfast.workflows.expressions.interpolation import pieces
from stepfast.workflows.expressions.kinds import kind_name
from stepfast.workflows.expressions.problems import Exhausted, ExpressionProblem, Failed
from stepfast.workflows.expressions.references import Reference
from stepfast.workflows.expressions.schemas import type_of_value
from stepfast.workflows.expressions.types import (
    DYN,
    INT,
    STRING,
    ListType,
    MapType,
    RecordType,
    SimpleType,
    Type,
    UnionType,
    accepts,
    join,
)

_MAX_DEPTH = 100
_JSON_SCALARS = (str, int, float, bool, type(None))
_TEXT = UnionType(tuple(overload.parameters[0] for overload in FUNCTIONS["string"].overloads))


@dataclass(frozen=True)
class BindingProblem:
    """A fault in an expression of a value: where in the value (a JSON pointer), and where in the text there."""

    pointer: str
    message: str
    start: int
    end: int
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.pointer or '/'}: {self.message}{f' ({self.hint})' if self.hint else ''}"


class InvalidBinding(Exception):
    """A value whose expressions have faults; all of them are in `problems`."""

    def __init__(self, problems: tuple[BindingProblem, ...]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def compile_value(value: Any) -> Binding:
    """A JSON value with its expressions compiled; raises `InvalidBinding` with all that is wrong."""
    compiler = _Compiler()
    node = compiler.compile(value, "", 0)
    if compiler.problems:
        raise InvalidBinding(tuple(compiler.problems))
    return Binding(node)


class Binding:
    """What `compile_value` makes; it never changes, and any number of threads may evaluate it."""

    def __init__(self, node: _Node) -> None:
        self._node = node
        expressions = [expression for leaf in node.leaves() for expression in leaf.expressions]
        found = (reference for expression in expressions for reference in expression.references)
        self.references: tuple[Reference, ...] = tuple(dict.fromkeys(found))
        self.is_constant = not expressions

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        """The JSON value in a scope; what an expression takes from the scope as it is stays the scope's own."""
        return self._node.evaluate(scope)

    def check(self, types: Mapping[str, Type]) -> tuple[Type, list[BindingProblem]]:
        """The type of the value in a scope of such types, and all that is wrong with its expressions there."""
        problems: list[BindingProblem] = []
        return self._node.check(types, problems), problems


class _Node:
    """A part of a value."""

    def leaves(self) -> Iterator[_Leaf]:
        return iter(())

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        raise AssertionError(self)

    def check(self, types: Mapping[str, Type], problems: list[BindingProblem]) -> Type:
        raise AssertionError(self)


@dataclass(frozen=True)
class _Constant(_Node):
    """A part without expressions."""

    value: Any

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        return self.value

    def check(self, types: Mapping[str, Type], problems: list[BindingProblem]) -> Type:
        return type_of_value(self.value)


@dataclass(frozen=True)
class _List(_Node):
    """Made anew at each evaluation, also where nothing in it changes: whoever gets it may change it."""

    items: list[_Node]

    def leaves(self) -> Iterator[_Leaf]:
        for item in self.items:
            yield from item.leaves()

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        return [item.evaluate(scope) for item in self.items]

    def check(self, types: Mapping[str, Type], problems: list[BindingProblem]) -> Type:
        return ListType(join([item.check(types, problems) for item in self.items]))


@dataclass(frozen=True)
class _Map(_Node):
    """The same for a map; its keys are no expressions."""

    entries: dict[str, _Node]

    def leaves(self) -> Iterator[_Leaf]:
        for item in self.entries.values():
            yield from item.leaves()

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        return {key: item.evaluate(scope) for key, item in self.entries.items()}

    def check(self, types: Mapping[str, Type], problems: list[BindingProblem]) -> Type:
        fields = {key: item.check(types, problems) for key, item in self.entries.items()}
        return RecordType(fields, frozenset(fields))


@dataclass(frozen=True)
class _Leaf(_Node):
    """A text with expressions."""

    pointer: str
    expressions: list[Expression]

    def leaves(self) -> Iterator[_Leaf]:
        yield self

    def placed(self, failure: EvaluationFailed) -> EvaluationFailed:
        return EvaluationFailed(f"{self.pointer}: {failure}") if self.pointer else failure

    def run(self, expression: Expression, scope: Mapping[str, Any], convert: Callable[[Any], Any]) -> Any:
        try:
            value = expression.evaluate(scope)
            return convert(value)
        except EvaluationFailed as failure:
            raise self.placed(failure) from None
        except (Failed, Exhausted, RecursionError) as failure:
            reason = "the value is nested too deeply" if isinstance(failure, RecursionError) else str(failure)
            raise self.placed(expression.failed(reason)) from None

    def examine(self, expression: Expression, types: Mapping[str, Type], problems: list[BindingProblem]) -> Type:
        found, faults = expression.check(types)
        problems.extend(_placed(self.pointer, fault) for fault in faults)
        return found


@dataclass(frozen=True)
class _Whole(_Leaf):
    """A text that is one expression, and keeps the type of its value."""

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        (expression,) = self.expressions
        return self.run(expression, scope, _same if expression.is_path else _json)

    def check(self, types: Mapping[str, Type], problems: list[BindingProblem]) -> Type:
        return _json_type(self.examine(self.expressions[0], types, problems))


@dataclass(frozen=True)
class _Text(_Leaf):
    """A text around expressions."""

    parts: list[str | Expression]
    spans: list[tuple[int, int]]

    def evaluate(self, scope: Mapping[str, Any]) -> Any:
        return "".join([part if isinstance(part, str) else self.run(part, scope, _text) for part in self.parts])

    def check(self, types: Mapping[str, Type], problems: list[BindingProblem]) -> Type:
        for expression, (start, end) in zip(self.expressions, self.spans, strict=True):
            found = self.examine(expression, types, problems)
            if not accepts(_TEXT, found, {}):
                problems.append(BindingProblem(self.pointer, _no_text(str(found)), start, end, _ALONE))
        return STRING


_ALONE = 'it keeps its type where "${ ... }" is the whole text'


def _no_text(kind: str) -> str:
    return f"a value of kind {kind} cannot be put into a text"


def _same(value: Any) -> Any:
    # Deep inside, what a scope holds is JSON already; at the top there may be one of our own kinds.
    return value if isinstance(value, list | dict) else _json(value)


def _json(value: Any) -> Any:
    return as_json(new_meter(), value)


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if value is None or isinstance(value, list | tuple | Mapping):
        raise Failed(f"{_no_text(kind_name(value))}; {_ALONE}")
    return str(DISPATCHERS["string"](new_meter(), value))


def _json_type(given: Type) -> Type:
    """What becomes of a type when its values become JSON."""
    match given:
        case ListType():
            return ListType(_json_type(given.item))
        case MapType():
            return MapType(_json_type(given.value))
        case RecordType():
            fields = {name: _json_type(each) for name, each in given.fields.items()}
            return RecordType(fields, given.required, given.open)
        case UnionType():
            return join(map(_json_type, given.members))
        case SimpleType(name):
            return _OTHER_IN_JSON.get(name, given)
        case _:
            return DYN


_OTHER_IN_JSON: dict[str, Type] = {"timestamp": STRING, "duration": STRING, "bytes": STRING, "uint": INT, "type": DYN}


def _placed(pointer: str, problem: ExpressionProblem) -> BindingProblem:
    return BindingProblem(pointer, problem.message, problem.start, problem.end, problem.hint)


class _Compiler:
    """Walks a value and collects what is wrong with it."""

    def __init__(self) -> None:
        self.problems: list[BindingProblem] = []

    def compile(self, value: Any, pointer: str, depth: int) -> _Node:
        if depth > _MAX_DEPTH:
            return self.refuse(pointer, f"the value has more than {_MAX_DEPTH} levels of lists and maps")
        if isinstance(value, str):
            return self.text(value, pointer)
        if isinstance(value, list | tuple):
            return _List([self.compile(item, f"{pointer}/{at}", depth + 1) for at, item in enumerate(value)])
        if isinstance(value, Mapping):
            return self.map(value, pointer, depth)
        if isinstance(value, _JSON_SCALARS):
            return _Constant(value)
        return self.refuse(pointer, f"a value of the class {type(value).__name__} is not JSON")

    def map(self, value: Mapping[Any, Any], pointer: str, depth: int) -> _Node:
        entries: dict[str, _Node] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                self.refuse(pointer, "a key is no text")
                continue
            place = key.replace("~", "~0").replace("/", "~1")
            entries[key] = self.compile(item, f"{pointer}/{place}", depth + 1)
        return _Map(entries)

    def text(self, text: str, pointer: str) -> _Node:
        parts: list[str | Expression] = []
        spans: list[tuple[int, int]] = []
        for piece in pieces(text):
            if piece.problem is not None:
                self.problems.append(_placed(pointer, piece.problem))
            elif piece.is_expression:
                spans.append((piece.start, piece.start + len(piece.text)))
                parts.extend(self.expression(piece.text, piece.start, pointer))
            else:
                parts.append(piece.text)
        expressions = [part for part in parts if isinstance(part, Expression)]
        if not expressions:
            return _Constant("".join(map(str, parts)))
        if len(parts) == 1:
            return _Whole(pointer, expressions)
        return _Text(pointer, expressions, parts, spans)

    def expression(self, text: str, start: int, pointer: str) -> Iterator[Expression]:
        try:
            yield compile_expression(text, start)
        except ExpressionProblem as problem:
            self.problems.append(_placed(pointer, problem))

    def refuse(self, pointer: str, message: str) -> _Node:
        self.problems.append(BindingProblem(pointer, message, 0, 0))
        return _Constant(None)
