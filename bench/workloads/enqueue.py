"""Starting many runs for others to execute: `python -m bench.workloads.enqueue URL WORKFLOW COUNT`."""

from __future__ import annotations

import asyncio
import sys
import time

from bench.figures import emit
from bench.processes import run_loop
from bench.workflows import BY_NAME
from stepfast import Stepfast

# No more starts may wait for the store at once than 10,000.
AT_ONCE = 5_000


async def work(url: str, name: str, count: int) -> None:
    async with Stepfast(url, workflows=[BY_NAME[name]], worker=False) as app:
        begun = time.perf_counter()
        for first in range(0, count, AT_ONCE):
            await start_together(app, name, range(first, min(first + AT_ONCE, count)))
        emit({"enqueue_per_s": count / (time.perf_counter() - begun)})


async def start_together(app: Stepfast, name: str, numbers: range) -> None:
    await asyncio.gather(*(app.start(BY_NAME[name], number) for number in numbers))


if __name__ == "__main__":
    run_loop(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
