"""Worker processes that tests start, stop and kill."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager

from stepfast import Stepfast
from tests.faults.victim import STEPS, chain

RESULT = sum(range(STEPS))


@contextmanager
def victim(**options):
    """A worker process; ended by its own pid when the test is done with it."""
    process = subprocess.Popen([sys.executable, "-m", "tests.faults.victim", json.dumps(options)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def died(process: subprocess.Popen[bytes]) -> None:
    await asyncio.to_thread(process.wait)


async def results(database: str, runs: int) -> list[int]:
    """What the runs of a client that knows their keys come to."""
    async with Stepfast(database, workflows=[chain], worker=False) as client:
        started = await asyncio.gather(*(client.start(chain, number, key=str(number)) for number in range(runs)))
        return list(await asyncio.gather(*started))
