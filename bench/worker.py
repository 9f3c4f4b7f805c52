"""A worker in a process of its own, until it is killed: `python -m bench.worker URL '{"concurrency": 200}'`."""

from __future__ import annotations

import asyncio
import json
import sys

from bench.processes import run_loop
from bench.workflows import ALL
from stepfast import Stepfast, WorkerSettings


async def serve(url: str, settings: WorkerSettings) -> None:
    async with Stepfast(url, workflows=ALL, worker=settings):
        await asyncio.Event().wait()


if __name__ == "__main__":
    run_loop(serve(sys.argv[1], WorkerSettings(**json.loads(sys.argv[2]))))
