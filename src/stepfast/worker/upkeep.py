"""Upkeep: burying workers that are gone, and giving their runs back to the line."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from stepfast.kernel.errors import LeaseLost, StepfastError
from stepfast.kernel.exchange import DeadRun, Upkeep, UpkeepReport
from stepfast.kernel.ports import Clock, Store
from stepfast.log import Log
from stepfast.workflows import failures

log = Log("upkeep")

RUNS_PER_PASS = 1_000
# Passes of many workers spread out, and an idle worker stays below two statements a second with its polling.
SPREAD = 0.3


class UpkeepLoop:
    """Makes one pass after the other; one that fails is a line in the log, never the end of the loop."""

    def __init__(self, store: Store, clock: Clock, interval_ms: int, max_crashes: int) -> None:
        self._store = store
        self._clock = clock
        self._interval_ms = interval_ms
        self._max_crashes = max_crashes
        self.me: Callable[[], str] = str
        self.may_bury: Callable[[], bool] = lambda: True
        self.returned: Callable[[], None] = lambda: None
        self.passes = 0

    async def run(self) -> None:
        while True:
            await self._clock.sleep(round(self._interval_ms * (1 + SPREAD * random.random())))
            await self.make_pass()

    async def make_pass(self) -> UpkeepReport | None:
        try:
            report = await self._store.upkeep(self._request())
        except StepfastError as error:
            log.warning("upkeep_failed", worker_id=self.me(), error=error)
            return None
        except Exception:
            log.exception("upkeep_failed", worker_id=self.me())
            await asyncio.sleep(1)
            return None
        self.passes += 1
        self._tell(report)
        return report

    def _request(self) -> Upkeep:
        failure = failures.describe(
            LeaseLost(f"Its worker died {self._max_crashes} times while it executed nothing but this run.")
        )
        verdict = DeadRun(failures.to_text(failure), failure.type, failure.message)
        return Upkeep(self.may_bury(), self._max_crashes, RUNS_PER_PASS, verdict)

    def _tell(self, report: UpkeepReport) -> None:
        for worker_id in report.buried:
            log.warning("worker_buried", worker_id=worker_id, buried_by=self.me())
        if report.returned or report.failed:
            log.warning("runs_recovered", worker_id=self.me(), returned=len(report.returned), failed=len(report.failed))
            self.returned()
