"""Workers that lose their lease while they live: frozen, blocked, poisoned."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from stepfast import Run, RunFailed, RunState, Stepfast, step, workflow
from stepfast.worker.heartbeat import Heartbeat
from tests.faults.processes import RESULT, results, victim
from tests.faults.victim import STEPS, chain, trace_of
from tests.support.apps import QUICK, Bodies
from tests.support.sql import fetch
from tests.support.victims import Ear, Gate, died, ear


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Ear]:
    """Where other processes say that they have done something."""
    with ear(tmp_path / "ears") as heard:
        yield heard


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Where a body of another process waits."""
    with closing(Gate(tmp_path / "gate")) as gate:
        yield gate


async def traced(others: Ear, trace: Path, entry: tuple[int, int]) -> None:
    """Wait until a body has left its trace."""

    async def has_it() -> bool:
        return entry in trace_of(trace)

    await others.until(has_it)


async def test_a_worker_frozen_past_its_lease_changes_nothing_when_it_thaws(database, tmp_path, others, gate):
    trace = tmp_path / "trace"
    options = {"database": database, "trace": str(trace), "gate": str(gate.path), "ears": str(tmp_path / "ears")}
    with victim(**options, start=1, wait_at=[0, 2]) as frozen:
        await traced(others, trace, (0, 2))
        os.kill(frozen.pid, signal.SIGSTOP)
        with victim(**options):
            assert await results(database, 1) == [RESULT]
            gate.open()
            os.kill(frozen.pid, signal.SIGCONT)
            async with Stepfast(database, workflows=[chain], worker=False) as client:
                (run,) = await client.runs()
                handle = client.get(run.run_id)
                # The thawed worker works again, under a new id, and what it still had is not written.
                assert await (await client.start(chain, 1)) == RESULT
                records = [record.call.nth for record in await handle.steps()]
                ends = [event.type for event in await handle.history() if event.type == "completed"]
    assert records == [1, 2, 3, 4, 5]
    assert ends == ["completed"]
    assert Counter(trace_of(trace))[(0, 2)] == 2


REAPED = "select count(*) from stepfast.event where type = 'reaped'"


async def blocking_step_runs(database: str, tmp_path: Path, lease_ms: int, block: Callable[[Bodies], object]) -> int:
    """How often a body runs that blocks the event loop for longer than the lease, with another worker about."""
    bodies = Bodies()

    @step
    async def blocks() -> None:
        bodies.ran("blocks")
        block(bodies)

    @workflow
    async def flow() -> None:
        await blocks()

    settings = replace(QUICK, lease_ms=lease_ms, heartbeat_ms=lease_ms // 8)
    ears = tmp_path / "ears"
    with ear(ears) as others, victim(database=database, trace=str(tmp_path / "trace"), ears=str(ears)):
        await others.until(lambda: is_a_worker_there(database))
        async with Stepfast(database, workflows=[flow], worker=settings) as app:
            run = await app.start(flow)
            await run.result(timeout="60s")
            reaped = [event for event in await run.history() if event.type == "reaped"]
    return bodies["blocks"] + len(reaped)


async def is_a_worker_there(database: str) -> bool:
    async with Stepfast(database, workflows=[], worker=False) as client:
        return bool(await client.workers.list())


async def test_a_step_that_blocks_the_event_loop_does_not_cost_the_lease(database, tmp_path):
    # Long enough for a busy machine to answer some heartbeat in time.
    lease_ms = 6_000

    def outlast_the_lease(bodies: Bodies) -> None:
        threading.Event().wait(1.5 * lease_ms / 1_000)

    assert await blocking_step_runs(database, tmp_path, lease_ms, outlast_the_lease) == 1


async def test_the_broken_twin_that_beats_on_the_workers_own_loop_loses_its_lease(database, tmp_path, monkeypatch):
    def beat_on_the_home_loop(self) -> None:
        self._home.create_task(self._beat_until_stopped())

    async def stop(self) -> None:
        self._stop.set()

    def block_until_it_is_lost(bodies: Bodies) -> None:
        with ThreadPoolExecutor(1) as thread:
            while thread.submit(asyncio.run, fetch(database, REAPED)).result()[0][0] < bodies["blocks"]:
                pass

    monkeypatch.setattr(Heartbeat, "start", beat_on_the_home_loop)
    monkeypatch.setattr(Heartbeat, "stop", stop)
    with pytest.raises(RunFailed, match="died 3 times"):
        await blocking_step_runs(database, tmp_path, 1_000, block_until_it_is_lost)


async def test_a_poison_run_is_found_out_and_the_innocent_ones_complete(database, tmp_path):
    trace, runs, poison = tmp_path / "trace", 30, 7
    options = {"database": database, "trace": str(trace), "die_at": [poison, 2]}
    async with Stepfast(database, workflows=[chain], worker=False) as client:
        handles = [await client.start(chain, number) for number in range(runs)]
        crashes = 0
        while (await handles[poison].info()).state is not RunState.FAILED:
            with victim(**options) as process:
                ended = asyncio.ensure_future(died(process))
                failed = asyncio.ensure_future(failing(handles[poison]))
                await asyncio.wait({ended, failed}, return_when=asyncio.FIRST_COMPLETED)
                crashes += ended.done()
                failed.cancel()
        with victim(database=database, trace=str(trace)):
            outcomes = [await handle for number, handle in enumerate(handles) if number != poison]
    assert outcomes == [RESULT] * (runs - 1)
    assert crashes <= 8
    assert Counter(trace_of(trace))[(poison, STEPS - 1)] == 0


async def failing(handle: Run[int]) -> None:
    with suppress(RunFailed):
        await handle.result()
