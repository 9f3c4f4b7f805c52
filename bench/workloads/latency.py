"""From start to result of a one-step run, one after the other, all in one process."""

from __future__ import annotations

import sys
import time

from bench.databases import Databases
from bench.figures import Figures, emit, latencies
from bench.processes import run_child, run_loop
from bench.workflows import one_step
from stepfast import Stepfast

WARM_UP = 20
TIMES = 300


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        return run_child("bench.workloads.latency", url)


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[one_step]) as app:
        emit(latencies("latency", (await waits(app, WARM_UP + TIMES))[WARM_UP:]))


async def waits(app: Stepfast, times: int, longest_s: float = float("inf")) -> list[float]:
    """The seconds of each start to its result, for so many times or so long."""
    seconds: list[float] = []
    ends_at = time.perf_counter() + longest_s
    while len(seconds) < times and time.perf_counter() < ends_at:
        begun = time.perf_counter()
        await (await app.start(one_step, len(seconds)))
        seconds.append(time.perf_counter() - begun)
    return seconds


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
