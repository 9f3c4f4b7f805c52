"""Executing one run: perform its code, then save what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from stepfast.engine.committer import Committer
from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, HeldRun, History, Joins
from stepfast.kernel.errors import LeaseLost, NonDeterminism, RowsRefused, Unstorable
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import Woken
from stepfast.kernel.ports import Clock
from stepfast.kernel.views import OutcomeView
from stepfast.log import Log, about
from stepfast.workflows import failures
from stepfast.workflows.bodies import Later
from stepfast.workflows.context import Host, Parked
from stepfast.workflows.perform import Continued, Ending, Performance, Raised, Returned, Stopped
from stepfast.workflows.registry import Executable

log = Log("worker")


class WorkerStops(Exception):
    """The worker is on its way out and lets go of what it holds."""


class Executor:
    """Executes the runs that a worker holds, and tells of the outcomes it has saved."""

    def __init__(
        self,
        committer: Committer,
        clock: Clock,
        host: Host,
        threads: ThreadPoolExecutor,
        ended: Callable[[OutcomeView, Joins | None], None],
    ) -> None:
        self._committer = committer
        self._clock = clock
        self._host = host
        self._threads = threads
        self._ended = ended
        self._performances: dict[HeldRun, Performance] = {}

    def stop(self, run: HeldRun, reason: BaseException) -> None:
        """Let go of a run that is being executed."""
        performance = self._performances.get(run)
        if performance is not None:
            performance.stop(reason)

    def look(self, run: HeldRun) -> None:
        """Something may have come for a run that is being executed."""
        performance = self._performances.get(run)
        if performance is not None:
            performance.look()

    def wind_down(self, run: HeldRun, reason: BaseException) -> None:
        """Let go of a run once its steps under way are recorded."""
        performance = self._performances.get(run)
        if performance is not None:
            performance.wind_down(reason)

    async def execute(self, run: HeldRun, workflow: Executable, history: History) -> None:
        """Run the code and save its end; a run that somebody else owns by now is left to them."""
        if run.claims == 1:
            self._committer.ride(run, Event(EventType.STARTED, self._clock.now()))
        performance = Performance(run, workflow, history, self._host, self._threads)
        self._performances[run] = performance
        try:
            ending = await performance.perform()
            decision = self._decide(run, ending)
            if decision is not None:
                await self._save(run, decision)
        finally:
            del self._performances[run]

    async def refuse(self, run: HeldRun, error: Exception) -> None:
        """Give back a run that cannot even be begun, to be tried again later."""
        await self._save(run, self._put_off(run, error))

    def _put_off(self, run: HeldRun, error: BaseException) -> Decision:
        log.error("run_handed_back", **about(run), error=error)
        reason = f"{type(error).__name__}: {error}"
        return rules.hand_back(run, reason, self._clock.now(), delay_ms=TROUBLE_DELAY_MS)

    def _decide(self, run: HeldRun, ending: Ending) -> Decision | None:
        now = self._clock.now()
        match ending:
            case Returned(value):
                return rules.complete(run, value, now)
            case Continued(text):
                return rules.continue_as(run, text, now)
            case Raised(error):
                return _fail(run, error, self._clock)
            case Stopped(LeaseLost() as error):
                log.warning("run_let_go", **about(run), reason=error)
                return None
            case Stopped(Parked()):
                return None
            case Stopped(Later() as later):
                return rules.hand_back(run, str(later), now, later.delay_ms)
            case Stopped(WorkerStops()):
                return rules.hand_back(run, "the worker stops", now)
            case Stopped(NonDeterminism() as error):
                log.error("run_waits_for_code", **about(run), error=error)
                return rules.wait_for_code(run, str(error), now)
            case Stopped(error):
                return self._put_off(run, error)

    async def _save(self, run: HeldRun, decision: Decision) -> None:
        error = await self._saved(run, decision)
        if isinstance(error, Woken):
            decision = rules.hand_back(run, "woken while parking", self._clock.now())
            error = await self._saved(run, decision)
        elif isinstance(error, RowsRefused):
            refused = Unstorable(f"The store refused the outcome: {error}")
            decision = _fail(run, refused, self._clock)
            error = await self._saved(run, decision)
        if error is not None:
            log.warning("outcome_not_saved", **about(run), error=error)
        elif decision.outcome is not None:
            outcome = decision.outcome
            view = OutcomeView(
                run.run_id, run.generation, outcome.state, outcome.value, outcome.error, outcome.ended_at
            )
            self._ended(view, outcome.joins)

    async def _saved(self, run: HeldRun, decision: Decision) -> BaseException | None:
        answer: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def answered(error: BaseException | None) -> None:
            if not answer.done():
                answer.set_result(error)

        self._committer.save(run, decision, answered)
        return await answer


# A run that met trouble which is not its own is tried again, but not in a tight loop.
TROUBLE_DELAY_MS = 5_000


def _fail(run: HeldRun, error: BaseException, clock: Clock) -> Decision:
    failure = failures.describe(error)
    return rules.fail(run, rules.Failed(failures.to_text(failure), failure.type, failure.message), clock.now())
