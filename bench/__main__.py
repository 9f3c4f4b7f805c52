"""Measure Stepfast and print one table: `python -m bench [--only NAME ...] [--store sqlite|postgres|both]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path

from rich.console import Console

from bench.catalogue import BOTH, WORKLOADS
from bench.machine import Machine, look
from bench.processes import LOOP_VARIABLE
from bench.rounds import Results, opened, run_rounds
from bench.tables import caption, own_table


def main() -> None:
    options = _parser().parse_args()
    os.environ[LOOP_VARIABLE] = options.loop
    notes, tables = Console(stderr=True, highlight=False), Console(width=120)
    before = look()
    with opened(BOTH if options.store == "both" else [options.store]) as places:
        versions = [place.version() for place in places.values()]
        results = run_rounds(_chosen(options), places, options.rounds, notes.print)
    tables.print(own_table(results), caption(before, versions))
    for failure in results.failures:
        tables.print(f"not measured: {failure}", markup=False)
    if options.json is not None:
        options.json.write_text(json.dumps(as_data(results, before, versions), indent=2))
    sys.exit(bool(results.failures))


def as_data(results: Results, before: Machine, versions: list[str]) -> dict[str, object]:
    """Everything that was measured, with the machine it was measured on."""
    machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    return {
        "machine": machine,
        "stores": versions,
        "before": before._asdict(),
        "figures": results.figures,
        "failures": results.failures,
    }


def _chosen(options: argparse.Namespace) -> list[str]:
    if options.only:
        return list(options.only)
    return [name for name, workload in WORKLOADS.items() if options.all or not workload.is_slow]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure Stepfast.")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, metavar="NAME", help=f"of {', '.join(WORKLOADS)}")
    parser.add_argument("--all", action="store_true", help="also what is slow: outage")
    parser.add_argument("--store", choices=[*BOTH, "both"], default="both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio", help="of the measured processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser


if __name__ == "__main__":
    main()
