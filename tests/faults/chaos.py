"""One trial of chaos: worker processes that are killed and started again while commands rain on their runs.

Three recordings are compared at the end: what callers were answered, what bodies really did, and what the store has.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from stepfast import Run, RunState, Stepfast, StepfastError
from stepfast.kernel.states import ENDED
from tests.faults.processes import RESULT, victim
from tests.faults.victim import STEPS, chain, trace_of

WORKERS = 2
# A run whose worker is killed often may be taken for the culprit: then it is the crash budget that ended it.
CRASH_BUDGET = "E-RUN-002"
COMMANDS = ("cancel", "pause", "resume", "retry", "rerun")


async def a_moment() -> None:
    """Time for other processes; what is waited for happens there."""
    await asyncio.to_thread(threading.Event().wait, 0.05)


class Chaos:
    """Runs on a database, the processes that execute them, and what the callers were answered."""

    def __init__(self, database: str, trace: Path, seed: int) -> None:
        self._options = {"database": database, "trace": str(trace), "linger": 0.02}
        self._trace = trace
        self._random = random.Random(seed)
        self.kills = 0
        self.answered: dict[str, list[str]] = {}
        """The commands of each run that were confirmed, in order."""

    async def play(self, client: Stepfast, runs: int, rounds: int) -> list[Run[int]]:
        """Kill one of the workers in each round and command some runs; then let all that is left come to an end."""
        handles = [await client.start(chain, number, key=str(number)) for number in range(runs)]
        with ExitStack() as stack:
            workers = [stack.enter_context(victim(**self._options)) for _ in range(WORKERS)]
            for _ in range(rounds):
                await asyncio.gather(self._command_some(handles), self._progress())
                workers.append(self._replace(workers.pop(0), stack))
            await self._let_go(handles)
        return handles

    def _replace(self, process: subprocess.Popen[bytes], stack: ExitStack) -> subprocess.Popen[bytes]:
        process.kill()
        process.wait()
        self.kills += 1
        return stack.enter_context(victim(**self._options))

    async def _progress(self) -> None:
        """Wait until some more bodies have run, or for a while: a kill may leave nobody to run any."""
        seen, enough = len(trace_of(self._trace)), self._random.randint(5, 25)
        for _ in range(40):
            if len(trace_of(self._trace)) >= seen + enough:
                return
            await a_moment()

    async def _command_some(self, handles: list[Run[int]]) -> None:
        for run in self._random.sample(handles, len(handles) // 4):
            await self._command(run, self._random.choice(COMMANDS))

    async def _command(self, run: Run[int], name: str) -> None:
        try:
            await getattr(run, name)(actor="chaos")
        except StepfastError:
            return
        self.answered.setdefault(run.id, []).append(name)

    async def _let_go(self, handles: list[Run[int]]) -> None:
        """Resume what is paused until every run has ended."""
        async with asyncio.timeout(120):
            while open_runs := [run for run in handles if (await run.info()).state not in ENDED]:
                for run in open_runs:
                    await self._command(run, "resume")
                await a_moment()

    async def check(self, handles: list[Run[int]], client: Stepfast) -> None:
        """Every promise that these recordings can show."""
        await asyncio.gather(*(self._check_run(run, number) for number, run in enumerate(handles)))
        assert await client.findings() == [], "L1: a run is stuck."

    async def _check_run(self, run: Run[int], number: int) -> None:
        info, events, steps = await run.info(), await run.history(), await run.steps()
        types, tokens = [event.type for event in events], [event.token for event in events]
        assert [event.seq for event in events] == list(range(1, len(events) + 1)), "P16: events have gaps."
        assert tokens == sorted(tokens), f"P4: tokens went back: {tokens}."
        assert types[-1] == info.state, f"P12, P14: {types[-1]} came after the end."
        assert info.state in (RunState.COMPLETED, RunState.CANCELLED) or CRASH_BUDGET in (info.error or ""), info.error
        if info.state is RunState.COMPLETED:
            assert await run.result() == RESULT, "P12"
        ends = Counter((record.call, record.generation) for record in steps if record.superseded_by is None)
        assert not ends or max(ends.values()) == 1, f"P7: several results for one call: {ends}."
        self._check_answers(run, types)
        self._check_bodies(number, types)

    def _check_answers(self, run: Run[int], types: list[str]) -> None:
        answered = Counter(self.answered.get(run.id, []))
        for command, told in {"cancel": "cancelled", "rerun": "rerun", "retry": "retried"}.items():
            assert types.count(told) == answered[command], f"P1, P12: {answered} were answered, and told {types}."

    def _check_bodies(self, number: int, types: list[str]) -> None:
        ran = Counter(index for run, index in trace_of(self._trace) if run == number)
        again = sum(types.count(name) for name in ("reaped", "handed_back", "cancelled", "rerun", "retried", "paused"))
        for index in range(STEPS):
            assert ran[index] <= 1 + again, f"P9: step {index} of run {number} ran {ran[index]} times: {types}."
