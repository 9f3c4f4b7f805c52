"""Executing one run: perform its code, then save what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from stepfast.engine.committer import Committer
from stepfast.engine.swapping import fill
from stepfast.engine.values import Values
from stepfast.kernel import rules
from stepfast.kernel.decisions import CallId, Decision, HeldRun, History, Joins
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import (
    BlobsFailed,
    LeaseLost,
    NonDeterminism,
    RowsRefused,
    RunTimeout,
    StepfastError,
    StoreUnusable,
    Unstorable,
)
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import Woken
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Clock
from stepfast.kernel.retry import Retry
from stepfast.kernel.views import OutcomeView
from stepfast.log import Log, about
from stepfast.workflows import failures
from stepfast.workflows.bodies import Later
from stepfast.workflows.context import Held, Host, Parked
from stepfast.workflows.perform import Continued, Ending, Performance, Raised, Returned, Stopped
from stepfast.workflows.registry import Executable
from stepfast.workflows.step_calls import NEVER_RETRIED

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
        values: Values,
    ) -> None:
        self._committer = committer
        self._clock = clock
        self._host = host
        self._threads = threads
        self._ended = ended
        self._values = values
        self._reading: dict[HeldRun, BaseException | None] = {}
        """Runs whose large values are being read, and why one of them is not wanted here any more."""
        self._performances: dict[HeldRun, Performance] = {}

    def stop(self, run: HeldRun, reason: BaseException) -> None:
        """Let go of a run that is being executed."""
        performance = self._performances.get(run)
        if performance is not None:
            performance.stop(reason)
        elif run in self._reading:
            self._reading[run] = reason

    def look(self, run: HeldRun) -> None:
        """Something may have come for a run that is being executed."""
        performance = self._performances.get(run)
        if performance is not None:
            performance.look()

    def rests(self, run: HeldRun) -> bool:
        """Whether nothing of a run is under way but pauses before a next try."""
        performance = self._performances.get(run)
        return performance is not None and performance.rests

    def under_way(self, run: HeldRun) -> list[str]:
        """The calls of a run that do something now."""
        performance = self._performances.get(run)
        return [] if performance is None else performance.under_way

    def wind_down(self, run: HeldRun, reason: BaseException) -> None:
        """Let go of a run once its steps under way are recorded."""
        performance = self._performances.get(run)
        if performance is not None:
            performance.wind_down(reason)
        elif run in self._reading:
            self._reading[run] = reason

    async def execute(self, run: HeldRun, workflow: Executable, history: History) -> None:
        """Run the code and save its end; a run that somebody else owns by now is left to them."""
        if run.claims == 1:
            self._committer.ride(run, Event(EventType.STARTED, self._clock.now()))
        history, stopped = await self._read_values(run, history)
        performance = Performance(run, workflow, history, self._host, self._threads)
        self._performances[run] = performance
        try:
            ending = await self._perform_in_time(run, performance) if stopped is None else Stopped(stopped)
            decision = self._decide(run, workflow, performance, ending)
            if decision is not None:
                await self._save(run, decision)
        finally:
            del self._performances[run]

    async def _read_values(self, run: HeldRun, history: History) -> tuple[History, BaseException | None]:
        """What the run goes on from, with its large values; and why it cannot go on here, if it cannot."""
        self._reading[run] = None
        try:
            return await fill(self._values, run, history), self._reading[run]
        except StepfastError as error:
            return history, self._reading[run] or error
        finally:
            del self._reading[run]

    async def _perform_in_time(self, run: HeldRun, performance: Performance) -> Ending:
        """Perform the run until it ends, or its deadline comes; one that is late already is not even begun."""
        if run.deadline_at is None:
            return await performance.perform()
        if run.deadline_at <= self._clock.now():
            return Stopped(out_of_time(run.run_id))
        timer = performance.run_errand(self._stop_at(run.deadline_at, run, performance), "stepfast-deadline")
        try:
            return await performance.perform()
        finally:
            timer.cancel()

    async def _stop_at(self, deadline_at: Instant, run: HeldRun, performance: Performance) -> None:
        while (left_ms := deadline_at - self._clock.now()) > 0:
            await self._clock.sleep(left_ms)
        performance.stop(out_of_time(run.run_id))

    async def refuse(self, run: HeldRun, error: Exception) -> None:
        """Give back a run that cannot even be begun, to be tried again later."""
        await self._save(run, self._put_off(run, error))

    def _put_off(self, run: HeldRun, error: BaseException) -> Decision:
        log.error("run_handed_back", **about(run), error=error)
        reason = f"{type(error).__name__}: {error}"
        return rules.hand_back(run, reason, self._clock.now(), delay_ms=TROUBLE_DELAY_MS)

    def _decide(self, run: HeldRun, workflow: Executable, performance: Performance, ending: Ending) -> Decision | None:
        now = self._clock.now()
        match ending:
            case Returned(value):
                return rules.complete(run, value, now)
            case Continued(text):
                return rules.continue_as(run, text, now)
            case Raised(error):
                return _fail_or_try_again(run, workflow.retry, performance, error, now)
            case Stopped(error):
                return self._let_go(run, performance, error)

    def _let_go(self, run: HeldRun, performance: Performance, reason: BaseException) -> Decision | None:
        """What is saved of a run that cannot go on here."""
        now = self._clock.now()
        match reason:
            case Parked():
                return None
            case LeaseLost():
                log.warning("run_let_go", **about(run), reason=reason)
                return None
            case RunTimeout():
                return rules.fail(run, _failed(reason), now)
            case Later():
                return rules.hand_back(run, str(reason), now, reason.delay_ms)
            case Held() | WorkerStops():
                return _hand_back(run, performance, now)
            case NonDeterminism():
                log.error("run_waits_for_code", **about(run), error=reason)
                return rules.wait_for_code(run, str(reason), now)
            case _:
                return self._put_off(run, reason)

    async def _save(self, run: HeldRun, decision: Decision) -> None:
        error = await self._saved(run, decision)
        if isinstance(error, Woken):
            decision = rules.hand_back(run, "woken while parking", self._clock.now())
            error = await self._saved(run, decision)
        elif isinstance(error, RowsRefused):
            refused = Unstorable(f"The store refused the outcome: {error}")
            decision = rules.fail(run, _failed(refused), self._clock.now())
            error = await self._saved(run, decision)
        elif isinstance(error, BlobsFailed | StoreUnusable):
            decision = self._put_off(run, error)
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

# A run's stored error names at most so many calls that failed beside the one that it raised.
MAX_UNHEARD = 1_000


def _hand_back(run: HeldRun, performance: Performance, now: Instant) -> Decision:
    if run.hold:
        return rules.hold_back(run, performance.take_commands(), now)
    return rules.hand_back(run, "the worker stops", now)


def out_of_time(run_id: RunId) -> RunTimeout:
    """The error of a run that did not end before its deadline."""
    return RunTimeout(
        f"Run {run_id} did not end before its deadline. Give its workflow more time, and try it again with "
        f"`stepfast runs retry {run_id}`."
    )


def _failed(error: BaseException, unheard: Sequence[CallId] = ()) -> rules.Failed:
    failure = failures.describe(error)
    stored = replace(failure, unheard=tuple(call.address for call in unheard[:MAX_UNHEARD]))
    return rules.Failed(failures.to_text(stored), failure.type, failure.message, failures.first_step(failure))


def _fail_or_try_again(
    run: HeldRun, retry: Retry | None, performance: Performance, error: BaseException, now: Instant
) -> Decision:
    """The code raised: its workflow's policy may give the run another try, without what failed or was cut off."""
    attempt, unheard = run.tries + 1, performance.unheard_failures()
    failed = _failed(error, unheard)
    if retry is None or isinstance(error, NEVER_RETRIED) or not retry.allows(attempt, error):
        return rules.fail(run, failed, now)
    superseded = dict.fromkeys([*failures.marked_calls(error), *unheard, *performance.cut_off_calls()])
    return rules.try_again(run, failed, list(superseded), retry.delay_ms(attempt, run.run_id), now)
