"""How the machine was when something was measured: what else it did, and how fast one core computes."""

from __future__ import annotations

import os
import statistics
import time
from typing import NamedTuple

LOOKS = 7
TURNS = 2_000_000


class Machine(NamedTuple):
    """The load of the last minute, and how many millions of turns of an empty loop Python makes in a second."""

    load: float
    pace: float


def look() -> Machine:
    """The machine as it is now; a shared one may compute half as fast an hour later."""
    return Machine(os.getloadavg()[0], TURNS / statistics.median(_seconds() for _ in range(LOOKS)) / 1e6)


def _seconds() -> float:
    begun = time.perf_counter()
    for _ in range(TURNS):
        pass
    return time.perf_counter() - begun
