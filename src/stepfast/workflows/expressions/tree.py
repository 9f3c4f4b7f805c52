"""An expression as a tree; every part knows where in the text it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

MacroKind = OneOf["all", "exists", "exists_one", "map", "filter"]


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression, from `start` up to `end` in its text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A value that is written out."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A variable; a rooted one (`.x`) is never that of a macro."""

    name: str
    rooted: bool = False


@dataclass(frozen=True, slots=True)
class Select(Node):
    """`operand.field`, and `operand["field"]` for a text that is written out."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Has(Node):
    """`has(operand.field)`."""

    operand: Node
    field: str


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`operand[index]`."""

    operand: Node
    index: Node


@dataclass(frozen=True, slots=True)
class ListLiteral(Node):
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral(Node):
    """`{a: b}`."""

    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """`!a` or `-a`."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic, a comparison, or `in`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """A row of `&&` or of `||`."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional(Node):
    """`test ? then : otherwise`."""

    test: Node
    then: Node
    otherwise: Node


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`function(...)`, or `target.function(...)`; the target is then the first of the arguments."""

    function: str
    arguments: tuple[Node, ...]
    receiver: bool


@dataclass(frozen=True, slots=True)
class Macro(Node):
    """A walk over a list's items or a map's keys."""

    kind: MacroKind
    operand: Node
    variable: str
    test: Node | None
    result: Node | None


def children(node: Node) -> tuple[Node, ...]:
    """The parts that a part is directly made of."""
    match node:
        case Select() | Has() | Unary():
            return (node.operand,)
        case Index():
            return (node.operand, node.index)
        case Binary():
            return (node.left, node.right)
        case Conditional():
            return (node.test, node.then, node.otherwise)
        case ListLiteral():
            return node.items
        case MapLiteral():
            return tuple(part for entry in node.entries for part in entry)
        case Logical():
            return node.operands
        case Call():
            return node.arguments
        case Macro():
            return tuple(part for part in (node.operand, node.test, node.result) if part is not None)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """All parts, each before its own."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(children(part)))


def height(node: Node) -> int:
    """How many parts stand inside each other at most; found without recursion."""
    highest, waiting = 0, [(node, 1)]
    while waiting:
        part, depth = waiting.pop()
        highest = max(highest, depth)
        waiting.extend((child, depth + 1) for child in children(part))
    return highest


def constant_text(node: Node) -> str | None:
    """The text that a part is, if it is one that is written out."""
    return node.value if isinstance(node, Literal) and isinstance(node.value, str) else None
