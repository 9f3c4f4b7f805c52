"""The work for DBOS, run by its own interpreter: `python -m bench.peers.dbos_work WORK URL OPTIONS`.

DBOS polls its queue; the interval, the pool and the threads are options, so that it is shown at its best.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from typing import Any

from dbos import DBOS, DBOSClient

from bench.figures import emit, latencies, rss_mb

RUNS, STEPS = 200, 10
WARM_UP, TIMES = 20, 300
WIDTH = 1_000
SHORT_NAP_S = 0.005
QUEUE = "bench"


@DBOS.step()
async def trivial(run: int, number: int) -> dict[str, Any]:
    return {"run": run, "number": number, "ok": True}


@DBOS.step()
def plain_trivial(run: int, number: int) -> dict[str, Any]:
    return {"run": run, "number": number, "ok": True}


@DBOS.workflow()
async def ten_steps(run: int) -> int:
    for number in range(STEPS):
        await trivial(run, number)
    return run


@DBOS.workflow()
async def one_step(run: int) -> dict[str, Any]:
    result: dict[str, Any] = await trivial(run, 0)
    return result


@DBOS.workflow()
def plain_one_step(run: int) -> dict[str, Any]:
    result: dict[str, Any] = plain_trivial(run, 0)
    return result


@DBOS.workflow()
async def no_step(run: int) -> dict[str, int]:
    return {"run": run}


@DBOS.workflow()
def plain_no_step(run: int) -> dict[str, int]:
    return {"run": run}


@DBOS.step()
async def short_nap(run: int) -> int:
    await asyncio.sleep(SHORT_NAP_S)
    return run


@DBOS.workflow()
async def one_nap(run: int) -> int:
    result: int = await short_nap(run)
    return result


@DBOS.step()
def plain_short_nap(run: int) -> int:
    time.sleep(SHORT_NAP_S)
    return run


@DBOS.workflow()
def plain_one_nap(run: int) -> int:
    result: int = plain_short_nap(run)
    return result


@DBOS.workflow()
async def fan_out(width: int) -> int:
    return len(await asyncio.gather(*(trivial(0, number) for number in range(width))))


def launch(url: str, options: dict[str, Any]) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "log_level": "ERROR",
            "executor_id": f"bench-{os.getpid()}",
            "application_version": "1",
            "sys_db_pool_size": options.get("pool", 20),
            "max_executor_threads": options.get("threads", 64),
            "notification_listener_polling_interval_sec": 0.05,
        }
    )
    DBOS.launch()


def open_queue(options: dict[str, Any]) -> None:
    DBOS.register_queue(QUEUE, polling_interval_sec=options["poll_s"], worker_concurrency=options["concurrency"])


async def steps() -> None:
    # The first round is not counted, as ours is not.
    for _ in range(2):
        begun = time.perf_counter()
        runs = await asyncio.gather(*(DBOS.start_workflow_async(ten_steps, number) for number in range(RUNS)))
        await asyncio.gather(*(run.get_result() for run in runs))
    emit({"steps_per_s": RUNS * STEPS / (time.perf_counter() - begun), "steps_rss_mb": rss_mb()})


async def latency() -> None:
    seconds: list[float] = []
    for number in range(WARM_UP + TIMES):
        begun = time.perf_counter()
        await (await DBOS.start_workflow_async(one_step, number)).get_result()
        seconds.append(time.perf_counter() - begun)
    emit(latencies("latency", seconds[WARM_UP:]))


async def fan() -> None:
    await (await DBOS.start_workflow_async(fan_out, 5)).get_result()
    begun = time.perf_counter()
    await (await DBOS.start_workflow_async(fan_out, WIDTH)).get_result()
    emit({"fan_out_per_s": WIDTH / (time.perf_counter() - begun)})


def enqueue(url: str, options: dict[str, Any]) -> None:
    """There is no call for many; transactions of 500 are the quickest way."""
    launch(url, options)
    open_queue(options)
    DBOS.destroy()
    client = DBOSClient(system_database_url=url)
    kind = {"queue_name": QUEUE, "workflow_name": options["workflow"], "app_version": "1"}
    begun = time.perf_counter()
    for first in range(0, options["runs"], 500):
        with client._sys_db.engine.begin() as transaction:
            for number in range(first, min(first + 500, options["runs"])):
                client.enqueue_in_transaction(transaction, kind, number)
    emit({"enqueue_per_s": options["runs"] / (time.perf_counter() - begun)})


def serve(url: str, options: dict[str, Any]) -> None:
    launch(url, options)
    open_queue(options)
    threading.Event().wait()


async def launched(work: str, url: str, options: dict[str, Any]) -> None:
    launch(url, options)
    await {"steps": steps, "latency": latency, "fan-out": fan}[work]()


def main(work: str, url: str, options: dict[str, Any]) -> None:
    if work == "enqueue":
        enqueue(url, options)
    elif work == "serve":
        serve(url, options)
    else:
        asyncio.run(launched(work, url, options))
    # Its threads do not end by themselves.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
