"""Workers that lose their lease while they live: frozen, blocked, poisoned."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter

import pytest

from stepfast import RunFailed, RunState, Stepfast, step, workflow
from stepfast.worker.heartbeat import Heartbeat
from tests.faults.processes import RESULT, died, results, victim
from tests.faults.victim import STEPS, chain, trace_of
from tests.support.apps import QUICK, Bodies


async def traced(trace, entry: tuple[int, int]) -> None:
    """Wait until a body has left its trace."""
    while entry not in trace_of(trace):
        await asyncio.to_thread(threading.Event().wait, 0.02)


async def test_a_worker_frozen_past_its_lease_changes_nothing_when_it_thaws(database, tmp_path):
    trace, gate = tmp_path / "trace", tmp_path / "gate"
    options = {"database": database, "trace": str(trace), "gate": str(gate)}
    with victim(**options, start=1, wait_at=[0, 2]) as frozen:
        await traced(trace, (0, 2))
        os.kill(frozen.pid, signal.SIGSTOP)
        with victim(**options):
            assert await results(database, 1) == [RESULT]
            gate.touch()
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


async def blocking_step_runs(database: str, tmp_path) -> int:
    """How often a body runs that blocks the event loop for longer than the lease, with another worker about."""
    bodies = Bodies()

    @step
    async def blocks() -> None:
        bodies.ran("blocks")
        threading.Event().wait(3.5)

    @workflow
    async def flow() -> None:
        await blocks()

    with victim(database=database, trace=str(tmp_path / "trace")):
        async with Stepfast(database, workflows=[flow], worker=QUICK) as app:
            run = await app.start(flow)
            await run.result(timeout="30s")
            reaped = [event for event in await run.history() if event.type == "reaped"]
    return bodies["blocks"] + len(reaped)


async def test_a_step_that_blocks_the_event_loop_does_not_cost_the_lease(database, tmp_path):
    assert await blocking_step_runs(database, tmp_path) == 1


async def test_the_broken_twin_that_beats_on_the_workers_own_loop_loses_its_lease(database, tmp_path, monkeypatch):
    def beat_on_the_home_loop(self) -> None:
        self._home.create_task(self._beat_until_stopped())

    async def stop(self) -> None:
        self._stop.set()

    monkeypatch.setattr(Heartbeat, "start", beat_on_the_home_loop)
    monkeypatch.setattr(Heartbeat, "stop", stop)
    with pytest.raises(RunFailed, match="died 3 times"):
        await blocking_step_runs(database, tmp_path)


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


async def failing(handle) -> None:
    while (await handle.info()).state is not RunState.FAILED:
        await asyncio.to_thread(threading.Event().wait, 0.05)
