"""Where in a text its expressions stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from stepfast.workflows.expressions.lexer import Kind, tokens
from stepfast.workflows.expressions.parser import MAX_LENGTH, too_long
from stepfast.workflows.expressions.problems import ExpressionProblem

# What a closing bracket may belong to, or be hidden in.
_HIDING = re.compile(r"[{'\"/]")

OPENING, ESCAPED = "${", "$${"


@dataclass(frozen=True)
class Piece:
    """A part of a text: plain, an expression without its brackets, or one that has no end."""

    text: str
    start: int
    is_expression: bool = False
    problem: ExpressionProblem | None = None


def pieces(text: str) -> Iterator[Piece]:
    """All parts from left to right; a `$${` is a plain `${`."""
    position = 0
    while (opening := text.find(OPENING, position)) >= 0:
        if opening > position and text[opening - 1] == "$":
            yield Piece(text[position : opening - 1] + OPENING, position)
            position = opening + len(OPENING)
            continue
        if opening > position:
            yield Piece(text[position:opening], position)
        piece, position = _expression(text, opening)
        yield piece
    if position < len(text) or not text:
        yield Piece(text[position:], position)


def _expression(text: str, opening: int) -> tuple[Piece, int]:
    """The expression that begins there, and where the text goes on."""
    start = opening + len(OPENING)
    try:
        end = _closing(text, start)
    except ExpressionProblem as problem:
        return Piece("", start, problem=problem), _resumed(text, start)
    if end is None:
        endless = ExpressionProblem("the expression has no end", opening, len(text), "close it with }")
        return Piece("", start, problem=endless), len(text)
    return Piece(text[start:end], start, is_expression=True), end + 1


def _closing(text: str, start: int) -> int | None:
    """The bracket that ends the expression; most have no other, and need not be read word by word to find it."""
    end = text.find("}", start)
    return _counted_closing(text, start) if end < 0 or _HIDING.search(text, start, end) else end


def _counted_closing(text: str, start: int) -> int | None:
    depth = 0
    for token in tokens(text, start):
        if token.start - start > MAX_LENGTH:
            # It is refused in any case, and a text of a million words takes long to read.
            raise too_long(start, token.start)
        if token.kind is Kind.SIGN and token.text == "{":
            depth += 1
        elif token.kind is Kind.SIGN and token.text == "}":
            if depth == 0:
                return token.start
            depth -= 1
    return None


def _resumed(text: str, start: int) -> int:
    # Behind the next bracket there may be other expressions, whose faults are to be told as well.
    end = text.find("}", start)
    return len(text) if end < 0 else end + 1
