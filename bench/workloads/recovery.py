"""Recovery: kill -9 in the middle of many runs, start again, and wait until all are complete."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from bench.databases import Databases, asking, table
from bench.figures import Figures
from bench.processes import Child, Unmeasured, background, run_loop
from bench.worker import worker
from bench.workflows import STEPS, traced_naps
from bench.workloads.traces import Trace, tracing
from stepfast import Stepfast, WorkerSettings

RUNS = 200
# The peers' comparable setting; Stepfast's default is 30 s, and recovery takes that much longer with it.
LEASE_MS = 5_000
SETTINGS: dict[str, Any] = {"concurrency": RUNS, "lease_ms": LEASE_MS, "heartbeat_ms": LEASE_MS // 4}
LONGEST_S = 120


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url, tracing() as trace:
        with background("bench.workloads.recovery", url) as victim:
            _wait_for_half(trace, victim)
            victim.kill()
        begun = time.perf_counter()
        with worker(url, "--concurrency", RUNS, "--lease", f"{LEASE_MS}ms"):
            asyncio.run(all_completed(url, RUNS, LONGEST_S))
        return {"recovery_s": time.perf_counter() - begun, "recovery_bodies_again": float(trace.run_again())}


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[traced_naps], worker=WorkerSettings(**SETTINGS)) as app:
        runs = await asyncio.gather(*(app.start(traced_naps, number, STEPS) for number in range(RUNS)))
        await asyncio.gather(*(run.result() for run in runs))


async def all_completed(url: str, runs: int, longest_s: float) -> None:
    """Wait until so many runs are completed; any that ended otherwise is no recovery."""
    query = f"select count(*) from {table(url, 'outcome')} where state = 'completed'"
    gives_up_at = time.perf_counter() + longest_s
    async with asking(url) as ask:
        while (completed := await ask(query)) < runs:
            if time.perf_counter() > gives_up_at:
                raise Unmeasured(f"Only {completed} of {runs} runs were complete after {longest_s} s.")
            await asyncio.sleep(0.05)


def _wait_for_half(trace: Trace, victim: Child) -> None:
    while len(trace.lines()) < RUNS * STEPS // 2:
        victim.check_alive()
        time.sleep(0.02)


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
