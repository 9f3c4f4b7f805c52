"""The tables that people read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from rich.table import Table

from bench.bars import LINES, NO_STORE, Bar, Line
from bench.figures import Spread, spread_of
from bench.machine import Machine, look
from bench.rounds import Results

STORES = ("sqlite", "postgres", NO_STORE)


def caption(before: Machine, versions: Iterable[str]) -> str:
    """What was measured, and how busy and fast the machine was: absolute figures of one day say little of another."""
    pace = f"{before.pace:.0f} before, {look().pace:.0f} after"
    machine = f"load average before: {before.load:.2f} on {os.cpu_count()} cores; million turns of a loop/s: {pace}"
    return "; ".join([*filter(None, versions), machine])


def own_table(results: Results) -> Table:
    """Every figure with its bar, and whether it meets it."""
    table = Table("what", "store", "ours: median (min to max)", "bar", "met")
    for line in LINES:
        for store, spread in _spreads(results, line):
            bar = line.bars.get(store)
            table.add_row(line.title, store, shown(spread), str(bar or ""), verdict(bar, spread.median))
    return table


def shown(spread: Spread) -> str:
    """The median, and how far the rounds were apart."""
    median = number(spread.median)
    if spread.lowest == spread.highest:
        return median
    return f"{median} ({number(spread.lowest)} to {number(spread.highest)})"


def number(value: float) -> str:
    """As many digits as tell something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def verdict(bar: Bar | None, value: float) -> str:
    if bar is None:
        return ""
    return "[green]yes[/green]" if bar.is_met_by(value) else "[bold red]no[/bold red]"


def _spreads(results: Results, line: Line) -> Iterator[tuple[str, Spread]]:
    for store in STORES:
        values = results.figures[store][line.figure]
        if values:
            yield store, spread_of(values)
