"""A worker process to be killed in the middle of a run with a large result.

Called as `python -m tests.blobs.victim DATABASE BLOBS TRACE`: it starts the run, and dies in its second step.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from stepfast import Stepfast, step, workflow
from tests.blobs.places import BIG
from tests.support.apps import MORTAL

KEY = "once"


class Trace:
    """A file with the name of every body that really ran; a victim dies where it is told to."""

    path: Path
    dies_in = ""

    @classmethod
    def ran(cls, name: str) -> None:
        with cls.path.open("a") as file:
            file.write(f"{name}\n")
        if name == cls.dies_in:
            os.kill(os.getpid(), signal.SIGKILL)


@step
async def make(size: int) -> str:
    Trace.ran("make")
    return "x" * size


@step
async def measure(text: str) -> int:
    Trace.ran("measure")
    return len(text)


@workflow
async def chain(size: int) -> int:
    return await measure(await make(size))


async def main(database: str, blobs: str) -> None:
    async with Stepfast(database, workflows=[chain], worker=MORTAL, blobs=blobs) as app:
        await app.start(chain, BIG, key=KEY)
        await asyncio.Event().wait()


if __name__ == "__main__":
    Trace.path, Trace.dies_in = Path(sys.argv[3]), "measure"
    asyncio.run(main(sys.argv[1], sys.argv[2]))
