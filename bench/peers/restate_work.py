"""The work for Restate, run by its own interpreter: `python -m bench.peers.restate_work WORK - OPTIONS`.

Restate is a server beside the worker: both are started here, and ended with everything they started themselves.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from bench.figures import emit, latencies

RUNS, STEPS = 200, 10
WARM_UP, TIMES = 20, 300
WIDTH = 1_000
INGRESS, ADMIN, SERVICE = "http://127.0.0.1:8080", "http://127.0.0.1:9070", "127.0.0.1:9081"
UP_WITHIN_S = 30


@contextmanager
def running(command: list[str], folder: str | None = None, **settings: str) -> Iterator[None]:
    """A process with whatever it starts; all of them are one session of our own, and end together."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **settings},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def registered(client: aiohttp.ClientSession) -> None:
    """Tell the server of the service, as soon as both are up."""
    gives_up_at = time.monotonic() + UP_WITHIN_S
    while True:
        try:
            async with client.post(f"{ADMIN}/deployments", json={"uri": f"http://{SERVICE}", "force": True}) as answer:
                if answer.status < 300:
                    return
        except aiohttp.ClientError:
            pass
        if time.monotonic() > gives_up_at:
            raise SystemExit(f"Restate did not come up within {UP_WITHIN_S} s.")
        await asyncio.sleep(0.1)


async def call(client: aiohttp.ClientSession, handler: str, argument: int) -> Any:
    async with client.post(f"{INGRESS}/bench/{handler}", json=argument) as answer:
        answer.raise_for_status()
        return await answer.json()


async def steps(client: aiohttp.ClientSession) -> None:
    # The first round is not counted, as ours is not.
    for _ in range(2):
        begun = time.perf_counter()
        await asyncio.gather(*(call(client, "ten_steps", number) for number in range(RUNS)))
    emit({"steps_per_s": RUNS * STEPS / (time.perf_counter() - begun)})


async def latency(client: aiohttp.ClientSession) -> None:
    seconds: list[float] = []
    for number in range(WARM_UP + TIMES):
        begun = time.perf_counter()
        await call(client, "one_step", number)
        seconds.append(time.perf_counter() - begun)
    emit(latencies("latency", seconds[WARM_UP:]))


async def fan(client: aiohttp.ClientSession) -> None:
    await call(client, "fan_out", 5)
    begun = time.perf_counter()
    await call(client, "fan_out", WIDTH)
    emit({"fan_out_per_s": WIDTH / (time.perf_counter() - begun)})


async def work(name: str) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=RUNS)) as client:
        await registered(client)
        await {"steps": steps, "latency": latency, "fan-out": fan}[name](client)


def main(name: str, options: dict[str, Any]) -> None:
    settings = {
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_ADVERTISED_HOST": "127.0.0.1",
        "RESTATE_NODE_NAME": "bench",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "RUST_LOG": "error",
    }
    loop = ["--worker-class", "uvloop"] if options.get("uvloop") else []
    worker = [sys.executable, "-m", "hypercorn", "--bind", SERVICE, "--workers", "1", "--log-level", "error", *loop]
    with (
        tempfile.TemporaryDirectory(prefix="stepfast-bench-") as folder,
        running([options["server"], "--no-logo"], folder, RESTATE_BASE_DIR=folder, **settings),
        running([*worker, "bench.peers.restate_service:app"]),
    ):
        asyncio.run(work(name))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[3]))
