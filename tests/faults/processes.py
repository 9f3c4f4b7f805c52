"""Worker processes that tests start, stop and kill."""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import AbstractContextManager
from typing import Any

from stepfast import Stepfast
from tests.faults.victim import STEPS, chain
from tests.support import victims

RESULT = sum(range(STEPS))


def victim(**options: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker process."""
    return victims.victim("tests.faults.victim", options)


async def results(database: str, runs: int) -> list[int]:
    """What the runs of a client that knows their keys come to."""
    async with Stepfast(database, workflows=[chain], worker=False) as client:
        started = await asyncio.gather(*(client.start(chain, number, key=str(number)) for number in range(runs)))
        return list(await asyncio.gather(*started))
