"""Plain scalars by the core schema of YAML 1.2: what is a number, what is true, and what is text."""

from __future__ import annotations

import re

from stepfast.workflows.templates.nodes import Scalar

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?[0-9]+", re.ASCII)
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")

# Longer ones take long to read, and no store or program could do anything with them.
MAX_DIGITS = 100


class NoNumber(Exception):
    """A number that JSON, or anybody, cannot hold."""


def resolved(text: str) -> Scalar:
    """What a plain scalar means; raises NoNumber for a number that cannot be kept."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _ENDLESS.fullmatch(text):
        raise NoNumber("JSON has no such number")
    for pattern, base in ((_WHOLE, 10), (_OCTAL, 8), (_HEX, 16)):
        if pattern.fullmatch(text):
            return int(_short(text), base) if base == 10 else int(_short(text)[2:], base)
    if _FLOAT.fullmatch(text):
        return _float(_short(text))
    return text


def _short(text: str) -> str:
    if len(text) > MAX_DIGITS:
        raise NoNumber(f"the number has {len(text):,} characters; allowed are {MAX_DIGITS}")
    return text


def _float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise NoNumber("the number is too large")
    return number
