"""Upkeep: burying workers that are gone, giving their runs back to the line, and ending what nobody else will."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from stepfast.engine.stopping import stop_left_outside
from stepfast.kernel.commands import Cancel, Changed, Request, TimeOut
from stepfast.kernel.errors import LeaseLost, StepfastError
from stepfast.kernel.exchange import DeadRun, Upkeep, UpkeepReport
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.ports import Clock, Store
from stepfast.kernel.texts import counted
from stepfast.log import Failures, Log
from stepfast.worker.execute import out_of_time
from stepfast.workflows import failures

log = Log("upkeep")

RUNS_PER_PASS = 1_000
# Passes of many workers spread out. An idle worker stays below two statements a second with its polling, its heartbeats
# and what it does once a minute.
SPREAD = 0.5
# One transaction locks all runs that it commands: few enough not to keep their holders waiting.
COMMANDS_AT_ONCE = 100
# Passes of several workers for one dead neighbour do not come in the same millisecond.
LATE_MS = 100
ACTOR = "stepfast"
# Whoever ends a run sees to its outside work at once, and whoever buries a worker to what that left; this is for those
# who died without being one, such as a process that only commands. An idle worker can afford a statement a minute.
PASSES_PER_LOOK_OUTSIDE = 60

Change = Callable[[Sequence[Request]], Awaitable[list[Changed | StepfastError]]]
Reaped = Callable[[Sequence[RunId], DeadRun], Awaitable[None]]


async def tell_nobody(run_ids: Sequence[RunId], verdict: DeadRun) -> None:
    """Nobody here wants to hear of runs that upkeep failed for good."""


class UpkeepLoop:
    """Makes one pass after the other; one that fails is a line in the log, never the end of the loop."""

    def __init__(self, store: Store, clock: Clock, interval_ms: int, max_crashes: int) -> None:
        self._store = store
        self._clock = clock
        self._interval_ms = interval_ms
        self._max_crashes = max_crashes
        self.me: Callable[[], str] = str
        self.to_keep: Callable[[], WorkerId | None] = lambda: None
        self.may_bury: Callable[[], bool] = lambda: True
        self.returned: Callable[[], None] = lambda: None
        self.change: Change = store.change
        self.reaped: Reaped = tell_nobody
        self.defined: Callable[[int], None] = lambda number: None
        self.kept: Callable[[WorkerId, float], None] = lambda worker_id, sent_at: None
        self.passes = 0
        self._has_more = False
        self._failures = Failures()
        self._turn = asyncio.Lock()

    async def run(self) -> None:
        pause_ms = self._interval_ms
        while True:
            await self._clock.sleep(pause_ms)
            pause_ms = self._pause_ms(await self.make_pass())

    def _pause_ms(self, report: UpkeepReport | None) -> int:
        pause_ms = round(self._interval_ms * (1 + SPREAD * random.random()))
        if report is None:
            return pause_ms
        if self._has_more:
            return 0
        # Whoever is silent by then is buried then, and not a pass later.
        left_ms = (report.silent_at or 0) - self._clock.now()
        return min(pause_ms, left_ms + random.randint(1, LATE_MS)) if left_ms > 0 else pause_ms

    async def make_pass(self) -> UpkeepReport | None:
        """See to what is owed; None: that failed. Whatever this made ready has been told of by the end."""
        # One after the other: who asks for a pass must not miss what another has just made ready, and not told of yet.
        async with self._turn:
            return await self._make_pass()

    async def _make_pass(self) -> UpkeepReport | None:
        try:
            request, sent_at = self._request(), time.monotonic()
            report = await self._store.upkeep(request)
            if report.kept and request.worker_id is not None:
                self.kept(request.worker_id, sent_at)
            self._tell(report)
            looks_outside = report.buried or (self.passes + 1) % PASSES_PER_LOOK_OUTSIDE == 0
            if looks_outside and await stop_left_outside(self._store):
                self.returned()
            if report.failed:
                await self.reaped(report.failed, request.verdict)
            requests = [*map(_time_out, report.overdue), *map(_cancel_child, report.unjoined)]
            has_ended = await self._carry_out(requests)
            if has_ended:
                # Whoever waited for one of them may be ready now.
                self.returned()
            # Commands that change nothing would come again at once, and again.
            self._has_more = has_ended and len(requests) >= RUNS_PER_PASS
        except Exception as error:  # noqa: BLE001 - whatever it is, the next pass must come
            if failures := self._failures.add(error):
                log.failure("upkeep_failed", error, worker_id=self.me(), failures=failures)
            return None
        self._failures.end()
        self.passes += 1
        return report

    async def _carry_out(self, requests: list[Request]) -> bool:
        """Command what a pass has left to do; whether that ended anything.

        A run that has moved on meanwhile is refused, and that is right.
        """
        ended: Counter[str] = Counter()
        for start in range(0, len(requests), COMMANDS_AT_ONCE):
            page = requests[start : start + COMMANDS_AT_ONCE]
            answers = zip(page, await self.change(page), strict=True)
            ended.update(request.command.name for request, answer in answers if isinstance(answer, Changed))
        if ended:
            log.warning("runs_ended", worker_id=self.me(), **ended)
        return bool(ended)

    def _request(self) -> Upkeep:
        error = LeaseLost(
            f"Its worker died {counted(self._max_crashes, 'time')} while it executed nothing but this run. "
            f"See {LeaseLost.code}: find out what kills the process, then replay the run."
        )
        return Upkeep(self.may_bury(), self._max_crashes, RUNS_PER_PASS, _verdict(error), self.to_keep())

    def _tell(self, report: UpkeepReport) -> None:
        self.defined(report.definitions)
        for worker_id in report.buried:
            log.warning("worker_buried", worker_id=worker_id, buried_by=self.me())
        if report.returned or report.failed:
            log.warning("runs_recovered", worker_id=self.me(), returned=len(report.returned), failed=len(report.failed))
        # Burying alone makes runs ready too: those that had met the code of who is buried.
        if report.buried or report.returned or report.failed:
            self.returned()


def _time_out(run_id: RunId) -> Request:
    return Request(run_id, TimeOut(_verdict(out_of_time(run_id))), actor=ACTOR)


def _cancel_child(run_id: RunId) -> Request:
    return Request(run_id, Cancel(), actor=ACTOR, reason="Its parent has ended, or no longer waits for it.")


def _verdict(error: StepfastError) -> DeadRun:
    failure = failures.describe(error)
    return DeadRun(failures.to_text(failure), failure.type, failure.message)
