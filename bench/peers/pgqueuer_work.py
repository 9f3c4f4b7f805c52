"""The work for PgQueuer, run by its own interpreter: `python -m bench.peers.pgqueuer_work WORK URL OPTIONS`.

It has jobs and no steps: a job is a call of a handler whose end is remembered.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.core.completion import CompletionWatcher
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench.figures import emit, latencies, rss_mb

WARM_UP, TIMES = 20, 300
SHORT_NAP_S = 0.005
PER_CALL = 1_000
JOB = "job"


async def driver(url: str) -> Any:
    return AsyncpgDriver(await asyncpg.connect(url))


async def queue_with_job(url: str) -> Any:
    queue = PgQueuer(await driver(url))

    @queue.entrypoint(JOB)
    async def job(_: Any) -> None:
        pass

    return queue


async def queue_with_naps(url: str, ends: list[float]) -> Any:
    """A queue whose job waits, and notes by the wall clock when it has ended."""
    queue = PgQueuer(await driver(url))

    @queue.entrypoint(JOB)
    async def job(_: Any) -> None:
        await asyncio.sleep(SHORT_NAP_S)
        ends.append(time.time())

    return queue


async def fill(url: str, runs: int) -> None:
    queries = Queries(await driver(url))
    await queries.install()
    for _ in range(0, runs, PER_CALL):
        await queries.enqueue([JOB] * PER_CALL, [b'{"run": 1}'] * PER_CALL, [0] * PER_CALL)


async def enqueue(url: str, options: dict[str, Any]) -> None:
    await fill(url, options["runs"])
    emit({})


async def naps(url: str, options: dict[str, Any]) -> None:
    """One of the processes that empty a line together; there may be nothing left for it."""
    ends: list[float] = []
    await (await queue_with_naps(url, ends)).run(batch_size=options["batch"], mode=QueueExecutionMode.drain)
    emit({"ended": len(ends)} | ({"first_s": min(ends), "last_s": max(ends)} if ends else {}))


async def drain(url: str, options: dict[str, Any]) -> None:
    runs: int = options["runs"]
    begun = time.perf_counter()
    await fill(url, runs)
    enqueued = time.perf_counter()
    queue = await queue_with_job(url)
    ready = time.perf_counter()
    await queue.run(batch_size=options["batch"], mode=QueueExecutionMode.drain)
    drained = time.perf_counter()
    emit(
        {"enqueue_per_s": runs / (enqueued - begun), "drain_per_s": runs / (drained - ready), "drain_rss_mb": rss_mb()}
    )


async def latency(url: str, options: dict[str, Any]) -> None:
    queries = Queries(await driver(url))
    await queries.install()
    serving = asyncio.create_task((await queue_with_job(url)).run(batch_size=1))
    await asyncio.sleep(1)
    listening = await driver(url)
    seconds: list[float] = []
    # By default it looks every 50 ms only.
    async with CompletionWatcher(listening, queries=Queries(listening), debounce=timedelta(milliseconds=1)) as ended:
        for _ in range(WARM_UP + TIMES):
            begun = time.perf_counter()
            (job_id,) = await queries.enqueue(JOB, b"{}", 0)
            await ended.wait_for(job_id)
            seconds.append(time.perf_counter() - begun)
    serving.cancel()
    emit(latencies("latency", seconds[WARM_UP:]))


if __name__ == "__main__":
    works = {"drain": drain, "latency": latency, "enqueue": enqueue, "naps": naps}
    uvloop.run(works[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3])))
