"""What a second worker process adds, on the same machine.

A step that waits leaves the engine to be scaled: the workers' own time, and the store's, which both share. With 200
runs at a time one process already keeps most of two cores busy. A step that computes is what a second one is for.
"""

from __future__ import annotations

from bench.databases import Databases
from bench.figures import Figures
from bench.workloads.drain import RUNS, drained
from stepfast.worker.settings import DEFAULT_CONCURRENCY

SLOTS = 200
COMPUTED_RUNS = 2_000


def measure(databases: Databases) -> Figures:
    return {
        **_scaled(databases, "naps", "one_nap", RUNS, SLOTS),
        **_scaled(databases, "default_naps", "one_nap", RUNS, DEFAULT_CONCURRENCY),
        **_scaled(databases, "sums", "one_sum", COMPUTED_RUNS, DEFAULT_CONCURRENCY),
    }


def _scaled(databases: Databases, figure: str, workflow: str, runs: int, slots: int) -> Figures:
    one = drained(databases, workflow, runs, workers=1, slots=slots)["per_s"]
    two = drained(databases, workflow, runs, workers=2, slots=slots)["per_s"]
    return {f"{figure}_one_per_s": one, f"{figure}_two_per_s": two, f"{figure}_two_to_one": two / one}
