"""An app that was never closed keeps neither its process, where that would end, nor its runs, where it lives on."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from stepfast import WaitTimeout, step, workflow
from tests.cli.processes import ROOT, environment
from tests.support.apps import app_on

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
LIVING = (
    PROGRAM.replace("import Stepfast,", "import Stepfast, WorkerSettings,").replace(
        "workflows=[waits]", "workflows=[waits], worker=WorkerSettings(lease_ms=1_000, heartbeat_ms=100)"
    )
    + "sys.stdin.read()\n"
)
BEATING = """
from stepfast.worker.heartbeat import Heartbeat
Heartbeat._is_orphaned = False
"""
INTERRUPTED = """
import asyncio, os, signal, sys, threading
from stepfast import WorkerSettings, step, sync, workflow

begun, closing, sent = threading.Event(), threading.Event(), threading.Event()

@step
async def endless() -> None:
    begun.set()
    await asyncio.Event().wait()

@workflow
def waits() -> None:
    endless.sync()

def interrupt() -> None:
    closing.wait()
    os.kill(os.getpid(), signal.SIGINT)
    sent.set()

app = sync.Stepfast(sys.argv[1], workflows=[waits], worker=WorkerSettings(grace_ms=500))
close = app._inner.close

async def tell_and_close() -> None:
    closing.set()
    await asyncio.to_thread(sent.wait)
    await close()

app._inner.close = tell_and_close
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
try:
    with app:
        app.start(waits)
        begun.wait()
except KeyboardInterrupt:
    print("left", flush=True)
for thread in threading.enumerate():
    if thread.name == "stepfast-sync":
        thread.join()
print(*(thread.name for thread in threading.enumerate() if thread.name.startswith("stepfast")), flush=True)
sys.stdin.read()
"""
LONG_AFTER_S = 3.0


@step
async def endless() -> None: ...


@workflow
def waits() -> str:
    endless.sync()
    return "went on"


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


async def result_beside(database: str, program: str, patience_s: float) -> str:
    """What becomes of the run of a process that has left its event loop with an open app, and lives on."""
    command, pipe = [sys.executable, "-c", program, database], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        try:
            assert await asyncio.to_thread(process.stdout.readline) == b"left\n"
            if program is INTERRUPTED:
                assert await asyncio.to_thread(process.stdout.readline) == b"\n"
            async with app_on(database, [waits]) as app:
                (run,) = await app.runs()
                result: str = await app.get(run.run_id).result(timeout=patience_s)
                return result
        finally:
            process.kill()


async def test_runs_of_an_app_that_was_left_open_go_on_elsewhere_while_its_process_lives(database):
    assert await result_beside(database, LIVING, 60) == "went on"


async def test_the_broken_twin_that_beats_without_its_loop_keeps_the_runs_for_ever(database):
    with pytest.raises(WaitTimeout):
        await result_beside(database, BEATING + LIVING, 2 * LONG_AFTER_S)


async def test_a_blocking_app_whose_closing_is_interrupted_closes_all_the_same(database):
    assert await result_beside(database, INTERRUPTED, 20) == "went on"
