"""From a tree to Python code: names, fields and literals go in as data, never as Python names or attributes.

There are two forms of the code. The quick one takes everything for granted that usually holds: maps have the keys that
are asked for, and `&&` need not look at its right side after a failure of its left. Where it fails, the careful one
evaluates the same expression again, with all the rules, and finds out the reason and the place. Expressions have no
side effects, so that doing it twice does no harm.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stepfast.workflows.expressions import macros, values
from stepfast.workflows.expressions.budget import Meter
from stepfast.workflows.expressions.functions import DISPATCHERS, FUNCTIONS
from stepfast.workflows.expressions.kinds import DENOTATIONS, UInt
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
    children,
    constant_text,
)

Code = Callable[[Mapping[str, Any], Meter], Any]

FILE = "<expression>"
"""How frames of such code are told from others in a traceback; their lines are the numbers of parts of the tree."""

_BINARY = {
    "+": values.add,
    "-": values.subtract,
    "*": values.multiply,
    "/": values.divide,
    "%": values.remainder,
    "==": values.equals,
    "!=": values.differs,
    "in": values.contains,
    "<": values.less,
    "<=": values.less_or_equal,
    ">": values.greater,
    ">=": values.greater_or_equal,
}
_COMPARED: dict[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
}
_INLINE = (str, int, float)
_MACROS = {
    "all": macros.all_of,
    "exists": macros.any_of,
    "exists_one": macros.one_of,
    "filter": macros.kept,
    "map": macros.mapped,
}
_DECISIVE = {"&&": False, "||": True, "all": False, "exists": True}


def compile_tree(tree: Node, careful: bool) -> tuple[Code, list[Node]]:
    """The code, and the parts by the lines of it (line 1 is the first)."""
    writer = _Writer(careful)
    body = writer.write(tree, {})
    whole = ast.Expression(_function(("scope", "meter"), body, 1))
    code: Code = eval(compile(whole, FILE, "eval"), writer.names)
    return code, writer.parts


class _Writer:
    """Writes the code of a tree; what it refers to is collected in `names`."""

    def __init__(self, careful: bool) -> None:
        self.careful = careful
        self.parts: list[Node] = []
        # Nothing of Python can be reached from the code, save what is put in here.
        self.names: dict[str, Any] = {"__builtins__": {}, "type": type}
        self.count = 0

    def write(self, node: Node, bound: Mapping[str, str]) -> ast.expr:
        """`bound` has the Python names of macro variables."""
        self.parts.append(node)
        line = len(self.parts)
        match node:
            case Literal():
                return self.constant(node.value, line)
            case Name():
                return self.name(node, bound, line)
            case Select():
                return self.select(node, bound, line)
            case Has():
                return self.call(values.has_field, line, self.write(node.operand, bound), _constant(node.field, line))
            case ListLiteral():
                return _at(line, ast.List([self.write(item, bound) for item in node.items], ast.Load()))
            case MapLiteral():
                return self.map_literal(node, bound, line)
            case _:
                return self.operation(node, bound, line)

    def operation(self, node: Node, bound: Mapping[str, str], line: int) -> ast.expr:
        match node:
            case Index():
                return self.call(values.index, line, self.write(node.operand, bound), self.write(node.index, bound))
            case Unary():
                return self.unary(node, bound, line)
            case Binary():
                return self.binary(node, bound, line)
            case Logical():
                return self.logical(node, bound, line)
            case Conditional():
                test = self.test(node.test, bound)
                then, otherwise = self.write(node.then, bound), self.write(node.otherwise, bound)
                return _at(line, ast.IfExp(test, then, otherwise))
            case Call():
                arguments = [self.write(argument, bound) for argument in node.arguments]
                return self.call(DISPATCHERS[node.function], line, _name("meter", line), *arguments)
            case Macro():
                return self.macro(node, bound, line)
            case _:
                raise AssertionError(node)

    def constant(self, value: Any, line: int) -> ast.expr:
        return self.given(value, line) if isinstance(value, UInt) else _constant(value, line)

    def name(self, node: Name, bound: Mapping[str, str], line: int) -> ast.expr:
        if not node.rooted and node.name in bound:
            return _name(bound[node.name], line)
        if node.name in DENOTATIONS:
            return self.given(DENOTATIONS[node.name], line)
        if self.careful:
            return self.call(values.variable, line, _name("scope", line), _constant(node.name, line))
        return _subscript(_name("scope", line), node.name, line)

    def select(self, node: Select, bound: Mapping[str, str], line: int) -> ast.expr:
        operand = self.write(node.operand, bound)
        # Of anything else Python may see beforehand that it has no keys, and would warn of it.
        if self.careful or not isinstance(node.operand, Name | Select | Index | Call | Macro):
            return self.call(values.select, line, operand, _constant(node.field, line))
        return _subscript(operand, node.field, line)

    def map_literal(self, node: MapLiteral, bound: Mapping[str, str], line: int) -> ast.expr:
        keys = [self.write(key, bound) for key, _ in node.entries]
        items = [self.write(value, bound) for _, value in node.entries]
        if all(constant_text(key) is not None for key, _ in node.entries):
            return _at(line, ast.Dict(list(keys), items))
        lists = (_at(line, ast.List(each, ast.Load())) for each in (keys, items))
        return self.call(values.make_map, line, *lists)

    def unary(self, node: Unary, bound: Mapping[str, str], line: int) -> ast.expr:
        operand = self.write(node.operand, bound)
        if node.operator == "-":
            return self.call(values.negate, line, operand)
        if is_test(node.operand):
            return _at(line, ast.UnaryOp(ast.Not(), operand))
        return self.call(values.invert, line, operand)

    def binary(self, node: Binary, bound: Mapping[str, str], line: int) -> ast.expr:
        left, right = self.write(node.left, bound), self.write(node.right, bound)
        if node.operator in _COMPARED and isinstance(node.right, Literal) and type(node.right.value) in _INLINE:
            return self.comparison(node.operator, left, right, type(node.right.value), line)
        return self.binary_call(node.operator, left, right, line)

    def binary_call(self, sign: str, left: ast.expr, right: ast.expr, line: int) -> ast.expr:
        return self.call(_BINARY[sign], line, _name("meter", line), left, right)

    def comparison(self, sign: str, left: ast.expr, right: ast.expr, kind: type, line: int) -> ast.expr:
        """With a literal: `x < 5 if type(x := left) is int else less(x, 5)`."""
        kept = self.new_name("x")
        target = ast.Name(kept, ast.Store(), lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)
        keeping = _at(line, ast.NamedExpr(target, left))
        class_of = _at(line, ast.Call(_name("type", line), [keeping], []))
        is_expected = _at(line, ast.Compare(class_of, [ast.Is()], [self.given(kind, line)]))
        quick = _at(line, ast.Compare(_name(kept, line), [_COMPARED[sign]()], [right]))
        return _at(line, ast.IfExp(is_expected, quick, self.binary_call(sign, _name(kept, line), right, line)))

    def logical(self, node: Logical, bound: Mapping[str, str], line: int) -> ast.expr:
        if not self.careful:
            operands = [self.test(operand, bound) for operand in node.operands]
            return _at(line, ast.BoolOp(ast.And() if node.operator == "&&" else ast.Or(), operands))
        tests: list[ast.expr] = [_function((), self.test(operand, bound), line) for operand in node.operands]
        decisive = _constant(_DECISIVE[node.operator], line)
        return self.call(macros.settled, line, _at(line, ast.List(tests, ast.Load())), decisive)

    def test(self, node: Node, bound: Mapping[str, str]) -> ast.expr:
        written = self.write(node, bound)
        return written if is_test(node) else self.call(values.truth, written.lineno, written)

    def macro(self, node: Macro, bound: Mapping[str, str], line: int) -> ast.expr:
        operand = self.write(node.operand, bound)
        name = self.new_name("v")
        inner = {**bound, node.variable: name}
        bodies: list[ast.expr] = []
        if node.test is not None:
            bodies.append(_function((name,), self.test(node.test, inner), line))
        if node.result is not None:
            bodies.append(_function((name,), self.write(node.result, inner), line))
        arguments = (_name("meter", line), _constant(weight(node), line), operand, *bodies)
        if self.careful and node.kind in _DECISIVE:
            return self.call(macros.settled_over, line, *arguments, _constant(_DECISIVE[node.kind], line))
        walk = macros.kept_and_mapped if len(bodies) == 2 else _MACROS[node.kind]
        return self.call(walk, line, *arguments)

    def call(self, function: Callable[..., Any], line: int, *arguments: ast.expr) -> ast.expr:
        return _at(line, ast.Call(self.given(function, line), list(arguments), []))

    def given(self, value: Any, line: int) -> ast.expr:
        name = f"given{id(value)}"
        self.names[name] = value
        return _name(name, line)

    def new_name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"


def is_test(node: Node) -> bool:
    """Whether a part can be nothing but true or false."""
    match node:
        case Literal():
            return isinstance(node.value, bool)
        case Has() | Logical():
            return True
        case Unary():
            return node.operator == "!"
        case Binary():
            return node.operator in _COMPARED or node.operator == "in"
        case Call():
            return FUNCTIONS[node.function].is_test
        case Macro():
            return node.kind not in {"map", "filter"}
        case _:
            return False


def weight(macro: Macro) -> int:
    """What one item costs: the parts of the body, save those of macros inside it, which pay for their own items."""
    waiting, count = [part for part in (macro.test, macro.result) if part is not None], 0
    while waiting:
        part = waiting.pop()
        count += 1
        waiting.extend([part.operand] if isinstance(part, Macro) else children(part))
    return count


def _at(line: int, node: ast.expr) -> ast.expr:
    node.lineno = node.end_lineno = line
    node.col_offset = node.end_col_offset = 0
    return node


def _constant(value: Any, line: int) -> ast.expr:
    return _at(line, ast.Constant(value))


def _name(name: str, line: int) -> ast.expr:
    return _at(line, ast.Name(name, ast.Load()))


def _subscript(operand: ast.expr, key: str, line: int) -> ast.expr:
    return _at(line, ast.Subscript(operand, _constant(key, line), ast.Load()))


def _function(parameters: Iterable[str], body: ast.expr, line: int) -> ast.expr:
    arguments = [ast.arg(name, lineno=line, col_offset=0, end_lineno=line, end_col_offset=0) for name in parameters]
    signature = ast.arguments([], arguments, None, [], [], None, [])
    return _at(line, ast.Lambda(signature, body))
