"""Suspects: runs whose worker died while it held them, and how carefully they are tried again.

One process holds many runs, so its death proves nothing about any of them. Each crash cuts the company in which a run
is tried again to a quarter, down to none; only crashes of a worker that held nothing else count as strikes. Innocent
runs get through in company after one crash; a run that kills its worker is alone with it after a few.
"""

from __future__ import annotations

from collections.abc import Iterable

LEVELS = 8


def company(crashes: int, concurrency: int) -> int:
    """How many runs a worker may hold while it holds one with so many crashes, that one included."""
    return max(1, concurrency >> 2 * crashes) if crashes else concurrency


def room_beside(held_crashes: Iterable[int], held: int, concurrency: int) -> int:
    """How many more runs a worker may take, given the crashes of those it holds."""
    allowed = min((company(crashes, concurrency) for crashes in held_crashes), default=concurrency)
    return max(0, allowed - held)


def suspect_rooms(held_crashes: Iterable[int], held: int, concurrency: int) -> tuple[int, ...]:
    """How many more suspects with 1, 2, 3, ... crashes a worker may take."""
    beside = room_beside(held_crashes, held, concurrency)
    return tuple(max(0, min(beside, company(level, concurrency) - held)) for level in range(1, LEVELS + 1))
