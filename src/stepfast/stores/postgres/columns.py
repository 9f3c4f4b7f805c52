"""Columns on their way to the server: as one text each where that is safe, as arrays where it is not.

asyncpg looks at every element of an array by itself; a column of numbers or short texts costs a fifth of that when it
travels as one text and is taken apart by the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

Column = Sequence[Any]

SEPARATOR = "\x1f"
NULL = "\x1e"

# No elements, as a literal and as joined texts.
_NOTHING = ("{}", "")


class Unsafe(Exception):
    """A text holds what we would separate by."""


def compact(column: Column, type_name: str) -> str:
    """A column as one text; raises Unsafe when it could not be taken apart again."""
    if column and column[0] is None and column.count(None) == len(column):
        # What an array does not have is null: nothing says it as well, and need not be taken apart.
        return _NOTHING[type_name == "text[]"]
    if type_name == "text[]":
        return _joined_texts(column)
    return _literal(column) if type_name == "uuid[]" else _numbers(column)


def expression(number: int, type_name: str) -> str:
    """How the server takes parameter `number` apart that `compact` has made."""
    if type_name == "text[]":
        # The first element is ours: a single empty text could not be told from no text at all.
        return f"(string_to_array(${number}::text, E'\\x1f', E'\\x1e'))[2:]"
    return f"${number}::text::{type_name}"


def _joined_texts(column: Column) -> str:
    nulls = column.count(None)
    texts = [NULL if text is None else text for text in column] if nulls else column
    joined = SEPARATOR + SEPARATOR.join(texts) if texts else ""
    if joined.count(SEPARATOR) != len(column) or joined.count(NULL) != nulls:
        raise Unsafe
    return joined


def _literal(column: Column) -> str:
    values = ["NULL" if value is None else str(value) for value in column] if None in column else map(str, column)
    return "{" + ",".join(values) + "}"


def _numbers(column: Column) -> str:
    # By the list's own text, which costs half of one text for each.
    numbers = repr([*column])[1:-1]
    return "{" + (numbers.replace("None", "NULL") if None in column else numbers) + "}"


Columns = tuple[tuple[str, str], ...]
"""Names and types, in order."""


def call_with(columns: Columns, arguments: Sequence[Column]) -> tuple[str, list[object]]:
    """The arguments of a function call by name, and the values that go with them."""
    try:
        return _named(columns, is_compact=True), [
            compact(column, kind) for column, (_, kind) in zip(arguments, columns, strict=True)
        ]
    except Unsafe:
        return _named(columns, is_compact=False), list(arguments)


@cache
def _named(columns: Columns, is_compact: bool) -> str:
    return ", ".join(
        f"{name} => {expression(number, kind) if is_compact else f'${number}::{kind}'}"
        for number, (name, kind) in enumerate(columns, start=1)
    )
