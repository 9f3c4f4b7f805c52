"""From start to result of a one-step run that is started here and run by a worker in another process."""

from __future__ import annotations

import sys

from bench.databases import Databases
from bench.figures import Figures, emit, latencies
from bench.processes import run_child, run_loop
from bench.worker import worker
from bench.workflows import one_step
from bench.workloads.latency import TIMES, WARM_UP, waits
from stepfast import Stepfast

LONGEST_S = 20.0


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url, worker(url):
        return run_child("bench.workloads.remote_latency", url)


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[one_step], worker=False) as app:
        # The worker may still be on its way up: the first results tell nothing.
        await waits(app, WARM_UP, LONGEST_S)
        emit(latencies("remote_latency", await waits(app, TIMES, LONGEST_S)))


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
