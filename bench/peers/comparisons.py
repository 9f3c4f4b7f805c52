"""What is compared with whom, and how much better we mean to be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from rich.table import Table

from bench.bars import Bar, at_least, at_most
from bench.figures import Figures, Spread, spread_of
from bench.tables import number, shown, verdict


class Comparison(NamedTuple):
    """One figure of ours beside one of a peer's; the ratio is ours to theirs."""

    title: str
    store: str
    figure: str
    peer: str
    bar: Bar | None = None
    ours: str = ""
    """Another figure of ours, where the peer has no work that is quite the same."""


COMPARISONS = (
    Comparison("durable steps/s", "postgres", "steps_per_s", "dbos", at_least(30)),
    Comparison("durable steps/s", "postgres", "steps_per_s", "restate", at_least(5)),
    Comparison("durable steps/s", "sqlite", "steps_per_s", "dbos", at_least(30)),
    Comparison("start to result, p50 ms", "postgres", "latency_p50_ms", "dbos", at_most(0.4)),
    Comparison("start to result, p50 ms", "sqlite", "latency_p50_ms", "dbos", at_most(0.4)),
    Comparison("start to result, p50 ms", "postgres", "latency_p50_ms", "pgqueuer"),
    Comparison("start to result, p50 ms", "postgres", "latency_p50_ms", "restate"),
    Comparison("enqueue/s", "postgres", "enqueue_per_s", "dbos"),
    Comparison("enqueue/s", "postgres", "enqueue_per_s", "pgqueuer"),
    Comparison("drain of one-step runs/s", "postgres", "drain_per_s", "dbos", at_least(10)),
    Comparison("drain of runs without steps/s", "postgres", "drain_no_step_per_s", "dbos"),
    Comparison("drain: one-step runs, to jobs/s", "postgres", "drain_per_s", "pgqueuer", at_least(0.5)),
    Comparison(
        "drain: runs without steps, to jobs/s", "postgres", "drain_per_s", "pgqueuer", ours="drain_no_step_per_s"
    ),
    Comparison("runs with a step that waits 5 ms/s, one process", "postgres", "naps_one_per_s", "dbos"),
    Comparison("  to jobs/s that wait 5 ms", "postgres", "naps_one_per_s", "pgqueuer"),
    Comparison("  two processes to one", "postgres", "naps_two_to_one", "dbos"),
    Comparison("  two processes to one", "postgres", "naps_two_to_one", "pgqueuer"),
    Comparison("fan-out of 1,000 steps/s", "postgres", "fan_out_per_s", "dbos"),
    Comparison("fan-out of 1,000 steps/s", "postgres", "fan_out_per_s", "restate"),
)


class Measured:
    """The figures of everyone: by who, store, setting and name, over all rounds."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str, str], dict[str, list[float]]] = defaultdict(dict)

    def add(self, who: str, store: str, setting: str, figures: Figures) -> None:
        for name, value in figures.items():
            self._figures[name, who, store].setdefault(setting, []).append(value)

    def best(self, who: str, store: str, figure: str) -> Spread | None:
        """The setting with the best median, so that a peer is shown at its best of those tried."""
        spreads = [spread_of(values) for values in self._figures[figure, who, store].values()]
        better = min if figure.endswith("_ms") else max
        return better(spreads, key=lambda spread: spread.median) if spreads else None

    def as_data(self) -> dict[str, dict[str, list[float]]]:
        return {" ".join(key): settings for key, settings in self._figures.items() if settings}


def comparison_table(measured: Measured, ours: str) -> Table:
    """Each comparison that has both sides."""
    table = Table("what", "store", "ours", "peer", "theirs", "ours / theirs", "bar", "met")
    for comparison, mine, theirs in _pairs(measured, ours):
        ratio = mine.median / theirs.median
        bar = comparison.bar
        table.add_row(
            comparison.title,
            comparison.store,
            shown(mine),
            comparison.peer,
            shown(theirs),
            number(ratio),
            str(bar or ""),
            verdict(bar, ratio),
        )
    return table


def _pairs(measured: Measured, ours: str) -> Iterator[tuple[Comparison, Spread, Spread]]:
    for comparison in COMPARISONS:
        mine = measured.best(ours, comparison.store, comparison.ours or comparison.figure)
        theirs = measured.best(comparison.peer, comparison.store, comparison.figure)
        if mine is not None and theirs is not None:
            yield comparison, mine, theirs
