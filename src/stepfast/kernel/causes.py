"""Causes of failure: what equal failures have in common, so that a thousand of them are one line."""

from __future__ import annotations

import re

SHAPE_LENGTH = 160

# From the most to the least telling: what differs between equal failures, and says nothing about their cause.
_VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", re.IGNORECASE), "<hex>"),
    (re.compile(r"'[^']*'|\"[^\"]*\""), "<text>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
)


def shape_of(error_type: str, message: str) -> str:
    """The error without what differs from one run to the next: numbers, ids, addresses and quoted text."""
    shape = message.splitlines()[0] if message else ""
    for pattern, name in _VARYING:
        shape = pattern.sub(name, shape)
    return f"{error_type}: {shape}"[:SHAPE_LENGTH]
