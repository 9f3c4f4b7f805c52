"""The peers: how each is set up, and the settings that it is measured with."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from bench.databases import Databases, asking
from bench.figures import Figures
from bench.peers.environments import program_of, python_with
from bench.processes import Unmeasured, background, run_child
from bench.workloads.drain import LONGEST_S
from bench.workloads.scaling import two_to_one

Options = dict[str, Any]


class Peer(NamedTuple):
    """An engine to compare with: `works` has, for each workload and store, the settings to try."""

    name: str
    packages: tuple[str, ...]
    measure: Callable[[str, str, Databases, Options], Figures]
    works: dict[tuple[str, str], tuple[Options, ...]]
    program: tuple[str, str, str] | None = None

    def set_up(self) -> str:
        """The interpreter that has this peer; raises Unmeasured when it cannot be installed."""
        if self.program is not None:
            program_of(*self.program)
        return python_with(self.name, self.packages)


def measure_dbos(python: str, work: str, databases: Databases, options: Options) -> Figures:
    if work == "scaling":
        return two_to_one("naps", lambda workers: _drained_by_dbos(python, databases, options, workers)["per_s"])
    if work == "drain":
        drained = _drained_by_dbos(python, databases, options, workers=1)
        figure = "drain_per_s" if "one_step" in options["workflow"] else "drain_no_step_per_s"
        return {"enqueue_per_s": drained["enqueue_per_s"], figure: drained["per_s"]}
    with databases.fresh(migrated=False) as url:
        return run_child("bench.peers.dbos_work", work, url, json.dumps(options), python=python)


def _drained_by_dbos(python: str, databases: Databases, options: Options, workers: int) -> Figures:
    given = json.dumps(options)
    with databases.fresh(migrated=False) as url, ExitStack() as stack:
        enqueued = run_child("bench.peers.dbos_work", "enqueue", url, given, python=python)
        for _ in range(workers):
            stack.enter_context(background("bench.peers.dbos_work", "serve", url, given, python=python))
        return {**enqueued, "per_s": asyncio.run(_watch_dbos(url, options["runs"]))}


async def _watch_dbos(url: str, count: int) -> float:
    schema = "" if urlsplit(url).scheme == "sqlite" else "dbos."
    query = f"select count(*) from {schema}workflow_status where status = 'SUCCESS'"
    gives_up_at = time.perf_counter() + LONGEST_S
    async with asking(url) as ask:
        begun, first, ended = 0.0, 0, 0
        while ended < count:
            if time.perf_counter() > gives_up_at:
                raise Unmeasured(f"DBOS had ended {ended} of {count} runs after {LONGEST_S} s.")
            await asyncio.sleep(0.05)
            ended = await ask(query)
            if ended and not first:
                begun, first = time.perf_counter(), ended
        return (ended - first) / (time.perf_counter() - begun)


def measure_pgqueuer(python: str, work: str, databases: Databases, options: Options) -> Figures:
    if work == "scaling":
        return two_to_one("naps", lambda workers: _drained_by_pgqueuer(python, databases, options, workers))
    with databases.fresh(migrated=False) as url:
        return run_child("bench.peers.pgqueuer_work", work, url, json.dumps(options), python=python)


def _drained_by_pgqueuer(python: str, databases: Databases, options: Options, workers: int) -> float:
    """Jobs a second by so many processes together, from the first end to the last as they noted them."""
    given = json.dumps(options)
    with databases.fresh(migrated=False) as url, ThreadPoolExecutor(workers) as pool:
        run_child("bench.peers.pgqueuer_work", "enqueue", url, given, python=python)
        waiting = [
            pool.submit(run_child, "bench.peers.pgqueuer_work", "naps", url, given, python=python)
            for _ in range(workers)
        ]
        noted = [done.result() for done in waiting]
    ended = sum(note["ended"] for note in noted)
    if ended != options["runs"]:
        raise Unmeasured(f"PgQueuer ended {ended} jobs of {options['runs']}.")
    busy = [note for note in noted if note["ended"]]
    return (ended - 1) / (max(note["last_s"] for note in busy) - min(note["first_s"] for note in busy))


def measure_restate(python: str, work: str, _: Databases, options: Options) -> Figures:
    server = program_of(*RESTATE_SERVER)
    return run_child("bench.peers.restate_work", work, "-", json.dumps({**options, "server": server}), python=python)


RESTATE_SERVER = ("restate-server", "@restatedev/restate-server", "restate-server")

# DBOS spends its time in Python, so fewer connections and threads can be more.
DBOS_POOLS: tuple[Options, ...] = ({"pool": 20, "threads": 64}, {"pool": 4, "threads": 4})
DBOS_DRAINS: tuple[Options, ...] = tuple(
    {"runs": 3_000, "workflow": workflow, **settings}
    for steps in ("one_step", "no_step")
    for workflow, settings in (
        (f"plain_{steps}", {"poll_s": 0.01, "concurrency": 50}),
        (steps, {"poll_s": 0.05, "concurrency": 200}),
    )
)

DBOS_NAPS: tuple[Options, ...] = (
    {"runs": 3_000, "workflow": "plain_one_nap", "poll_s": 0.01, "concurrency": 50},
    {"runs": 3_000, "workflow": "one_nap", "poll_s": 0.05, "concurrency": 200},
)

PEERS = (
    Peer(
        "dbos",
        ("dbos", "psycopg[binary]"),
        measure_dbos,
        {
            ("steps", "postgres"): DBOS_POOLS,
            ("steps", "sqlite"): DBOS_POOLS,
            ("latency", "postgres"): DBOS_POOLS[:1],
            ("latency", "sqlite"): DBOS_POOLS[:1],
            ("fan-out", "postgres"): DBOS_POOLS[:1],
            ("drain", "postgres"): DBOS_DRAINS,
            ("scaling", "postgres"): DBOS_NAPS,
        },
    ),
    Peer(
        "pgqueuer",
        ("pgqueuer[asyncpg]", "uvloop"),
        measure_pgqueuer,
        {
            ("latency", "postgres"): ({},),
            ("drain", "postgres"): ({"runs": 10_000, "batch": 100}, {"runs": 10_000, "batch": 500}),
            ("scaling", "postgres"): ({"runs": 10_000, "batch": 100}, {"runs": 10_000, "batch": 200}),
        },
    ),
    Peer(
        "restate",
        ("restate-sdk", "hypercorn", "aiohttp", "uvloop"),
        measure_restate,
        {
            ("steps", "postgres"): ({}, {"uvloop": True}),
            ("latency", "postgres"): ({"uvloop": True},),
            ("fan-out", "postgres"): ({"uvloop": True},),
        },
        program=RESTATE_SERVER,
    ),
)


def chosen(names: Iterable[str]) -> list[Peer]:
    """The peers of these names; one that we do not know is an error of the caller."""
    wanted = list(names)
    known = {peer.name: peer for peer in PEERS}
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise SystemExit(f"No such peer: {', '.join(unknown)}. There are {', '.join(known)}.")
    return [known[name] for name in wanted]
