"""The words of an expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from stepfast.workflows.expressions.problems import ExpressionProblem


class Kind(Enum):
    """What sort of word it is."""

    NAME = "a name"
    QUOTED_NAME = "a quoted name"
    INT = "a whole number"
    UINT = "an unsigned number"
    DOUBLE = "a number"
    STRING = "a text"
    BYTES = "bytes"
    SIGN = "a sign"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Token:
    """A word and its place; `value` is the number or text that it stands for."""

    kind: Kind
    text: str
    start: int
    end: int
    value: Any = None


_WORD = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\r\n]*)
    |(?P<double>(?:[0-9]+\.[0-9]+|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    |(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<quote>(?:[rR]|[bB][rR]?)?(?:\"\"\"|'''|"|'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |`(?P<quoted>[A-Za-z0-9_.\-/ ]+)`
    |(?P<sign>&&|\|\||[<>=!]=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)

# How a text goes on after its opening quote, by quote and whether it is raw.
_REST = {
    ('"', False): re.compile(r'(?P<body>(?:[^"\\\r\n]|\\[^\r\n])*)"'),
    ("'", False): re.compile(r"(?P<body>(?:[^'\\\r\n]|\\[^\r\n])*)'"),
    ('"""', False): re.compile(r'(?P<body>(?:[^"\\]|\\.|"(?!""))*)"""', re.DOTALL),
    ("'''", False): re.compile(r"(?P<body>(?:[^'\\]|\\.|'(?!''))*)'''", re.DOTALL),
    ('"', True): re.compile(r'(?P<body>[^"\r\n]*)"'),
    ("'", True): re.compile(r"(?P<body>[^'\r\n]*)'"),
    ('"""', True): re.compile(r'(?P<body>.*?)"""', re.DOTALL),
    ("'''", True): re.compile(r"(?P<body>.*?)'''", re.DOTALL),
}

_ESCAPE = re.compile(
    r"\\(?:[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<octal>[0-3][0-7][0-7])|(?P<other>.))",
    re.DOTALL,
)
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "?": "?", '"': '"', "'": "'", "`": "`",
}  # fmt: skip

# Halves of characters in UTF-16, which CEL does not put together.
_SURROGATES = range(0xD800, 0xE000)

_MISTAKEN_SIGNS = {"=": "write == to compare", "&": "write &&", "|": "write ||", "$": "leave it out"}

# A number of more digits fits no 64 bits; Python refuses to read some thousands of them.
_MOST_DIGITS = 20


def tokens(text: str, start: int = 0) -> Iterator[Token]:
    """The words from `start` on, and an end; a word that is none is a problem when its turn comes."""
    position = start
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise _unreadable(text, position)
        if match["quote"] is not None:
            token = _quoted(text, match)
            position = token.end
            yield token
            continue
        position = match.end()
        if match["space"] is None:
            yield _plain(match)
    yield Token(Kind.END, "", len(text), len(text))


def _unreadable(text: str, position: int) -> ExpressionProblem:
    character = text[position]
    shown = repr(character) if character.isprintable() else f"U+{ord(character):04X}"
    hint = _MISTAKEN_SIGNS.get(character, "")
    if character.isalpha():
        hint = "names have the letters a to z; a key with others is written map['key']"
    return ExpressionProblem(f"{shown} has no meaning here", position, position + 1, hint)


def _plain(match: re.Match[str]) -> Token:
    start, end, word = match.start(), match.end(), match[0]
    match match.lastgroup:
        case "name":
            return Token(Kind.NAME, word, start, end)
        case "quoted":
            return Token(Kind.QUOTED_NAME, word, start, end, match["quoted"])
        case "int":
            return Token(Kind.INT, word, start, end, _whole(word, start, end))
        case "uint":
            return Token(Kind.UINT, word, start, end, _whole(word[:-1], start, end))
        case "double":
            return Token(Kind.DOUBLE, word, start, end, _double(word, start, end))
        case _:
            return Token(Kind.SIGN, word, start, end)


def _whole(digits: str, start: int, end: int) -> int:
    if len(digits.removeprefix("0x").lstrip("0")) > _MOST_DIGITS:
        raise ExpressionProblem("the number does not fit 64 bits", start, end)
    return int(digits, 16) if digits.startswith("0x") else int(digits)


def _double(word: str, start: int, end: int) -> float:
    value = float(word)
    if value == float("inf"):
        raise ExpressionProblem("the number is larger than a double can be", start, end)
    return value


def _quoted(text: str, opening: re.Match[str]) -> Token:
    prefix = opening["quote"].rstrip("\"'").lower()
    quote = opening["quote"][len(prefix) :]
    rest = _REST[quote, "r" in prefix].match(text, opening.end())
    if rest is None:
        raise ExpressionProblem(
            "the text has no end", opening.start(), len(text), f"close it with {quote} on the same line"
            if len(quote) == 1
            else f"close it with {quote}",
        )  # fmt: skip
    start, end, body = opening.start(), rest.end(), rest["body"]
    kind = Kind.BYTES if "b" in prefix else Kind.STRING
    value: str | bytes = body
    if "r" not in prefix and "\\" in body:
        value = _unescaped_bytes(body, opening.end()) if kind is Kind.BYTES else _unescaped(body, opening.end())
    elif kind is Kind.BYTES:
        value = body.encode()
    return Token(kind, text[start:end], start, end, value)


def _unescaped(body: str, at: int) -> str:
    return _ESCAPE.sub(lambda escape: _character(escape, at), body)


def _character(escape: re.Match[str], at: int) -> str:
    code = _code(escape)
    if code is None:
        return _simple(escape, at)
    if code > 0x10FFFF or code in _SURROGATES:
        hint = "write it with eight digits, like \\U0001F600" if code in _SURROGATES else ""
        raise ExpressionProblem(f"{escape[0]} is no character", at + escape.start(), at + escape.end(), hint)
    return chr(code)


def _code(escape: re.Match[str]) -> int | None:
    if escape["octal"] is not None:
        return int(escape["octal"], 8)
    digits = escape["hex"] or escape["u"] or escape["U"]
    return int(digits, 16) if digits is not None else None


def _simple(escape: re.Match[str], at: int) -> str:
    if escape["other"] not in _SIMPLE_ESCAPES:
        raise ExpressionProblem(
            f"{escape[0]!r} is no escape sequence",
            at + escape.start(),
            at + escape.end(),
            "write \\\\ for a backslash, or a raw text: r'...'",
        )
    return _SIMPLE_ESCAPES[escape["other"]]


def _unescaped_bytes(body: str, at: int) -> bytes:
    parts, position = [], 0
    for escape in _ESCAPE.finditer(body):
        parts.append(body[position : escape.start()].encode())
        parts.append(_octets(escape, at))
        position = escape.end()
    parts.append(body[position:].encode())
    return b"".join(parts)


def _octets(escape: re.Match[str], at: int) -> bytes:
    if escape["u"] or escape["U"]:
        raise ExpressionProblem(
            "bytes have no \\u escapes", at + escape.start(), at + escape.end(), "write \\x and two digits for a byte"
        )
    code = _code(escape)
    return bytes([code]) if code is not None else _simple(escape, at).encode()
