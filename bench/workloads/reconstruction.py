"""All that is known of a run of a thousand steps, read in one call: how much CPU that takes, and how long."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from bench.databases import Databases
from bench.figures import Figures, emit
from bench.processes import run_child
from stepfast import Stepfast, step, workflow

STEPS = 1_000
READS = 7


@step
async def tick(number: int) -> int:
    return number + 1


@workflow
async def walk(steps: int) -> int:
    number = 0
    for _ in range(steps):
        number = await tick(number)
    return number


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        return run_child("bench.workloads.reconstruction", url)


async def reconstructed(url: str) -> Figures:
    cpu, real = [], []
    async with Stepfast(url, workflows=[walk]) as app:
        run = await app.start(walk, STEPS)
        assert await run == STEPS
        for _ in range(READS):
            cpu_begun, begun = time.process_time(), time.perf_counter()
            found = await run.reconstruct()
            cpu.append(time.process_time() - cpu_begun)
            real.append(time.perf_counter() - begun)
    assert (len(found.steps), found.differences) == (STEPS, ()), found.differences
    return {
        "reconstruction_ms": statistics.median(real) * 1_000,
        "reconstruction_cpu_ms": statistics.median(cpu) * 1_000,
    }


if __name__ == "__main__":
    emit(asyncio.run(reconstructed(sys.argv[1])))
