"""What a second worker process adds, on the same machine.

A step that waits leaves the engine to be scaled: the workers' own time, and the store's, which both share. With 20 runs
at a time the steps are what takes the time; with 100 or 200 one process already keeps most of two cores busy. A step
that computes is what a second one is for.
What the machine gives to two processes without any engine stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.databases import Databases
from bench.figures import Figures
from bench.machine import pace_of
from bench.workloads.drain import RUNS, drained
from stepfast.worker.settings import DEFAULT_CONCURRENCY

SLOTS = 200
FEW_SLOTS = 20
COMPUTED_RUNS = 2_000


def measure(databases: Databases) -> Figures:
    return {
        **_scaled(databases, "naps", "one_nap", RUNS, SLOTS),
        **_scaled(databases, "default_naps", "one_nap", RUNS, DEFAULT_CONCURRENCY),
        **_scaled(databases, "few_naps", "one_nap", RUNS, FEW_SLOTS),
        **_scaled(databases, "sums", "one_sum", COMPUTED_RUNS, DEFAULT_CONCURRENCY),
        **two_to_one("machine", pace_of),
    }


def _scaled(databases: Databases, figure: str, workflow: str, runs: int, slots: int) -> Figures:
    return two_to_one(figure, lambda workers: drained(databases, workflow, runs, workers, slots)["per_s"])


def two_to_one(figure: str, rate_of: Callable[[int], float]) -> Figures:
    """What one process does in a second, what two do, and how much more that is."""
    one, two = rate_of(1), rate_of(2)
    return {f"{figure}_one_per_s": one, f"{figure}_two_per_s": two, f"{figure}_two_to_one": two / one}
