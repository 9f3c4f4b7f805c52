"""What the machine itself gives to a second process: two that only compute and share nothing, against one.

On a machine whose cores are shared with others it is not 2, and nothing that runs on it can be better.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from bench.figures import emit
from bench.processes import run_child

SECONDS = 2.0
AT_ONCE = 10_000


def two_to_one() -> float:
    """How much more two processes compute than one."""
    return _together(2) / _together(1)


def _together(processes: int) -> float:
    with ThreadPoolExecutor(processes) as threads:
        spun = threads.map(run_child, ["bench.workloads.spinning"] * processes)
        return sum(figures["spins_per_s"] for figures in spun)


def _spin() -> None:
    begun, spins = time.perf_counter(), 0
    while (took := time.perf_counter() - begun) < SECONDS:
        sum(number * number % 7 for number in range(AT_ONCE))
        spins += AT_ONCE
    emit({"spins_per_s": spins / took})


if __name__ == "__main__":
    _spin()
