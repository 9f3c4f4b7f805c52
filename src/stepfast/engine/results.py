"""Waiting for the ends of runs: at once for those that end in this process, by asking the store for the others."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import Counter

from stepfast.errands import begin_errand
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Store
from stepfast.kernel.views import OutcomeView
from stepfast.log import Failures, Log

log = Log("results")

FIRST_LOOK_S = 0.005
# The end of a run that is executed here is told here.
FIRST_LOOK_FROM_HERE_S = 0.25
LONGEST_PAUSE_S = 0.5


class Watch:
    """What is known here of a run's end; `lowest` is the first generation whose end still counts."""

    __slots__ = ("__weakref__", "ended", "is_held_here", "is_spent", "lowest", "run_id")

    def __init__(self, run_id: RunId) -> None:
        self.run_id = run_id
        self.lowest = 1
        self.is_held_here = False
        self.renew()

    def renew(self) -> None:
        """Forget the end that is known, if any."""
        self.ended: asyncio.Future[OutcomeView] = asyncio.get_running_loop().create_future()
        self.is_spent = False
        """Somebody has been told: the run may have been opened again since, here or elsewhere."""

    def note(self, outcome: OutcomeView) -> None:
        if outcome.generation >= self.lowest and not self.ended.done():
            self.ended.set_result(outcome)

    def reopen(self, generation: int) -> None:
        """The run lives again: an end of an earlier generation, also one that is on its way here, counts no more."""
        self.lowest = max(self.lowest, generation)
        self.is_held_here = False
        if self.ended.done():
            self.renew()


class Results:
    """The outcomes that somebody in this process waits for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._watches: weakref.WeakValueDictionary[RunId, Watch] = weakref.WeakValueDictionary()
        self._asking: dict[RunId, Watch] = {}
        self._failures = Failures()
        self._waiters: Counter[RunId] = Counter()
        self._asker: asyncio.Task[None] | None = None
        self._pause_s = FIRST_LOOK_S
        self._hinted = asyncio.Event()
        self._is_closed = False
        self.asked = 0
        """How often the store was asked so far."""
        self._answered = 0

    def watch(self, run_id: RunId) -> Watch:
        """A watch on the run's end, told as soon as the run ends in this process; keep it to keep it told."""
        watch = self._watches.get(run_id)
        if watch is None:
            watch = self._watches[run_id] = Watch(run_id)
        return watch

    def note(self, outcome: OutcomeView) -> bool:
        """A run has ended here; whether somebody here has an eye on it."""
        watch = self._watches.get(outcome.run_id)
        if watch is not None:
            watch.note(outcome)
        return watch is not None

    def reopen(self, run_id: RunId, generation: int) -> None:
        """A run that had ended has a new generation."""
        watch = self._watches.get(run_id)
        if watch is not None:
            watch.reopen(generation)

    async def wait(self, watch: Watch, look_at_once: bool) -> OutcomeView:
        """The outcome of the run's newest generation, wherever it ends."""
        if watch.is_spent:
            watch.renew()
            look_at_once = True
        run_id = watch.run_id
        self._waiters[run_id] += 1
        try:
            if not watch.ended.done():
                self._ask_for(watch, look_at_once)
            outcome = await asyncio.shield(watch.ended)
        finally:
            self._waiters[run_id] -= 1
            if not self._waiters[run_id]:
                del self._waiters[run_id]
                self._asking.pop(run_id, None)
        watch.is_spent = watch.ended.done()
        return outcome

    async def look(self, watch: Watch) -> OutcomeView | None:
        """The outcome as it is stored now, without waiting for one."""
        if not watch.ended.done():
            for outcome in (await self._store.outcomes([watch.run_id])).values():
                watch.note(outcome)
        return self.known(watch)

    def known(self, watch: Watch) -> OutcomeView | None:
        """The outcome if it is known here."""
        watch.is_spent = watch.ended.done()
        return watch.ended.result() if watch.is_spent else None

    def has_answered_since(self, asked: int) -> bool:
        """Whether the store has answered anything that it was asked after the first so many questions."""
        return self._answered > asked

    def _ask_for(self, watch: Watch, look_at_once: bool) -> None:
        if self._is_closed:
            raise _closed(watch.run_id)
        self._asking[watch.run_id] = watch
        if look_at_once:
            self._pause_s = 0.0
            self._hinted.set()
        elif not watch.is_held_here:
            self._pause_s = FIRST_LOOK_S
        elif self._asker is None:
            self._pause_s = FIRST_LOOK_FROM_HERE_S
        if self._asker is None:
            self._asker = begin_errand(self._ask(), "stepfast-results")

    def look_now(self) -> None:
        """Some run has ended somewhere: ask at once rather than after the pause."""
        if self._asking:
            self._pause_s = FIRST_LOOK_S
            self._hinted.set()

    async def close(self) -> None:
        """Stop asking; whoever still waits is told so."""
        self._is_closed = True
        if self._asker is not None:
            self._asker.cancel()
            await asyncio.gather(self._asker, return_exceptions=True)
            self._asker = None
        for run_id, watch in self._asking.items():
            if not watch.ended.done():
                watch.ended.set_exception(_closed(run_id))

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
        self.asked += 1
        try:
            outcomes = await self._store.outcomes(list(self._asking))
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits is asked for again
            if failures := self._failures.add(error):
                log.failure("results_failed", error, failures=failures)
        else:
            self._failures.end()
            self._answered = self.asked
            for outcome in outcomes.values():
                self.note(outcome)

    def _drop_answered(self) -> bool:
        self._asking = {run_id: watch for run_id, watch in self._asking.items() if not watch.ended.done()}
        return bool(self._asking)


def _closed(run_id: RunId) -> StepfastError:
    return StepfastError(
        f"The app was closed while run {run_id} was awaited. The run is kept in the store: open an app on it and ask "
        f"for the result with `app.get({run_id!r})`."
    )
