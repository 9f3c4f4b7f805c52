"""Waiting for the ends of runs: at once for those that end in this process, by asking the store for the others."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import Counter

from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Store
from stepfast.kernel.views import OutcomeView
from stepfast.log import Log

log = Log("results")

FIRST_LOOK_S = 0.005
LONGEST_PAUSE_S = 0.5

Ended = asyncio.Future[OutcomeView]


class Results:
    """The outcomes that somebody in this process waits for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._awaited: weakref.WeakValueDictionary[RunId, Ended] = weakref.WeakValueDictionary()
        self._asking: dict[RunId, Ended] = {}
        self._waiters: Counter[RunId] = Counter()
        self._asker: asyncio.Task[None] | None = None
        self._pause_s = FIRST_LOOK_S
        self._hinted = asyncio.Event()

    def watch(self, run_id: RunId) -> Ended:
        """A future for the run's outcome, set as soon as the run ends in this process; keep it to keep the watch."""
        ended = self._awaited.get(run_id)
        if ended is None:
            ended = asyncio.get_running_loop().create_future()
            self._awaited[run_id] = ended
        return ended

    def note(self, outcome: OutcomeView) -> None:
        """A run has ended here."""
        ended = self._awaited.get(outcome.run_id)
        if ended is not None and not ended.done():
            ended.set_result(outcome)

    async def wait(self, run_id: RunId, ended: Ended, look_at_once: bool) -> OutcomeView:
        """The run's outcome, wherever it ends."""
        self._waiters[run_id] += 1
        try:
            if not ended.done():
                self._ask_for(run_id, ended, look_at_once)
            return await asyncio.shield(ended)
        finally:
            self._waiters[run_id] -= 1
            if not self._waiters[run_id]:
                del self._waiters[run_id]
                self._asking.pop(run_id, None)

    def _ask_for(self, run_id: RunId, ended: Ended, look_at_once: bool) -> None:
        self._asking[run_id] = ended
        self._pause_s = 0.0 if look_at_once else FIRST_LOOK_S
        if self._asker is None:
            self._asker = asyncio.get_running_loop().create_task(self._ask(), name="stepfast-results")

    def look_now(self) -> None:
        """Some run has ended somewhere: ask at once rather than after the pause."""
        if self._asking:
            self._pause_s = FIRST_LOOK_S
            self._hinted.set()

    async def close(self) -> None:
        if self._asker is not None:
            self._asker.cancel()
            await asyncio.gather(self._asker, return_exceptions=True)
            self._asker = None

    async def _ask(self) -> None:
        while self._drop_answered():
            await self._rest()
            self._pause_s = min(max(self._pause_s * 2, FIRST_LOOK_S), LONGEST_PAUSE_S)
            if self._drop_answered():
                await self._ask_once()
        self._asker = None

    async def _rest(self) -> None:
        # Not `wait_for`, which before Python 3.12 forgets a cancellation that comes together with the answer.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._hinted.wait()
        self._hinted.clear()

    async def _ask_once(self) -> None:
        try:
            outcomes = await self._store.outcomes(list(self._asking))
        except StepfastError as error:
            log.warning("results_failed", error=error)
            return
        for outcome in outcomes.values():
            self.note(outcome)

    def _drop_answered(self) -> bool:
        self._asking = {run_id: ended for run_id, ended in self._asking.items() if not ended.done()}
        return bool(self._asking)
