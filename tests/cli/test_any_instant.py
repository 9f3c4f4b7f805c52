"""SIGTERM from the first millisecond of a process on: it ends in time and leaves nothing leased, whatever it was at."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

import pytest

from stepfast import RunState
from tests.cli.processes import Pipes, running, worker
from tests.cli.shop import hanging_in_a_thread, quick
from tests.support.apps import app_on
from tests.support.following import state_of

# From before the interpreter has read its first line to well behind the first claim, also on a busy machine.
INSTANTS_S = [0.0, 0.02, 0.1, 0.3, 0.6, 1.0, 1.5, 2.5]
SHOP_FILE = "tests/cli/shop.py"


async def test_a_worker_told_to_stop_at_any_instant_leaves_nothing_leased(database):
    async with app_on(database, [quick], worker=False) as client:
        runs = [await client.start(quick) for _ in range(200)]
        with ExitStack() as stack:
            workers = [stack.enter_context(worker(database, "--grace", "1s", "--lease", "10m")) for _ in INSTANTS_S]
            never = threading.Event()
            begun = asyncio.get_running_loop().time()
            for process, instant in zip(workers, INSTANTS_S, strict=True):
                await asyncio.to_thread(never.wait, begun + instant - asyncio.get_running_loop().time())
                process.process.terminate()
            codes = {await process.ends() for process in workers}
        # Before Python itself has begun, the signal ends the process without asking it.
        assert codes <= {0, -signal.SIGTERM}
        infos = [await run.info() for run in runs]
        assert {info.worker_id for info in infos} == {None}
        assert {info.crashes for info in infos} == {0}
        assert {info.state for info in infos} <= {RunState.COMPLETED, RunState.PENDING, RunState.RUNNING}


@contextmanager
def ignoring_ctrl_c() -> Iterator[None]:
    """What is started here ignores SIGINT, as what a script starts in the background does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("started", [nullcontext, ignoring_ctrl_c], ids=["at a terminal", "in the background"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_command_that_executes_a_run_gives_it_back_although_its_thread_goes_on(
    database, tmp_path, number, started
):
    pipes = Pipes(tmp_path, "begun")
    with ExitStack() as stack:
        words = ("run", f"{SHOP_FILE}:hanging_in_a_thread", f'"{pipes.folder}"', "--database", database)
        with started():
            command = stack.enter_context(running(*words, STEPFAST_GRACE="0s"))
        await pipes.hear("begun")
        command.process.send_signal(number)
        assert await command.ends() == 128 + number
    async with app_on(database, [hanging_in_a_thread], worker=False) as client:
        (run,) = await client.runs()
        assert (run.worker_id, run.crashes) == (None, 0)
        assert await state_of(client.get(run.run_id), RunState.RUNNING)
