"""Draining a line of runs that stand ready, by one worker process and by two."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack

from bench.databases import Databases, asking, table
from bench.figures import Figures, rss_mb
from bench.processes import Child, Unmeasured, run_child
from bench.worker import worker

RUNS = 10_000
SLOTS = 200
LOOK_EVERY_S = 0.025
LONGEST_S = 300


def measure(databases: Databases) -> Figures:
    single = drained(databases, "one_step", workers=1)
    bare = drained(databases, "no_step", workers=1)
    one = drained(databases, "one_nap", workers=1)
    two = drained(databases, "one_nap", workers=2)
    return {
        "enqueue_per_s": single["enqueue_per_s"],
        "drain_per_s": single["per_s"],
        "drain_total_s": single["total_s"],
        "drain_rss_mb": single["rss_mb"],
        "drain_no_step_per_s": bare["per_s"],
        "drain_naps_one_per_s": one["per_s"],
        "drain_naps_two_per_s": two["per_s"],
        "drain_two_to_one": two["per_s"] / one["per_s"],
    }


def drained(databases: Databases, workflow: str, workers: int) -> Figures:
    """Fill a line with runs of a workflow, then have workers empty it."""
    with databases.fresh() as url:
        enqueued = run_child("bench.workloads.enqueue", url, workflow, RUNS)
        return {**enqueued, **asyncio.run(drain(url, workers))}


async def drain(url: str, workers: int) -> Figures:
    with ExitStack() as stack:
        begun = time.perf_counter()
        processes = [stack.enter_context(worker(url, "--concurrency", SLOTS)) for _ in range(workers)]
        rate = await watch(url, RUNS, processes)
        total_s = time.perf_counter() - begun
        return {"per_s": rate, "total_s": total_s, "rss_mb": rss_mb(processes[0].pid)}


async def watch(url: str, count: int, workers: Sequence[Child]) -> float:
    """Runs ended a second, from the first end that is seen to the last."""
    query = f"select count(*) from {table(url, 'outcome')}"
    gives_up_at = time.perf_counter() + LONGEST_S
    async with asking(url) as ask:
        while not (first := await ask(query)):
            await _look_later(gives_up_at, workers)
        begun, ended = time.perf_counter(), first
        while ended < count:
            await _look_later(gives_up_at, workers)
            ended = await ask(query)
        return (ended - first) / (time.perf_counter() - begun)


async def _look_later(gives_up_at: float, workers: Sequence[Child]) -> None:
    for child in workers:
        child.check_alive()
    if time.perf_counter() > gives_up_at:
        raise Unmeasured(f"The line was not empty after {LONGEST_S} s.")
    await asyncio.sleep(LOOK_EVERY_S)
