"""Measure Stepfast and its peers in turn and print one table: `python -m bench.peers [--peers dbos,pgqueuer]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.catalogue import BOTH, WORKLOADS
from bench.databases import Databases
from bench.figures import Figures
from bench.machine import look
from bench.peers.comparisons import Measured, comparison_table
from bench.peers.peers import PEERS, Options, Peer, chosen
from bench.processes import LOOP_VARIABLE, Unmeasured
from bench.rounds import opened
from bench.tables import caption

OURS = "stepfast"
# We are measured beside every peer's turn; the order is that of the table.
COMPARED = ("steps", "latency", "drain", "scaling", "fan-out")


class Bout:
    """All rounds of us against some peers; who cannot be set up or fails is named with the reason."""

    def __init__(self, peers: list[Peer], places: dict[str, Databases], tell: Callable[[str], None]) -> None:
        self.measured = Measured()
        self.failures: list[str] = []
        self._places = places
        self._tell = tell
        self._pythons = {peer.name: python for peer in peers if (python := self._set_up(peer))}
        self._peers = [peer for peer in peers if peer.name in self._pythons]

    def run_round(self, works: Iterable[str]) -> None:
        for work in works:
            for kind in BOTH:
                turns = list(self._turns(work, kind))
                if turns and kind in self._places:
                    self._take(OURS, work, kind, "", partial(WORKLOADS[work].measure, self._places[kind]))
                    for peer, options in turns:
                        self._take_turn(peer, work, kind, options)

    def _turns(self, work: str, kind: str) -> Iterator[tuple[Peer, Options]]:
        for peer in self._peers:
            for options in peer.works.get((work, kind), ()):
                yield peer, options

    def _take_turn(self, peer: Peer, work: str, kind: str, options: Options) -> None:
        python, place = self._pythons[peer.name], self._places[kind]
        measure = partial(peer.measure, python, work, place, options)
        self._take(peer.name, work, kind, json.dumps(options), measure)

    def _take(self, who: str, work: str, kind: str, setting: str, measure: Callable[[], Figures]) -> None:
        self._tell(f"{work} on {kind}: {who} {setting}")
        try:
            self.measured.add(who, kind, setting, measure())
        except Unmeasured as reason:
            self._fail(f"{who}, {work} on {kind} {setting}: {reason}")

    def _set_up(self, peer: Peer) -> str | None:
        self._tell(f"setting {peer.name} up")
        try:
            return peer.set_up()
        except Unmeasured as reason:
            self._fail(f"{peer.name} could not be set up: {reason}")
            return None

    def _fail(self, failure: str) -> None:
        self.failures.append(failure)
        self._tell(failure)


def main() -> None:
    options = _parser().parse_args()
    os.environ[LOOP_VARIABLE] = options.loop
    notes, tables = Console(stderr=True, highlight=False, markup=False), Console(width=140)
    peers = chosen(options.peers.split(","))
    before = look()
    with opened(BOTH) as places:
        versions = [place.version() for place in places.values()]
        bout = Bout(peers, places, notes.print)
        for number in range(1, options.rounds + 1):
            notes.print(f"round {number} of {options.rounds}")
            bout.run_round(options.only)
    tables.print(comparison_table(bout.measured, OURS), caption(before, versions))
    for failure in bout.failures:
        tables.print(f"not measured: {failure}", markup=False)
    if options.json is not None:
        options.json.write_text(json.dumps({"figures": bout.measured.as_data(), "failures": bout.failures}, indent=2))
    sys.exit(bool(bout.failures))


def _parser() -> argparse.ArgumentParser:
    names = ",".join(peer.name for peer in PEERS)
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description="Measure Stepfast beside its peers.")
    parser.add_argument("--peers", default=names, metavar="NAME,...", help=f"of {names}")
    parser.add_argument(
        "--only", nargs="+", choices=COMPARED, default=COMPARED, metavar="WORK", help=", ".join(COMPARED)
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="asyncio", help="of Stepfast's processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser


if __name__ == "__main__":
    main()
