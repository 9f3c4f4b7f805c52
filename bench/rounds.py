"""Rounds: every workload on every store, again and again, so that a bad moment of the machine hits all alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from bench.bars import NO_STORE
from bench.catalogue import WORKLOADS
from bench.databases import Databases, PostgresDatabases, SqliteDatabases
from bench.figures import Figures
from bench.postgres import given_url, own_server
from bench.processes import Unmeasured


class NoDatabases(SqliteDatabases):
    """For workloads that need none."""

    kind = NO_STORE

    def version(self) -> str:
        return ""


class Results:
    """What all rounds gave: figures by store and name, and why there are none where there are none."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.failures: list[str] = []

    def add(self, store: str, figures: Figures) -> None:
        for name, value in figures.items():
            self.figures[store][name].append(value)


@contextmanager
def opened(kinds: Iterable[str]) -> Iterator[dict[str, Databases]]:
    """The places for fresh databases of these kinds."""
    places: dict[str, Databases] = {NO_STORE: NoDatabases(), "sqlite": SqliteDatabases()}
    wanted = set(kinds)
    url = given_url()
    if "postgres" not in wanted:
        yield {kind: place for kind, place in places.items() if kind in {*wanted, NO_STORE}}
    elif url is not None:
        yield {**places, "postgres": PostgresDatabases(url)}
    else:
        with own_server() as server:
            yield {**places, "postgres": PostgresDatabases(server.url, server)}


def run_rounds(names: Iterable[str], places: dict[str, Databases], rounds: int, tell: Callable[[str], None]) -> Results:
    """Measure; a workload that fails is told of and does not stop the others."""
    results = Results()
    chosen = list(names)
    for number in range(1, rounds + 1):
        for name in chosen:
            if number <= WORKLOADS[name].most_rounds:
                tell(f"round {number} of {rounds}: {name}")
                _measure(name, places, results)
    return results


def _measure(name: str, places: dict[str, Databases], results: Results) -> None:
    workload = WORKLOADS[name]
    for kind in workload.stores:
        if kind not in places:
            continue
        try:
            results.add(kind, workload.measure(places[kind]))
        except Unmeasured as reason:
            results.failures.append(f"{name} on {kind}: {reason}")
