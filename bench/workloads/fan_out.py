"""One run with a thousand steps at once."""

from __future__ import annotations

import asyncio
import sys
import time

from bench.databases import Databases, check_stored
from bench.figures import Figures, emit
from bench.processes import run_child, run_loop
from bench.workflows import fan_out
from stepfast import Stepfast
from stepfast.cli.collecting import collect_seldom

WARM_UP = 5
WIDTH = 1_000


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        figures = run_child("bench.workloads.fan_out", url)
        asyncio.run(check_stored(url, "step", WARM_UP + WIDTH))
        return figures


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[fan_out]) as app:
        await (await app.start(fan_out, WARM_UP))
        # As `stepfast worker` does: of a thousand things under way nothing is garbage, however often one looks.
        collect_seldom()
        begun = time.perf_counter()
        await (await app.start(fan_out, WIDTH))
        emit({"fan_out_per_s": WIDTH / (time.perf_counter() - begun)})


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
