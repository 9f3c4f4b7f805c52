"""One run under way: its durable calls, answered from records first, then by running steps and saving what they did."""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from concurrent.futures import Future as ThreadFuture
from functools import partial
from typing import Any, NamedTuple

from stepfast.kernel import rules
from stepfast.kernel.decisions import CallId, Decision, HeldRun, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NonDeterminism, RowsRefused, StepfastError, Unstorable
from stepfast.kernel.ports import Clock, Recorder
from stepfast.kernel.replay import Replay, check_all_claimed
from stepfast.kernel.retry import Retry
from stepfast.kernel.states import StepState
from stepfast.workflows import failures
from stepfast.workflows.branches import Branch
from stepfast.workflows.codec import digest
from stepfast.workflows.loop import CallAnswer, open_loop
from stepfast.workflows.steps import StepBody, StepInfo

Answer = asyncio.Future[Any] | ThreadFuture[Any]


class Parked(BaseException):
    """The run's code is being dropped here: it waits, was cancelled, or belongs to another worker now.

    No Exception, so that code which catches those does not take it for a failure of its own.
    """


class Host(NamedTuple):
    """What a run gets from the worker that executes it."""

    recorder: Recorder
    clock: Clock
    threads: Executor
    default_retry: Retry


class Asked(NamedTuple):
    """A durable call that the code waits for."""

    branch: Branch
    call: CallId
    body: StepBody
    arguments: dict[str, Any]
    input: str
    digest: str
    answer: Answer
    context: contextvars.Context
    failed_attempts: int = 0
    due_at: Instant | None = None


class RunContext:
    """The durable side of one run: everything its code asks for comes through here, in an order that replays."""

    def __init__(self, run: HeldRun, records: Iterable[Record], host: Host, outer: asyncio.AbstractEventLoop) -> None:
        self.run = run
        self.host = host
        self.outer = outer
        self.loop = open_loop(outer, self._hand_out_next)
        self.stopped_by: BaseException | None = None
        self.on_stop: Callable[[], None] = lambda: None
        self._closed = False
        self._replay = Replay(records)
        self._recorded: list[tuple[int, Asked, Record]] = []
        self._deferred: deque[Asked] = deque()
        self._results: deque[tuple[Asked, Any, BaseException | None]] = deque()
        self._running: dict[CallId, asyncio.Task[None]] = {}
        self._resting: set[CallId] = set()
        self._leaving: BaseException | None = None
        self._open: dict[CallId, Asked] = {}

    def ask(
        self, branch: Branch, body: StepBody, args: tuple[Any, ...], kwargs: dict[str, Any], answer: Answer
    ) -> None:
        """A durable call: claims its record, or runs the step; `answer` gets the result when its turn has come."""
        if self._closed:
            raise Parked
        call = branch.next_call(body.name)
        text, arguments = body.arguments.restore(body.arguments.bind(args, kwargs))
        counted = body.counted_input(arguments, text)
        asked = Asked(branch, call, body, arguments, text, digest(counted), answer, contextvars.copy_context())
        self._open[call] = asked
        record = None if self._replay.finished else self._find(asked, counted)
        self._queue(asked, record)

    def _find(self, asked: Asked, counted: str) -> Record | None:
        def same_input(stored: str) -> bool:
            return asked.body.count_stored_input(stored) == counted

        try:
            return self._replay.find(asked.call, asked.digest, same_input)
        except NonDeterminism as error:
            self.stop(error)
            raise Parked from error

    def _queue(self, asked: Asked, record: Record | None) -> None:
        if record is None:
            self._deferred.append(asked)
        elif record.state is StepState.PENDING:
            self._deferred.append(asked._replace(failed_attempts=record.attempt, due_at=record.due_at))
        else:
            heapq.heappush(self._recorded, (record.seq, asked, record))

    def _hand_out_next(self) -> bool:
        """Every branch waits: give out one more result, or begin what was never recorded; False when there is nothing.

        Records come first and in the order in which their results were once handed out, so that a call without a
        record starts only where the run had really got to.
        """
        if self._closed:
            return False
        if self._recorded:
            _, asked, record = heapq.heappop(self._recorded)
            self._answer(asked, *_stored_result(asked, record))
            return True
        if self._deferred and self._leaving is None:
            while self._deferred:
                self._begin(self._deferred.popleft())
            return True
        if self._results:
            self._answer(*self._results.popleft())
            return True
        self._leave_when_still()
        return False

    def _answer(self, asked: Asked, value: Any, error: BaseException | None) -> None:
        self._open.pop(asked.call, None)
        if asked.answer.done():
            return
        if error is None:
            asked.answer.set_result(value)
        else:
            asked.answer.set_exception(error)

    def _begin(self, asked: Asked) -> None:
        if asked.answer.cancelled():
            self._open.pop(asked.call, None)
            return
        self._running[asked.call] = self.outer.create_task(self._perform(asked), context=asked.context)
        if isinstance(asked.answer, CallAnswer):
            asked.answer.on_cancel = partial(self._call_off, asked)

    def _call_off(self, asked: Asked) -> None:
        """The code cancelled the call: a body that still runs is cancelled too, a record under way stays."""
        self._open.pop(asked.call, None)
        task = self._running.pop(asked.call, None)
        if task is not None and not task.done():
            task.cancel()
            self.host.recorder.ride(self.run, rules.cancelled_step(asked.call, self.host.clock.now()))

    async def _perform(self, asked: Asked) -> None:
        attempt = asked.failed_attempts + 1
        await self._rest_until(asked.call, asked.due_at)
        while not await self._attempt(asked, attempt):
            attempt += 1

    async def _attempt(self, asked: Asked, attempt: int) -> bool:
        """One try of a step's body; False when it failed and another try is due now."""
        started_at = self.host.clock.now()
        self.host.recorder.ride(self.run, rules.started_step(asked.call, attempt, started_at))
        try:
            value = await asked.body.invoke(asked.arguments, StepInfo(self.run, asked.call, attempt), self.host.threads)
            text, restored = asked.body.result.restore(value)
        except BaseException as error:
            if _is_of_the_worker(error):
                raise
            return await self._attempt_failed(asked, attempt, started_at, error)
        record = self._record(asked, StepState.COMPLETED, attempt, started_at, value=text)
        self._save(asked, record, restored, None)
        return True

    async def _attempt_failed(self, asked: Asked, attempt: int, started_at: Instant, error: BaseException) -> bool:
        retry = asked.body.retry or self.host.default_retry
        failure = failures.describe(error)
        text = failures.to_text(failure)
        if isinstance(error, Unstorable) or not retry.allows(attempt, error):
            record = self._record(asked, StepState.FAILED, attempt, started_at, error=text)
            self._save(asked, record, None, failures.revive(failure))
            return True
        delay_ms = retry.delay_ms(attempt, asked.digest)
        record = self._record(asked, StepState.PENDING, attempt, started_at, error=text)
        record = record._replace(due_at=Instant(record.ended_at + delay_ms))
        if await self._saved(rules.schedule_retry(self.run, record)):
            await self._rest_until(asked.call, record.due_at)
        return False

    async def _rest_until(self, call: CallId, due_at: Instant | None) -> None:
        if due_at is None:
            return
        self._resting.add(call)
        self._leave_when_still()
        try:
            await self.host.clock.sleep(due_at - self.host.clock.now())
        finally:
            self._resting.discard(call)

    def _record(
        self,
        asked: Asked,
        state: StepState,
        attempt: int,
        started_at: Instant,
        value: str | None = None,
        error: str | None = None,
    ) -> Record:
        ended_at = self.host.clock.now()
        return Record(asked.call, "step", state, attempt, asked.digest, asked.input, value, error, started_at, ended_at)

    def _save(self, asked: Asked, record: Record, value: Any, error: BaseException | None) -> None:
        decision = rules.record_step(self.run, record)
        self.host.recorder.save(self.run, decision, partial(self._step_saved, asked, record, value, error))

    def _step_saved(
        self, asked: Asked, record: Record, value: Any, error: BaseException | None, refused: BaseException | None
    ) -> None:
        self._running.pop(asked.call, None)
        if refused is None:
            self._results.append((asked, value, error))
            self.kick()
        elif isinstance(refused, RowsRefused):
            self._refused(asked, record, refused)
        else:
            self.stop(refused)

    def _refused(self, asked: Asked, record: Record, refused: RowsRefused) -> None:
        """The store cannot hold this result: the step fails for that, and with nothing of the data in question."""
        failure = failures.describe(Unstorable(f"The store refused the record of step {asked.call.address}: {refused}"))
        failed = record._replace(state=StepState.FAILED, input="{}", value=None, error=failures.to_text(failure))
        if record.state is StepState.FAILED:
            self.stop(refused)
        else:
            self._save(asked, failed, None, failures.revive(failure))

    async def _saved(self, decision: Decision) -> bool:
        saved = self.outer.create_future()

        def answered(refused: BaseException | None) -> None:
            if not saved.done():
                saved.set_result(refused)

        self.host.recorder.save(self.run, decision, answered)
        refused = await saved
        if refused is not None:
            self.stop(refused)
        return refused is None

    def kick(self) -> None:
        """Something came from outside: let the code go on."""
        self.loop.kick()

    def check_end(self) -> None:
        """Refuse an end of the code that left recorded steps out."""
        if not self._replay.finished:
            check_all_claimed(self._replay)

    def stop(self, error: BaseException) -> None:
        """The run cannot go on here; its worker hears why."""
        if self.stopped_by is None:
            self.stopped_by = error
            self.outer.call_soon(self.on_stop)

    def wind_down(self, reason: BaseException) -> None:
        """Begin no further step, and stop when those under way are recorded; one that rests before a retry is not."""
        self._leaving = reason
        self.kick()

    def _leave_when_still(self) -> None:
        if self._leaving is not None and self._running.keys() <= self._resting:
            self.stop(self._leaving)

    @property
    def is_quiet(self) -> bool:
        """Nothing of the code is left: no branch, no step under way, no call unanswered."""
        return not (self._open or self._running or self.loop.tasks)

    def close(self) -> None:
        """Drop the code without letting it act: from here on every durable call raises Parked and does nothing."""
        if self._closed:
            return
        self._closed = True
        for task in list(self._running.values()):
            task.cancel()
        for asked in list(self._open.values()):
            if not asked.answer.done():
                asked.answer.set_exception(Parked())
        for branch_task in list(self.loop.tasks):
            branch_task.cancel()
        self.loop.drain(UNWINDING_CALLBACKS)


# Code that swallows Parked and goes on calling would unwind for ever; it is dropped after so many callbacks.
UNWINDING_CALLBACKS = 10_000


def _is_of_the_worker(error: BaseException) -> bool:
    """Whether an error out of a step's body is the worker stopping it, and not the body's own doing."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def _stored_result(asked: Asked, record: Record) -> tuple[Any, BaseException | None]:
    if record.state is StepState.COMPLETED:
        return asked.body.result.decode(record.value or "null"), None
    if record.error is None:
        return None, StepfastError(f"Step {asked.call.address} was recorded as {record.state}.")
    return None, failures.revive(failures.from_text(record.error))
