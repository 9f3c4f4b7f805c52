"""One trial of chaos: worker processes that are killed, frozen and stopped while commands rain on their runs.

Three recordings are compared at the end: what callers were answered, what bodies really did, and what the store has.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import subprocess
import threading
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from itertools import count
from pathlib import Path
from typing import Any

from stepfast import Run, RunState, Stepfast, StepfastError
from stepfast.kernel.commands import Changed
from stepfast.kernel.errors import StoreUnavailable
from stepfast.kernel.states import ENDED
from tests.faults.chaos_victim import LEASE_MS, bodies_of, relay
from tests.support import victims
from tests.support.accounting import UNHEARD_RUNS
from tests.support.promises import Command, Kept, Recordings, Result, Start, Stored, Told
from tests.support.sql import fetch
from tests.support.victims import Ear, ear

WORKERS = 2
COMMANDS = ("cancel", "pause", "resume", "retry", "rerun")
# A run whose worker is killed often may be taken for the culprit: then it is the crash budget that ended it.
CRASH_BUDGET = "E-RUN-002"
FROZEN_S = 1.5 * LEASE_MS / 1_000

RUNS = "select cast(run_id as text), key, state, value, error from stepfast.run_state"
EVENTS = "select cast(run_id as text), seq, type, generation, token from stepfast.event order by run_id, seq"
STEPS = """
select cast(run_id as text), path, name, count, state, generation, token, superseded_by is not null, value
  from stepfast.step
 order by run_id, seq
"""
OUTCOMES = "select cast(run_id as text), generation, state from stepfast.outcome order by run_id, generation"


def victim(options: dict[str, Any]) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker process."""
    return victims.victim("tests.faults.chaos_victim", options)


class Chaos:
    """Runs on a database, the processes that execute them, and what the callers were answered."""

    def __init__(self, database: str, trace: Path, seed: int, **options: Any) -> None:
        self._database = database
        self._trace = trace
        self._ears = trace.with_suffix(".ears")
        told = {"database": database, "trace": str(trace), "ears": str(self._ears)}
        self._options = {**told, "linger": 0.02, **options}
        self._random = random.Random(seed)
        self._keys = count()
        self._starts: list[Start] = []
        self._commands: list[Command] = []
        self._results: list[Result] = []
        self.blows: list[str] = []

    async def play(self, runs: int, blows: list[str], to_the_end: bool = True) -> Recordings:
        """Strike one of the workers in each round and command some runs; then let all that is left come to an end."""
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(Stepfast(self._database, workflows=[relay], worker=False))
                for _ in range(2)
            ]
            handles = [await self._start(clients, number) for number in range(runs)]
            with ExitStack() as processes:
                others = processes.enter_context(ear(self._ears))
                workers = [processes.enter_context(victim(self._options)) for _ in range(WORKERS)]
                for blow in blows:
                    await asyncio.gather(self._command_some(clients, handles), self._progress(others, handles))
                    workers.append(await self._strike(blow, workers.pop(0), processes))
                if to_the_end:
                    await self._let_go(others, handles)
            await self._ask_for_results(clients, handles)
        return await self._recordings()

    async def stuck(self) -> list[str]:
        """Runs that have neither ended nor wait for something that can come, or failed for no good reason."""
        async with Stepfast(self._database, workflows=[relay], worker=False) as client:
            found = [f"{finding.clause} {finding.run_id}" for finding in await client.findings()]
        unheard = await fetch(self._database, UNHEARD_RUNS)
        failed = [row for row in await fetch(self._database, RUNS) if row[2] == RunState.FAILED]
        return [*found, *map(str, unheard), *(str(row) for row in failed if CRASH_BUDGET not in row[4])]

    async def _start(self, clients: list[Stepfast], number: int) -> Run[list[str]]:
        """Start a run by all clients at once, with one key."""
        runs = await asyncio.gather(*(client.start(relay, number, key=str(number)) for client in clients))
        self._starts += [Start(str(number), run.id) for run in runs]
        return runs[0]

    async def _strike(self, blow: str, process: subprocess.Popen[bytes], stack: ExitStack) -> subprocess.Popen[bytes]:
        """Do something to a worker; the one that goes on in its place."""
        self.blows.append(blow)
        if blow == "freeze":
            process.send_signal(signal.SIGSTOP)
            # A lease that nobody renews runs out by itself, and by no clock but the real one.
            await asyncio.to_thread(threading.Event().wait, FROZEN_S)
            process.send_signal(signal.SIGCONT)
            return process
        process.send_signal(signal.SIGTERM if blow == "stop" else signal.SIGKILL)
        await victims.died(process)
        return stack.enter_context(victim(self._options))

    async def _progress(self, others: Ear, handles: list[Run[list[str]]]) -> None:
        """Wait until some more bodies have run; commands may leave no run that has any."""
        enough = len(bodies_of(self._trace)) + self._random.randint(5, 25)

        async def is_enough() -> bool:
            return len(bodies_of(self._trace)) >= enough or not await self._can_any_go_on(handles)

        await others.until(is_enough)

    async def _can_any_go_on(self, handles: list[Run[list[str]]]) -> bool:
        return any([(await run.info()).state not in ENDED | {RunState.PAUSED} for run in handles])

    async def _command_some(self, clients: list[Stepfast], handles: list[Run[list[str]]]) -> None:
        for run in self._random.sample(handles, len(handles) // 4):
            await self._command(clients, run.id, self._random.choice(COMMANDS))

    async def _command(self, clients: list[Stepfast], run_id: str, name: str) -> None:
        """Send a command by one client and, when it was carried out, once more by the other."""
        key = f"{name}-{next(self._keys)}"
        answers: list[str] = []
        is_unsure = False
        for client in clients:
            try:
                changed: Changed = await getattr(client.get(run_id), name)(actor="chaos", key=key)
            except StoreUnavailable:
                is_unsure = True
                break
            except StepfastError as refusal:
                if not answers:
                    break
                answers.append(f"refused: {refusal}")
            else:
                answers.append(f"{changed.state} {changed.generation}")
        self._commands.append(Command(run_id, name, key, tuple(answers), is_unsure))

    async def _let_go(self, others: Ear, handles: list[Run[list[str]]]) -> None:
        """Resume what is paused until every run has ended."""

        async def have_all_ended() -> bool:
            open_runs = [run for run in handles if (await run.info()).state not in ENDED]
            for run in open_runs:
                await self._resume(run)
            return not open_runs

        await others.until(have_all_ended)

    async def _resume(self, run: Run[list[str]]) -> None:
        try:
            await run.resume(actor="chaos")
        except StepfastError:
            return

    async def _ask_for_results(self, clients: list[Stepfast], handles: list[Run[list[str]]]) -> None:
        for run in handles:
            if (await run.info()).state is RunState.COMPLETED:
                values = [await client.get(run.id).result() for client in clients]
                self._results += [Result(run.id, json.dumps(value)) for value in values]

    async def _recordings(self) -> Recordings:
        runs = await stored_runs(self._database)
        return Recordings(self._starts, self._commands, self._results, bodies_of(self._trace), runs)


async def stored_runs(database: str) -> list[Stored]:
    """What the store has of every run."""
    events: dict[str, list[Told]] = {}
    for run_id, seq, kind, generation, token in await fetch(database, EVENTS):
        events.setdefault(run_id, []).append(Told(seq, kind, generation, token))
    records: dict[str, list[Kept]] = {}
    for run_id, path, name, nth, state, generation, token, superseded, value in await fetch(database, STEPS):
        kept = Kept(f"{path}/{name}/{nth}", state, generation, token, bool(superseded), value and json.loads(value))
        records.setdefault(run_id, []).append(kept)
    outcomes: dict[str, list[tuple[int, str]]] = {}
    for run_id, generation, state in await fetch(database, OUTCOMES):
        outcomes.setdefault(run_id, []).append((generation, state))
    return [
        Stored(
            run_id,
            key,
            state,
            value and json.dumps(json.loads(value)),
            events.get(run_id, []),
            records.get(run_id, []),
            outcomes.get(run_id, []),
        )
        for run_id, key, state, value, _ in await fetch(database, RUNS)
    ]
