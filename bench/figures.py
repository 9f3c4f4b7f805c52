"""Figures: what a measurement is made of, and how it goes from the measured process to the one that asked."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

Figures = dict[str, float]
"""Names of `bars.LINES`, each with what one round gave."""


class Spread(NamedTuple):
    """What several rounds gave."""

    median: float
    lowest: float
    highest: float


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def latencies(name: str, seconds: Sequence[float]) -> Figures:
    """The median and the slow end of many waits, in milliseconds."""
    return {
        f"{name}_p50_ms": 1_000 * percentile(seconds, 0.50),
        f"{name}_p99_ms": 1_000 * percentile(seconds, 0.99),
    }


def rss_mb(pid: int | str = "self") -> float:
    """The memory that a process has in use now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def emit(figures: Figures) -> None:
    """Hand figures to the process that started this one: it reads the last line."""
    print(json.dumps(figures), flush=True)


def received(output: str) -> Figures:
    """The figures that a process has emitted."""
    figures: Figures = json.loads(output.strip().splitlines()[-1])
    return figures
