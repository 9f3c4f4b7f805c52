"""How the machine was when something was measured: what else it did, and how fast it computes.

Two processes that share nothing show what it gives to a second one. Where cores are shared with others that is not 2,
and nothing that runs there can be better.
"""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from bench.figures import emit
from bench.processes import run_child

LOOKS = 7
TURNS = 10_000_000


class Machine(NamedTuple):
    """The load of the last minute, and how many millions of turns of an empty loop Python makes in a second."""

    load: float
    pace: float


def look() -> Machine:
    """The machine as it is now; a shared one may compute half as fast an hour later."""
    return Machine(os.getloadavg()[0], TURNS / statistics.median(_seconds() for _ in range(LOOKS)) / 1e6)


def pace_of(processes: int) -> float:
    """The pace of so many processes at once, all together."""
    with ThreadPoolExecutor(processes) as threads:
        looked = threads.map(run_child, ["bench.machine"] * processes)
        return sum(figures["pace"] for figures in looked)


def _seconds() -> float:
    begun = time.perf_counter()
    for _ in range(TURNS):
        pass
    return time.perf_counter() - begun


if __name__ == "__main__":
    emit({"pace": look().pace})
