"""Draining a line of runs that stand ready."""

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
# The best of 100, 200 and 500, as peers are shown with theirs; PgQueuer takes 500 at a time, too.
SLOTS = 500
LOOK_EVERY_S = 0.1
LONGEST_S = 300

# Processes do not begin to work in the same moment: it counts from when the one that came last has ended a run. What a
# claim tells is the same for all runs of one worker.
FIRST_END_OF_THE_LAST = """
select max(first_at)
  from (
      select min(o.ended_at) as first_at
        from {outcomes} o
        join {events} e on e.run_id = o.run_id and e.type = 'claimed'
       group by e.data
  ) w
"""


def measure(databases: Databases) -> Figures:
    single = drained(databases, "one_step")
    bare = drained(databases, "no_step")
    return {
        "enqueue_per_s": single["enqueue_per_s"],
        "drain_per_s": single["per_s"],
        "drain_total_s": single["total_s"],
        "drain_rss_mb": single["rss_mb"],
        "drain_no_step_per_s": bare["per_s"],
    }


def drained(databases: Databases, workflow: str, runs: int = RUNS, workers: int = 1, slots: int = SLOTS) -> Figures:
    """Fill a line with runs of a workflow, then have workers empty it."""
    with databases.fresh() as url:
        enqueued = run_child("bench.workloads.enqueue", url, workflow, runs)
        return {**enqueued, **asyncio.run(_drain(url, runs, workers, slots))}


async def _drain(url: str, runs: int, workers: int, slots: int) -> Figures:
    with ExitStack() as stack:
        begun = time.perf_counter()
        processes = [stack.enter_context(worker(url, "--concurrency", slots)) for _ in range(workers)]
        rate = await _rate(url, runs, processes)
        total_s = time.perf_counter() - begun
        return {"per_s": rate, "total_s": total_s, "rss_mb": rss_mb(processes[0].pid)}


async def _rate(url: str, count: int, workers: Sequence[Child]) -> float:
    """Runs ended a second while all workers were at work, by the moments that are stored with the runs.

    Looking on takes its share of two busy cores, so it is done seldom, and nothing is computed from when it was done.
    """
    outcomes = table(url, "outcome")
    gives_up_at = time.perf_counter() + LONGEST_S
    async with asking(url) as ask:
        while await ask(f"select count(*) from {outcomes}") < count:
            await _look_later(gives_up_at, workers)
        begun_at = await ask(FIRST_END_OF_THE_LAST.format(outcomes=outcomes, events=table(url, "event")))
        ended = await ask(f"select count(*) from {outcomes} where ended_at > {begun_at}")
        took_ms = await ask(f"select max(ended_at) - {begun_at} from {outcomes}")
        return ended / took_ms * 1_000


async def _look_later(gives_up_at: float, workers: Sequence[Child]) -> None:
    for child in workers:
        child.check_alive()
    if time.perf_counter() > gives_up_at:
        raise Unmeasured(f"The line was not empty after {LONGEST_S} s.")
    await asyncio.sleep(LOOK_EVERY_S)
