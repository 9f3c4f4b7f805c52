"""A process ends whose app was never closed, also while a `def` workflow waits in one of its threads."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from tests.cli.processes import ROOT, environment

PROGRAM = """
import asyncio, sys
from stepfast import Stepfast, step, workflow

begun = asyncio.Event()

@step
async def endless() -> None:
    begun.set()
    await asyncio.Event().wait()

@workflow
def waits() -> None:
    endless.sync()

async def main() -> None:
    app = Stepfast(sys.argv[1], workflows=[waits])
    await app.__aenter__()
    await app.start(waits)
    await begun.wait()

asyncio.run(main())
print("left", flush=True)
"""
STUBBORN = PROGRAM.replace(
    "    endless.sync()",
    """
    while True:
        try:
            endless.sync()
        except:
            pass
""",
)
POOLED = """
from concurrent.futures import ThreadPoolExecutor
from stepfast.worker import worker
worker.CodeThreads = lambda name: ThreadPoolExecutor(4)
"""
LONG_AFTER_S = 3.0


async def ends(database: str, program: str, patience_s: float) -> int | None:
    """How a process ends that has left its event loop with an open app; None: it does not."""
    command = [sys.executable, "-c", program, database]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert await asyncio.to_thread(process.stdout.readline) == b"left\n"
            return await asyncio.to_thread(process.wait, patience_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.kill()


@pytest.mark.parametrize("program", [PROGRAM, STUBBORN], ids=["waits", "catches everything"])
async def test_a_process_ends_although_its_app_was_left_open(database, program):
    assert await ends(database, program, 60) == 0


async def test_the_broken_twin_that_waits_for_its_threads_stays(database):
    assert await ends(database, POOLED + PROGRAM, LONG_AFTER_S) is None
