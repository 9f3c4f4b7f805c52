"""Ids that sort by the moment they were made."""

from __future__ import annotations

from typing import NewType
from uuid import UUID

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NotFound

RunId = NewType("RunId", str)
WorkerId = NewType("WorkerId", str)

RANDOM_BITS = 74


def new_id(now: Instant, random_bits: int) -> str:
    """A UUIDv7: 48 bits of milliseconds, then 74 random bits that the caller brings."""
    high, low = random_bits >> 62 & 0xFFF, random_bits & (1 << 62) - 1
    return str(UUID(int=(now & (1 << 48) - 1) << 80 | 7 << 76 | high << 64 | 2 << 62 | low))


def parse_run_id(text: str) -> RunId:
    """The canonical form of a run id that a person gave; what is no id cannot name a run."""
    try:
        return RunId(str(UUID(text)))
    except (ValueError, AttributeError, TypeError):
        raise NotFound(f"Run {text!r} not found: a run id looks like 01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22.") from None
