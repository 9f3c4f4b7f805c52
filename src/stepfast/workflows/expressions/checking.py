"""Types of expressions: what can be known to be wrong before anything is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

from stepfast.workflows.expressions.functions import FUNCTIONS, OPERATORS
from stepfast.workflows.expressions.kinds import DENOTATIONS, UInt
from stepfast.workflows.expressions.problems import ExpressionProblem, did_you_mean
from stepfast.workflows.expressions.tree import (
    Binary,
    Call,
    Conditional,
    Has,
    Index,
    ListLiteral,
    Literal,
    Logical,
    Macro,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
    constant_text,
)
from stepfast.workflows.expressions.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    INT,
    NULL,
    NUMBER,
    STRING,
    TYPE,
    UINT,
    ListType,
    MapType,
    RecordType,
    Type,
    UnionType,
    accepts,
    alternatives,
    filled,
    join,
    values_of,
)

_KEYS = UnionType((BOOL, INT, UINT, STRING))
_LITERALS: dict[type, Type] = {
    type(None): NULL,
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
}


def check_tree(node: Node, types: Mapping[str, Type]) -> tuple[Type, list[ExpressionProblem]]:
    """The type of an expression in such a scope, and all that is wrong with it there."""
    checker = _Checker(types)
    return checker.of(node, {}), checker.problems


class _Checker:
    """Walks a tree; where something is wrong nothing is known, so that one fault is told once."""

    def __init__(self, types: Mapping[str, Type]) -> None:
        self.types = types
        self.problems: list[ExpressionProblem] = []

    def problem(self, node: Node, message: str, hint: str = "") -> Type:
        self.problems.append(ExpressionProblem(message, node.start, node.end, hint))
        return DYN

    def of(self, node: Node, bound: Mapping[str, Type]) -> Type:
        match node:
            case Literal():
                return _LITERALS[type(node.value)]
            case Name():
                return self.name(node, bound)
            case Select():
                return self.select(node, node.field, self.of(node.operand, bound))
            case Has():
                self.select(node, node.field, self.of(node.operand, bound))
                return BOOL
            case ListLiteral():
                return ListType(join([self.of(item, bound) for item in node.items]))
            case MapLiteral():
                return self.map_literal(node, bound)
            case Macro():
                return self.macro(node, bound)
            case _:
                return self.operation(node, bound)

    def operation(self, node: Node, bound: Mapping[str, Type]) -> Type:
        match node:
            case Index():
                return self.index(node, self.of(node.operand, bound), self.of(node.index, bound))
            case Unary():
                return self.operator(node, node.operator, [self.of(node.operand, bound)])
            case Binary():
                return self.operator(node, node.operator, [self.of(node.left, bound), self.of(node.right, bound)])
            case Logical():
                for operand in node.operands:
                    self.test(operand, bound)
                return BOOL
            case Conditional():
                self.test(node.test, bound)
                return join((self.of(node.then, bound), self.of(node.otherwise, bound)))
            case Call():
                return self.call(node, [self.of(argument, bound) for argument in node.arguments])
            case _:
                raise AssertionError(node)

    def name(self, node: Name, bound: Mapping[str, Type]) -> Type:
        if not node.rooted and node.name in bound:
            return bound[node.name]
        if node.name in DENOTATIONS:
            return TYPE
        if node.name in self.types:
            return self.types[node.name]
        return self.problem(
            node, f"nothing is called '{node.name}' here", did_you_mean(node.name, (*bound, *self.types))
        )

    def select(self, node: Node, field: str, operand: Type) -> Type:
        found: list[Type] = []
        known: list[str] = []
        for each in alternatives(operand):
            match each:
                case RecordType() if field in each.fields:
                    found.append(each.fields[field])
                case RecordType() if not each.open:
                    known.extend(each.fields)
                case MapType() if accepts(each.key, STRING, {}):
                    found.append(each.value)
                case RecordType():
                    found.append(DYN)
                case _ if each == DYN:
                    found.append(DYN)
        return join(found) if found else self.no_field(node, field, operand, known)

    def no_field(self, node: Node, field: str, operand: Type, known: Iterable[str]) -> Type:
        names = sorted(set(known))
        hint = did_you_mean(field, names) or (f"there is {', '.join(names)}" if names else "")
        return self.problem(node, f"{_one(operand)} has no '{field}' here", hint)

    def index(self, node: Index, operand: Type, index: Type) -> Type:
        found: list[Type] = []
        for each in alternatives(operand):
            match each:
                case ListType() if accepts(NUMBER, index, {}):
                    found.append(each.item)
                case MapType() if accepts(each.key, index, {}) or accepts(NUMBER, index, {}):
                    found.append(each.value)
                case RecordType() if accepts(STRING, index, {}):
                    found.append(values_of(each))
                case _ if each == DYN:
                    found.append(DYN)
        return join(found) if found else self.problem(node, f"{_one(operand)} is not indexed by {_one(index)}")

    def map_literal(self, node: MapLiteral, bound: Mapping[str, Type]) -> Type:
        types = [(self.of(key, bound), self.of(value, bound)) for key, value in node.entries]
        for (key, _), (given, _) in zip(node.entries, types, strict=True):
            if not accepts(_KEYS, given, {}):
                self.problem(key, f"a key must be a text, a whole number or a boolean, not {_one(given)}")
        names = [constant_text(key) for key, _ in node.entries]
        if all(name is not None for name in names):
            fields = {str(name): value for name, (_, value) in zip(names, types, strict=True)}
            return RecordType(fields, frozenset(fields))
        return MapType(join([value for _, value in types]), join([key for key, _ in types]))

    def macro(self, node: Macro, bound: Mapping[str, Type]) -> Type:
        item = self.item(node.operand, self.of(node.operand, bound))
        inner = {**bound, node.variable: item}
        if node.test is not None:
            self.test(node.test, inner)
        if node.result is not None:
            return ListType(self.of(node.result, inner))
        return ListType(item) if node.kind == "filter" else BOOL

    def item(self, node: Node, operand: Type) -> Type:
        found: list[Type] = []
        for each in alternatives(operand):
            match each:
                case ListType():
                    found.append(each.item)
                case MapType():
                    found.append(each.key)
                case RecordType():
                    found.append(STRING)
                case _ if each == DYN:
                    found.append(DYN)
        return join(found) if found else self.problem(node, f"a list or a map is needed here, not {_one(operand)}")

    def test(self, node: Node, bound: Mapping[str, Type]) -> None:
        given = self.of(node, bound)
        if not accepts(BOOL, given, {}):
            self.problem(node, f"true or false is needed here, not {_one(given)}", _test_hint(given))

    def operator(self, node: Node, sign: str, given: list[Type]) -> Type:
        result = _result(OPERATORS[sign].overloads, given)
        if result is not None:
            return result
        kinds = " and ".join(str(each) for each in given)
        hint = "convert one of them with int(), uint() or double()" if _are_numbers(given) else ""
        return self.problem(node, f"'{sign}' does not take {kinds}", hint)

    def call(self, node: Call, given: list[Type]) -> Type:
        overloads = [(overload.parameters, overload.result) for overload in FUNCTIONS[node.function].overloads]
        result = _result(overloads, given)
        if result is not None:
            return result
        kinds = ", ".join(str(each) for each in given)
        return self.problem(node, f"{node.function} does not take ({kinds})")


def _result(overloads: Iterable[tuple[tuple[Type, ...], Type]], given: list[Type]) -> Type | None:
    results = []
    for parameters, result in overloads:
        filling: dict[str, Type] = {}
        if len(parameters) == len(given) and all(map(accepts, parameters, given, repeat(filling))):
            results.append(filled(result, filling))
    return join(results) if results else None


def _are_numbers(given: list[Type]) -> bool:
    return len(given) == 2 and all(member in NUMBER.members for each in given for member in alternatives(each))


def _test_hint(given: Type) -> str:
    if given == STRING:
        return "compare it: x != ''"
    return "compare it: x != 0" if given in NUMBER.members else ""


def _one(given: Type) -> str:
    name = str(given)
    return f"an {name}" if name.startswith("int") else f"a {name}"
