"""An outage: the PostgreSQL server is stopped as by a crash for a while under load."""

from __future__ import annotations

import asyncio
import sys
import time

from bench.databases import Databases, PostgresDatabases
from bench.figures import Figures
from bench.processes import Unmeasured, background, run_loop
from bench.workflows import traced_naps
from bench.workloads.recovery import all_completed
from bench.workloads.traces import tracing
from stepfast import Stepfast, WorkerSettings

RUNS = 200
NAPS = 240
# The worst moment: shortly before a heartbeat that is due ten seconds after the first.
UNDER_LOAD_S = 9.0
OUTAGE_S = 20.0
LONGEST_S = 180


def measure(databases: Databases) -> Figures:
    server = databases.server if isinstance(databases, PostgresDatabases) else None
    if server is None:
        raise Unmeasured("Only a PostgreSQL server of our own can be stopped.")
    with databases.fresh() as url, tracing() as trace, background("bench.workloads.outage", url) as load:
        while not trace.lines():
            load.check_alive()
            time.sleep(0.05)
        time.sleep(UNDER_LOAD_S)
        server.stop("immediate")
        time.sleep(OUTAGE_S)
        server.start()
        back = time.perf_counter()
        asyncio.run(all_completed(url, RUNS, LONGEST_S))
        return {"outage_s": time.perf_counter() - back, "outage_bodies_again": float(trace.run_again())}


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[traced_naps], worker=WorkerSettings(concurrency=RUNS)) as app:
        await asyncio.gather(*(app.start(traced_naps, number, NAPS) for number in range(RUNS)))
        await asyncio.Event().wait()


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
