"""Executing one run: perform its code, then save what came of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor as Threads
from dataclasses import replace
from functools import partial

from stepfast.engine.committer import Committer
from stepfast.engine.swapping import fill, has_references
from stepfast.engine.values import Values
from stepfast.errands import begin_errand
from stepfast.kernel import plan_rules, rules, troubles
from stepfast.kernel.decisions import NOTHING_YET, CallId, Decision, HeldRun, History, Joins
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import (
    BlobsFailed,
    LeaseLost,
    NonDeterminism,
    RowsRefused,
    RunTimeout,
    StepfastError,
    StoreUnavailable,
    StoreUnusable,
    Unstorable,
    WrongCall,
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
from stepfast.workflows.branches import Parked
from stepfast.workflows.perform import Continued, Ending, Performance, Raised, Returned, ReturnedInPart, Stopped
from stepfast.workflows.registry import Executable
from stepfast.workflows.stay import Held, Host
from stepfast.workflows.step_calls import is_never_retried

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
        threads: Threads,
        ended: Callable[[OutcomeView, Joins | None], None],
        values: Values,
    ) -> None:
        self.committer = committer
        self.clock = clock
        self.host = host
        self.threads = threads
        self.ended = ended
        self.values = values
        self._executions: dict[HeldRun, Execution] = {}

    def execute(self, run: HeldRun, workflow: Executable, history: History, done: Callable[[HeldRun], None]) -> None:
        """Run the code and save its end, then call `done`; a run that somebody else owns by now is left to them."""
        execution = Execution(self, run, workflow, history, partial(self._left, done))
        self._executions[run] = execution
        execution.begin()

    def refuse(self, run: HeldRun, error: Exception, done: Callable[[HeldRun], None]) -> None:
        """Give back a run that cannot even be begun, to be tried again later."""
        Execution(self, run, None, NOTHING_YET, done).put_off(error)

    def lack(self, run: HeldRun, done: Callable[[HeldRun], None]) -> None:
        """Give back a run whose code is not here: to others at first, then to whoever comes with it."""
        Execution(self, run, None, NOTHING_YET, done).lack_code()

    def _left(self, done: Callable[[HeldRun], None], run: HeldRun) -> None:
        self._executions.pop(run, None)
        done(run)

    def stop(self, run: HeldRun, reason: BaseException) -> None:
        """Let go of a run that is being executed."""
        if run in self._executions:
            self._executions[run].stop(reason)

    def look(self, run: HeldRun) -> None:
        """Something may have come for a run that is being executed."""
        if run in self._executions:
            self._executions[run].look()

    def wind_down(self, run: HeldRun, reason: BaseException) -> None:
        """Let go of a run once its steps under way are recorded."""
        if run in self._executions:
            self._executions[run].wind_down(reason)

    def rests(self, run: HeldRun) -> bool:
        """Whether nothing of a run is under way but pauses before a next try."""
        return run in self._executions and self._executions[run].rests

    def under_way(self, run: HeldRun) -> list[str]:
        """The calls of a run that do something now."""
        return self._executions[run].under_way if run in self._executions else []


class Execution:
    """One run from its claim to the moment when its end is saved, told from callback to callback."""

    def __init__(
        self,
        executor: Executor,
        run: HeldRun,
        workflow: Executable | None,
        history: History,
        done: Callable[[HeldRun], None],
    ) -> None:
        self._executor = executor
        self._run = run
        self._workflow = workflow
        self._history = history
        self._done = done
        self._performance: Performance | None = None
        self._stopped_early: BaseException | None = None
        self._errand: asyncio.Task[None] | None = None
        self._has_second_try = True

    def begin(self) -> None:
        """Put large values in their place if there are any, then perform the run."""
        run, executor = self._run, self._executor
        if not run.begun:
            executor.committer.ride(run, Event(EventType.STARTED, executor.clock.now()))
        if has_references(run, self._history):
            self._errand = begin_errand(self._read_values(), "stepfast-values")
        else:
            self._perform()

    async def _read_values(self) -> None:
        try:
            self._history = await fill(self._executor.values, self._run, self._history)
        except StepfastError as error:
            self._stopped_early = self._stopped_early or error
        self._errand = None
        self._perform()

    def _perform(self) -> None:
        executor, run, workflow = self._executor, self._run, self._workflow
        assert workflow is not None
        try:
            performance = Performance(run, workflow, self._history, executor.host, executor.threads)
            self._performance = performance
            if run.deadline_at is not None and self._stopped_early is None:
                self._keep_deadline(performance, run.deadline_at)
            if self._stopped_early is None:
                performance.perform(self._ended)
            else:
                performance.forgo(self._stopped_early, self._ended)
        except Exception:
            log.exception("run_not_executed", **about(run))
            self._leave()

    def _keep_deadline(self, performance: Performance, deadline_at: Instant) -> None:
        if is_late(self._run, self._executor.clock.now()):
            self._stopped_early = out_of_time(self._run.run_id)
        else:
            self._errand = performance.run_errand(self._stop_at(deadline_at), "stepfast-deadline")

    async def _stop_at(self, deadline_at: Instant) -> None:
        clock = self._executor.clock
        while (left_ms := deadline_at - clock.now()) > 0:
            await clock.sleep(left_ms)
        self.stop(out_of_time(self._run.run_id))

    def stop(self, reason: BaseException) -> None:
        """Let go of the run; what is recorded stays."""
        if self._performance is None:
            self._stopped_early = reason
        else:
            self._performance.stop(reason)

    def wind_down(self, reason: BaseException) -> None:
        """Let go of the run once its steps under way are recorded."""
        if self._performance is None:
            self._stopped_early = reason
        else:
            self._performance.wind_down(reason)

    def look(self) -> None:
        """Something may have come for the run."""
        if self._performance is not None:
            self._performance.look()

    @property
    def rests(self) -> bool:
        """Whether nothing is under way but pauses before a next try."""
        return self._performance is not None and self._performance.rests

    @property
    def under_way(self) -> list[str]:
        """The calls that do something now."""
        return [] if self._performance is None else self._performance.under_way

    def put_off(self, error: BaseException) -> None:
        """Give the run back whole, to be tried again later, and later still when it comes no further."""
        # Not all errors have a text: a KeyboardInterrupt has none.
        name = error.code if isinstance(error, StepfastError) else type(error).__name__
        reason = f"{name}: {error}"
        self._errand = begin_errand(self._put_off(reason), "stepfast-trouble")

    def lack_code(self) -> None:
        """Give the run back, for a worker that has its code; if a few in a row had not, it waits for one to come."""
        run, now = self._run, self._executor.clock.now()
        reason = f"A worker that took it has no step or executor {run.code}."
        if run.claims < CLAIMS_WITHOUT_CODE:
            self._save(rules.hand_back(run, reason, now, LACK_MS), reason)
        else:
            log.error("run_waits_for_code", **about(run), error=reason)
            self._save(rules.wait_for_code(run, reason, now))

    async def _put_off(self, reason: str) -> None:
        run, executor, number = self._run, self._executor, 1
        try:
            # A store that does not even answer is no trouble of this run alone: it is counted as the first.
            with contextlib.suppress(StepfastError):
                seen = max(run.last_event - troubles.RECENT, 0)
                number += troubles.troubles_so_far(await executor.host.store.events(run.run_id, seen, troubles.RECENT))
        finally:
            trouble = troubles.Trouble(reason, number)
            self._save(troubles.put_off(run, trouble, executor.clock.now(), PATIENCE), reason)

    def _ended(self, ending: Ending) -> None:
        if self._errand is not None:
            self._errand.cancel()
        try:
            decision = self._decide(ending)
        except Exception:
            log.exception("run_not_executed", **about(self._run))
            decision = None
        if isinstance(decision, Decision):
            self._save(decision)
        elif decision is not None:
            self.put_off(decision)
        else:
            self._leave()

    def _decide(self, ending: Ending) -> Decision | BaseException | None:
        """What is saved of an ending: nothing, or the trouble for which the run is put off."""
        run, now = self._run, self._executor.clock.now()
        match ending:
            case Returned(value):
                return rules.complete(run, value, now)
            case ReturnedInPart(value, borne, notes):
                return plan_rules.complete_partly(run, value, borne, now, notes)
            case Continued(text):
                assert self._performance is not None
                decision = rules.continue_as(run, text, now)
                decision.children = self._performance.left_outside()
                return decision
            case Raised(error):
                assert self._performance is not None
                assert self._workflow is not None
                return _fail_or_try_again(run, self._workflow.retry, self._performance, error, now)
            case Stopped(error):
                return self._let_go(error)

    def _let_go(self, reason: BaseException) -> Decision | BaseException | None:
        """What is saved of a run that cannot go on here; the reason itself when that is trouble not of its own."""
        run, now = self._run, self._executor.clock.now()
        match reason:
            case Parked():
                return None
            case LeaseLost():
                log.warning("run_let_go", **about(run), reason=reason)
                return None
            case RunTimeout() | WrongCall():
                return rules.fail(run, _failed(reason), now)
            case Later():
                assert self._performance is not None
                return rules.hand_back(run, str(reason), now, self._performance.rest_ms(reason.delay_ms, now))
            case Held() | WorkerStops():
                assert self._performance is not None
                return _hand_back(run, self._performance, now)
            case NonDeterminism():
                log.error("run_waits_for_code", **about(run), error=reason)
                return rules.wait_for_code(run, str(reason), now)
            case _:
                return reason

    def _save(self, decision: Decision, trouble: str | None = None) -> None:
        """Save what came of the run; with the trouble that it is handed back for, if that is why."""
        self._executor.committer.save(self._run, decision, partial(self._saved, decision, trouble))

    def _saved(self, decision: Decision, trouble: str | None, error: BaseException | None) -> None:
        if error is None:
            self._tell(decision, trouble)
        elif self._has_second_try and self._save_instead(error):
            return
        else:
            met = {} if trouble is None else {"trouble": trouble}
            log.warning("outcome_not_saved", **about(self._run), error=error, **met)
        self._leave()

    def _save_instead(self, error: BaseException) -> bool:
        """Save something else when the store did not take the end of the run as it was; whether there is anything."""
        run, now = self._run, self._executor.clock.now()
        self._has_second_try = False
        match error:
            case Woken():
                self._save(rules.hand_back(run, "woken while parking", now))
            case RowsRefused():
                self._save(rules.fail(run, _failed(Unstorable(f"The store refused the outcome: {error}")), now))
            case BlobsFailed() | StoreUnusable() | StoreUnavailable():
                self.put_off(error)
            case _:
                return False
        return True

    def _tell(self, decision: Decision, trouble: str | None) -> None:
        run, outcome = self._run, decision.outcome
        if trouble is not None:
            log.error("run_handed_back", **about(run), error=trouble)
        if outcome is not None:
            view = OutcomeView(
                run.run_id, run.generation, outcome.state, outcome.value, outcome.error, outcome.ended_at
            )
            self._executor.ended(view, outcome.joins)

    def _leave(self) -> None:
        self._done(self._run)


# A run that met trouble which is not its own is tried again, but not in a tight loop.
PATIENCE = troubles.PATIENCE

# The workers of a workflow may differ for a while in the steps that they have: so many of them may look at a step that
# was spread out, and so far apart.
CLAIMS_WITHOUT_CODE = 3
LACK_MS = 1_000

# A run's stored error names at most so many calls that failed beside the one that it raised, or that handled it.
MAX_NAMED = 1_000


def _hand_back(run: HeldRun, performance: Performance, now: Instant) -> Decision:
    if run.hold:
        return rules.hold_back(run, performance.take_commands(), now)
    return rules.hand_back(run, "the worker stops", now)


def is_late(run: HeldRun, now: Instant) -> bool:
    """Whether the run's deadline has passed, so that it is not even begun."""
    return run.deadline_at is not None and run.deadline_at <= now


def out_of_time(run_id: RunId) -> RunTimeout:
    """The error of a run that did not end before its deadline."""
    return RunTimeout(
        f"Run {run_id} did not end before its deadline. Give its workflow more time, and try it again with "
        f"`stepfast runs retry {run_id}`."
    )


def _failed(error: BaseException, unheard: Sequence[CallId] = (), handlers: Sequence[CallId] = ()) -> rules.Failed:
    failure = failures.describe(error)
    stored = replace(failure, unheard=_addresses(unheard), handlers=_addresses(handlers))
    return rules.Failed(failures.to_text(stored), failure.type, failure.message, failures.first_step(failure))


def _addresses(calls: Sequence[CallId]) -> tuple[str, ...]:
    return tuple(call.address for call in calls[:MAX_NAMED])


def _fail_or_try_again(
    run: HeldRun, retry: Retry | None, performance: Performance, error: BaseException, now: Instant
) -> Decision:
    """The code raised: its workflow's policy may give the run another try, without what failed or was cut off."""
    attempt, marked = run.tries + 1, failures.marked_calls(error)
    # The first is told as where it failed; of those that failed beside it nothing else is kept.
    unheard = [*marked[1:], *performance.unheard_failures()]
    ended_by = [*marked[:1], *unheard]
    handlers = performance.handlers_of(ended_by)
    failed = _failed(error, unheard, handlers)
    if retry is None or is_never_retried(error) or not retry.allows(attempt, error):
        decision = rules.fail(run, failed, now)
        decision.children = performance.left_outside()
        return decision
    superseded = dict.fromkeys([*ended_by, *handlers, *performance.cut_off_calls()])
    decision = rules.try_again(run, failed, list(superseded), retry.delay_ms(attempt, run.run_id), now)
    decision.children = performance.left_outside()
    return decision
