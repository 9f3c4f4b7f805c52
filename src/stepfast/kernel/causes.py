"""Causes of failure: what equal failures have in common, so that a thousand of them are one line."""

from __future__ import annotations

import re
from hashlib import sha256

SHAPE_LENGTH = 160
GROUP_DIGITS = 8

# From the most to the least telling: what differs between equal failures, and says nothing about their cause.
_VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "<text>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
)


# What precedes and follows the name of a step in its address; paths are numbers with dots between them.
_PLACE = re.compile(r"^[\d.]+/|#\d+$")


def shape_of(error_type: str, message: str, step: str | None = None) -> str:
    """The step by name, and the error without what differs from one run to the next: numbers, ids and quoted text."""
    shape = next(iter(message.splitlines()), "")
    for pattern, name in _VARYING:
        shape = pattern.sub(name, shape)
    where = f"{_PLACE.sub('', step)}: " if step else ""
    return f"{where}{error_type}: {shape}"[:SHAPE_LENGTH]


def group_id(kind: str, workflow: str, shape: str) -> str:
    """A short name for equal items, the same wherever and whenever they are listed."""
    return sha256(f"{kind}\0{workflow}\0{shape}".encode()).hexdigest()[:GROUP_DIGITS]


def is_group_id(text: str) -> bool:
    """Whether a text can be such a name; no shape looks like one."""
    return len(text) == GROUP_DIGITS and all(digit in "0123456789abcdef" for digit in text)
