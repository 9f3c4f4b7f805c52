"""A worker that is told to stop gives back at once what it holds, whatever it was doing when it was told."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from stepfast import RunState
from stepfast.worker.execute import Executor
from stepfast.worker.heartbeat import Heartbeat
from stepfast.worker.lease import Lease
from stepfast.workflows.functions import AsyncWorkflow
from tests.cli.processes import ROOT, SHOP, Pipes, environment
from tests.cli.shop import LONG_S, blocking, hanging, leaving_a_thread
from tests.faults.server import own_server
from tests.support.apps import app_on, migrated
from tests.support.workflows import say

COMMAND = "import sys; from stepfast.cli.main import main; sys.exit(main())"
# This machine may stand still for longer than the store has to take runs back.
PATIENT = "from stepfast.cli import leaving; leaving.RETIRE_S = leaving.SILENT_S = 60; "
DEAF = f"from stepfast.cli.signals import Signals; Signals.install = lambda self: None; {COMMAND}"


class Leaving(NamedTuple):
    """How a worker process ends that gets a SIGTERM in a step, None: it does not; and who holds the run afterwards."""

    code: int | None
    holder: str | None


async def leaving(
    database: str, folder: Path, program: str, workflow: AsyncWorkflow[[str], int], patience_s: float
) -> Leaving:
    pipes = Pipes(folder, "begun")
    options = ["worker", "--app", SHOP, "--grace", "0s", "--lease", "10m", "--database", database]
    async with app_on(database, [workflow], worker=False) as client:
        run = await client.start(workflow, pipes.folder)
        with subprocess.Popen([sys.executable, "-c", program, *options], cwd=ROOT, env=environment()) as process:
            code = None
            try:
                await pipes.hear("begun")
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    code = await asyncio.to_thread(process.wait, patience_s)
            finally:
                process.kill()
        return Leaving(code, (await run.info()).worker_id)


async def test_a_worker_process_gives_its_run_back_when_it_is_told_to_stop(database, tmp_path):
    assert await leaving(database, tmp_path, PATIENT + COMMAND, hanging, 60) == (0, None)


async def test_the_broken_twin_that_does_not_listen_leaves_its_run_leased(database, tmp_path):
    left = await leaving(database, tmp_path, DEAF, hanging, 60)
    assert (left.code, left.holder is None) == (-signal.SIGTERM, False)


IMPATIENT = f"{PATIENT}leaving.HAND_BACK_S = 0.2; "
STUCK = f"{IMPATIENT}leaving.Deadline.begin = lambda self: None; {COMMAND}"
# Ten times what the deadline is; whoever is still there then has none.
LONG_AFTER_S = 2.0


async def test_a_worker_process_ends_although_a_step_blocks_its_loop(database, tmp_path):
    assert (await leaving(database, tmp_path, IMPATIENT + COMMAND, blocking, 60)).code == 0


async def test_the_broken_twin_without_a_deadline_stays(database, tmp_path):
    assert (await leaving(database, tmp_path, STUCK, blocking, LONG_AFTER_S)).code is None


# Less than the thread of the step goes on, so that who waits for it is still there.
BEFORE_THE_THREAD_S = LONG_S / 2
# Whose runs are back before the deadline, however busy this machine is, and who waits for all threads from there on.
UNENDING = f"{PATIENT}leaving.HAND_BACK_S = leaving.LAST_THREADS_S = 3_600; {COMMAND}"


async def test_a_worker_process_ends_although_a_thread_of_a_step_goes_on(database, tmp_path):
    assert await leaving(database, tmp_path, PATIENT + COMMAND, leaving_a_thread, BEFORE_THE_THREAD_S) == (0, None)


async def test_the_broken_twin_that_waits_for_the_last_threads_stays(database, tmp_path):
    left = await leaving(database, tmp_path, UNENDING, leaving_a_thread, LONG_AFTER_S)
    assert left.code is None


async def test_a_worker_process_that_a_silent_store_keeps_waiting_ends_and_says_so(tmp_path):
    pipes = Pipes(tmp_path, "begun")
    with own_server() as server:
        await migrated(server.url)
        options = ["worker", "--app", SHOP, "--grace", "0s", "--lease", "10m", "--database", server.url]
        command = [sys.executable, "-c", COMMAND, *options]
        async with app_on(server.url, [hanging], worker=False) as client:
            run = await client.start(hanging, pipes.folder)
            with subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True) as process:
                try:
                    await pipes.hear("begun")
                    with server.frozen():
                        process.terminate()
                        _, told = await asyncio.to_thread(process.communicate, timeout=60)
                finally:
                    process.kill()
            assert process.returncode == 1
            assert "The store did not answer when this worker left. Nothing that was saved is lost" in told
            assert (await run.info()).state is RunState.RUNNING


async def held_after_a_stop_during_a_claim(database: str) -> set[str | None]:
    """Who holds runs that the store has leased to a worker which stops before it hears of it."""
    async with app_on(database, [say], worker=False) as client:
        runs = [await client.start(say, "a") for _ in range(5)]
        app = app_on(database, [say])
        await app.open()
        assert app._parts is not None
        store: Any = app._parts.store
        claim, leased = store.claim, asyncio.Event()

        async def claim_and_hear_nothing(request):
            if (await claim(request)).runs:
                leased.set()
                await asyncio.Event().wait()

        store.claim = claim_and_hear_nothing
        more = [await client.start(say, "a") for _ in range(20)]
        async with asyncio.timeout(60):
            await leased.wait()
        await app.close()
        return {(await run.info()).worker_id for run in [*runs, *more]}


async def test_a_worker_that_stops_during_a_claim_leaves_nothing_leased(database):
    assert await held_after_a_stop_during_a_claim(database) == {None}


async def test_the_broken_twin_that_leaves_without_a_word_leaves_runs_leased(database, monkeypatch):
    async def stop_beating(self) -> None:
        heartbeat: Heartbeat = self._heartbeat
        await heartbeat.stop()

    monkeypatch.setattr(Lease, "end", stop_beating)
    assert await held_after_a_stop_during_a_claim(database) != {None}


async def untold_after_a_stop_during_a_claim(database: str) -> int:
    """How many of such runs have come to their end without a word of their beginning."""
    await held_after_a_stop_during_a_claim(database)
    async with app_on(database, [say]) as app:
        runs = [app.get(view.run_id) for view in await app.runs()]
        for run in runs:
            assert await run.result(timeout=60) == "a"
        told = [[event.type for event in await run.history()].count("started") for run in runs]
        assert max(told) <= 1
        return told.count(0)


async def test_what_a_worker_that_stops_had_claimed_tells_of_its_beginning(database):
    assert await untold_after_a_stop_during_a_claim(database) == 0


async def test_the_broken_twin_that_takes_a_claim_for_a_beginning_does_not_tell_of_it(database, monkeypatch):
    execute = Executor.execute

    def execute_by_claims(self, run, workflow, history, done) -> None:
        run.begun = run.claims > 1
        execute(self, run, workflow, history, done)

    monkeypatch.setattr(Executor, "execute", execute_by_claims)
    assert await untold_after_a_stop_during_a_claim(database) > 0


async def first_signal_ends_it(program: str, folder: Path) -> int:
    """How a worker process ends that is told while it imports its app, which is the longest part of its start."""
    pipes = Pipes(folder, "begun")
    (folder / "slow.py").write_text(
        "import threading\nfrom tests.cli.shop import tell\n"
        f"tell({pipes.folder!r}, 'begun')\nthreading.Event().wait(60)\n"
    )
    options = ["worker", "--app", f"{folder}/slow.py", "--database", "sqlite:///unused.db"]
    with subprocess.Popen([sys.executable, "-c", program, *options], cwd=ROOT, env=environment()) as process:
        try:
            await pipes.hear("begun")
            process.terminate()
            return await asyncio.to_thread(process.wait, 60)
        finally:
            process.kill()


async def test_a_worker_listens_before_it_imports_its_app(tmp_path):
    assert await first_signal_ends_it(COMMAND, tmp_path) == 0


async def test_the_broken_twin_that_does_not_listen_yet_ends_by_the_signal(tmp_path):
    assert await first_signal_ends_it(DEAF, tmp_path) == -signal.SIGTERM
