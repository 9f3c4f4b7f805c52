"""From the text of an expression to its tree, by recursive descent."""

from __future__ import annotations

import re
from typing import Any, NoReturn, cast

from stepfast.workflows.expressions.kinds import DENOTATIONS, INT_MAX, INT_MIN, UINT_MAX, UInt
from stepfast.workflows.expressions.lexer import Kind, Token, tokens
from stepfast.workflows.expressions.problems import ExpressionProblem
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
    MacroKind,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
    constant_text,
    height,
)

MAX_LENGTH = 10_000
# Each level of brackets costs a few frames of Python's stack, which whoever calls has used a part of already.
MAX_NESTING = 50
MAX_HEIGHT = 100

LITERAL_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}
MISTAKEN_WORDS = {"and": "&&", "or": "||", "not": "!", "None": "null", "True": "true", "False": "false"}
"""What the signs and words of other languages are called here."""
RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "in", "let", "loop", "package",
    "namespace", "return", "var", "void", "while",
    *LITERAL_WORDS, *MISTAKEN_WORDS,
})  # fmt: skip

_LEVELS = {
    "||": 1, "&&": 2, "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "in": 3, "+": 4, "-": 4, "*": 5, "/": 5,
    "%": 5,
}  # fmt: skip
_SURROGATE = re.compile("[\ud800-\udfff]")

MACROS: dict[str, tuple[int, ...]] = {"all": (2,), "exists": (2,), "exists_one": (2,), "map": (2, 3), "filter": (2,)}
"""How many arguments each takes."""


def parse(text: str) -> Node:
    """The tree of an expression, or the first problem with its text."""
    check_text(text)
    node = Parser(text).whole()
    if height(node) > MAX_HEIGHT:
        raise _too_deep(0, len(text))
    return node


def check_text(text: str) -> None:
    """Refuse what is too long, or no text at all."""
    if len(text) > MAX_LENGTH:
        raise too_long(0, len(text))
    lone = _SURROGATE.search(text)
    if lone:
        raise ExpressionProblem("a lone surrogate is no character", lone.start(), lone.end())


def too_long(start: int, end: int) -> ExpressionProblem:
    """The fault of an expression that nobody could read."""
    message = f"the expression has more than the {MAX_LENGTH:,} characters that are allowed"
    return ExpressionProblem(message, start, end, "split it into several steps")


def _too_deep(start: int, end: int) -> ExpressionProblem:
    return ExpressionProblem("the expression is nested too deeply", start, end, "split it into several steps")


class Parser:
    """Reads words from left to right; each method reads one rule of the grammar."""

    def __init__(self, text: str) -> None:
        self.words = tokens(text)
        self.word = next(self.words)
        self.last_end = 0
        self.nesting = 0

    def whole(self) -> Node:
        if self.is_over():
            raise ExpressionProblem("the expression is empty", 0, self.word.end)
        node = self.expression()
        if not self.is_over():
            self.refuse("the end")
        return node

    def is_over(self) -> bool:
        return self.word.kind is Kind.END

    def expression(self) -> Node:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise _too_deep(self.word.start, self.word.end)
        node = self.binary(1)
        if self.take("?"):
            then = self.binary(1)
            self.expect(":")
            otherwise = self.expression()
            node = Conditional(node.start, otherwise.end, node, then, otherwise)
        self.nesting -= 1
        return node

    def binary(self, lowest: int) -> Node:
        left = self.unary()
        while (level := self.level()) >= lowest:
            operator = self.advance().text
            right = self.binary(level + 1)
            left = _joined(operator, left, right)
        return left

    def level(self) -> int:
        return _LEVELS.get(self.word.text, 0) if self.word.kind in {Kind.SIGN, Kind.NAME} else 0

    def unary(self) -> Node:
        starts = []
        operator = self.word.text if self.is_sign("!", "-") else ""
        while operator and self.is_sign(operator):
            starts.append(self.advance().start)
        is_negative = operator == "-" and self.word.kind is Kind.INT
        node = self.negative_number(starts.pop()) if is_negative else self.member()
        for start in reversed(starts):
            node = Unary(start, node.end, operator, node)
        return node

    def negative_number(self, start: int) -> Node:
        # The lowest number has no positive twin, so the sign belongs to the number unless something binds tighter.
        word = self.advance()
        if self.is_sign(".", "["):
            number = Literal(word.start, word.end, _in_range(word, word.value))
            operand = self.suffixes(number)
            return Unary(start, operand.end, "-", operand)
        return Literal(start, word.end, _in_range(word, -word.value))

    def member(self) -> Node:
        return self.suffixes(self.primary())

    def suffixes(self, node: Node) -> Node:
        while self.is_sign(".", "[", "{"):
            sign = self.advance()
            if sign.text == ".":
                node = self.selection(node)
            elif sign.text == "[":
                node = self.index(node)
            else:
                raise ExpressionProblem("messages cannot be made here", sign.start, sign.end, "write a map: {'a': 1}")
        return node

    def selection(self, operand: Node) -> Node:
        word = self.word
        if word.kind is Kind.QUOTED_NAME:
            self.advance()
            return Select(operand.start, word.end, operand, word.value)
        if word.kind is not Kind.NAME or word.text in {"in", *LITERAL_WORDS}:
            self.refuse("the name of a field")
        self.advance()
        if not self.is_sign("("):
            return _selected(operand, word)
        arguments = self.arguments()
        if word.text in MACROS and len(arguments) > 1:
            return self.macro(word, operand, arguments)
        return Call(operand.start, self.last_end, word.text, (operand, *arguments), receiver=True)

    def macro(self, word: Token, operand: Node, arguments: tuple[Node, ...]) -> Node:
        if len(arguments) not in MACROS[word.text]:
            raise ExpressionProblem(
                f"{word.text} takes a name and an expression, like list.{word.text}(x, x > 0)",
                word.start,
                self.last_end,
            )
        variable = arguments[0]
        if not isinstance(variable, Name) or variable.rooted:
            raise ExpressionProblem(
                f"the first argument of {word.text} must be a name", variable.start, variable.end, "such as x"
            )
        test: Node | None = arguments[1]
        result = arguments[-1] if word.text == "map" else None
        if word.text == "map" and len(arguments) == 2:
            test = None
        kind = cast(MacroKind, word.text)
        return Macro(operand.start, self.last_end, kind, operand, variable.name, test, result)

    def index(self, operand: Node) -> Node:
        index = self.expression()
        self.expect("]")
        field = constant_text(index)
        if field is not None:
            return Select(operand.start, self.last_end, operand, field)
        return Index(operand.start, self.last_end, operand, index)

    def primary(self) -> Node:
        word = self.word
        match word.kind:
            case Kind.NAME:
                return self.name_or_call()
            case Kind.INT | Kind.UINT:
                self.advance()
                return Literal(word.start, word.end, _in_range(word, word.value))
            case Kind.DOUBLE | Kind.STRING | Kind.BYTES:
                self.advance()
                return Literal(word.start, word.end, word.value)
            case _:
                return self.bracketed()

    def bracketed(self) -> Node:
        word = self.word
        if self.take("("):
            node = self.expression()
            self.expect(")")
            return node
        if self.take("["):
            items = self.expressions("]")
            return ListLiteral(word.start, self.last_end, items)
        if self.take("{"):
            return self.map_literal(word.start)
        if not self.take("."):
            self.refuse("a value")
        return self.rooted_name(word.start)

    def rooted_name(self, start: int) -> Node:
        if self.word.kind is not Kind.NAME:
            self.refuse("a name")
        word = self.advance()
        _check_name(word)
        return Name(start, word.end, word.text, rooted=True)

    def map_literal(self, start: int) -> Node:
        entries: list[tuple[Node, Node]] = []
        while not self.take("}"):
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression()))
            if not self.take(","):
                self.expect("}")
                break
        return MapLiteral(start, self.last_end, tuple(entries))

    def name_or_call(self) -> Node:
        word = self.advance()
        if word.text in LITERAL_WORDS:
            return Literal(word.start, word.end, LITERAL_WORDS[word.text])
        _check_name(word)
        if not self.is_sign("("):
            return Name(word.start, word.end, word.text)
        arguments = self.arguments()
        if word.text == "has":
            return self.has(word, arguments)
        return Call(word.start, self.last_end, word.text, arguments, receiver=False)

    def has(self, word: Token, arguments: tuple[Node, ...]) -> Node:
        if len(arguments) != 1 or not isinstance(arguments[0], Select):
            raise ExpressionProblem("has takes a field", word.start, self.last_end, "write it like has(a.b)")
        return Has(word.start, self.last_end, arguments[0].operand, arguments[0].field)

    def arguments(self) -> tuple[Node, ...]:
        self.expect("(")
        return self.expressions(")", may_end_with_comma=False)

    def expressions(self, closing: str, *, may_end_with_comma: bool = True) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while not ((may_end_with_comma or not nodes) and self.take(closing)):
            nodes.append(self.expression())
            if not self.take(","):
                self.expect(closing)
                break
        return tuple(nodes)

    def is_sign(self, *signs: str) -> bool:
        return self.word.kind is Kind.SIGN and self.word.text in signs

    def take(self, sign: str) -> bool:
        if self.is_sign(sign):
            self.advance()
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            self.refuse(f"'{sign}'")

    def advance(self) -> Token:
        word = self.word
        self.last_end = word.end
        self.word = next(self.words)
        return word

    def refuse(self, wanted: str) -> NoReturn:
        word = self.word
        found = "the text ends" if word.kind is Kind.END else f"here stands {word.text!r}"
        better = MISTAKEN_WORDS.get(word.text)
        raise ExpressionProblem(
            f"{wanted} is expected, but {found}", word.start, word.end, f"write {better}" if better else ""
        )


def _joined(operator: str, left: Node, right: Node) -> Node:
    if operator not in {"&&", "||"}:
        return Binary(left.start, right.end, operator, left, right)
    operands = left.operands if isinstance(left, Logical) and left.operator == operator else (left,)
    return Logical(left.start, right.end, operator, (*operands, right))


def _selected(operand: Node, word: Token) -> Node:
    match operand:
        case Select(operand=Name(name="google"), field="protobuf") if f"google.protobuf.{word.text}" in DENOTATIONS:
            return Name(operand.start, word.end, f"google.protobuf.{word.text}")
        case _:
            return Select(operand.start, word.end, operand, word.text)


def _in_range(word: Token, value: int) -> int:
    if word.kind is Kind.UINT:
        if value > UINT_MAX:
            raise ExpressionProblem("the number does not fit an unsigned number of 64 bits", word.start, word.end)
        return UInt(value)
    if not INT_MIN <= value <= INT_MAX:
        raise ExpressionProblem("the number does not fit 64 bits", word.start, word.end)
    return value


def _check_name(word: Token) -> None:
    if word.text in RESERVED:
        hint = f"write {MISTAKEN_WORDS[word.text]}" if word.text in MISTAKEN_WORDS else ""
        raise ExpressionProblem(f"'{word.text}' is no name here", word.start, word.end, hint)
