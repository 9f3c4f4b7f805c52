"""Ids that sort by the moment they were made."""

from __future__ import annotations

from typing import NewType
from uuid import UUID

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NotFound
from stepfast.kernel.texts import shown

RunId = NewType("RunId", str)
WorkerId = NewType("WorkerId", str)

RANDOM_BITS = 74


def new_id(now: Instant, random_bits: int) -> str:
    """A UUIDv7: 48 bits of milliseconds, then 74 random bits that the caller brings."""
    high, low = random_bits >> 62 & 0xFFF, random_bits & (1 << 62) - 1
    return str(UUID(int=(now & (1 << 48) - 1) << 80 | 7 << 76 | high << 64 | 2 << 62 | low))


class Ids:
    """Makes ids that grow also within one millisecond, so that lists show runs in the order of their starts."""

    def __init__(self) -> None:
        self._moment = Instant(0)
        self._bits = 0

    def next(self, now: Instant, random_bits: int) -> str:
        """The next id; within one millisecond, or when the clock has gone back a little, it follows the last."""
        if self._moment - STEP_BACK_MS < now <= self._moment:
            self._bits += 1 + (random_bits & (1 << 32) - 1)
        else:
            # Half of what there is, so that many fit above it.
            self._moment, self._bits = now, random_bits >> 1
        return new_id(self._moment, self._bits)


# A clock that goes back further was set right, and ids go by it again.
STEP_BACK_MS = 1_000


def parse_run_id(text: str) -> RunId:
    """The canonical form of a run id that a person gave; what is no id cannot name a run."""
    try:
        return RunId(str(UUID(text)))
    except (ValueError, AttributeError, TypeError):
        raise NotFound(
            f"Run {shown(text)} not found: a run id looks like 01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22."
        ) from None
