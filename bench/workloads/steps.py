"""Durable steps: many runs of ten steps each at once, from the first start to the last result."""

from __future__ import annotations

import asyncio
import sys
import time

from bench.databases import Databases, check_stored
from bench.figures import Figures, emit, latencies, rss_mb
from bench.processes import run_child, run_loop
from bench.workflows import STEPS, step_seconds, ten_steps
from stepfast import Stepfast, WorkerSettings

RUNS = 200


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        figures = run_child("bench.workloads.steps", url)
        asyncio.run(check_stored(url, "step", (RUNS + 1) * STEPS))
        return figures


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[ten_steps], worker=WorkerSettings(concurrency=RUNS)) as app:
        await (await app.start(ten_steps, -1))
        step_seconds.clear()
        begun = time.perf_counter()
        runs = await asyncio.gather(*(app.start(ten_steps, number) for number in range(RUNS)))
        await asyncio.gather(*(run.result() for run in runs))
        seconds = time.perf_counter() - begun
        emit(
            {
                "steps_per_s": RUNS * STEPS / seconds,
                **latencies("step_commit", step_seconds),
                "steps_rss_mb": rss_mb(),
            }
        )


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
