"""Steps under way: attempts, their limits, retries, and the record of what came of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from stepfast.errands import begin_errand
from stepfast.kernel import rules
from stepfast.kernel.blobs import BlobsAway
from stepfast.kernel.decisions import Decision, OpenWait, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.error_kinds import is_transient
from stepfast.kernel.errors import Invalid, PolicyConflict, RowsRefused, StepTimeout, Unstorable, WrongCall
from stepfast.kernel.events import Event
from stepfast.kernel.outside import Asking
from stepfast.kernel.outside_rules import go_outside
from stepfast.kernel.states import StepState, WaitKind
from stepfast.workflows import failures
from stepfast.workflows.bodies import Later, StepBody, StepInfo, as_meant, as_raised, ends_the_task
from stepfast.workflows.calls import Asked
from stepfast.workflows.limits import Limit, OutOfTime, attempt_limit, given_up, run_within, timed_out
from stepfast.workflows.mailbox import Waiter
from stepfast.workflows.outside import Outside
from stepfast.workflows.outside_calls import End, OutsideWork, Started, started_by

# These fail the same way each time: a value that cannot be stored, a call in the wrong place.
NEVER_RETRIED = (Invalid, WrongCall)


def is_never_retried(error: BaseException) -> bool:
    """Whether another try, of a step or of a run, would end the same way, so that no policy gives it one."""
    if isinstance(error, PolicyConflict):
        # A clear no is the same in a second; a check that could not be made may be by then, and is marked so.
        return not is_transient(error)
    return isinstance(error, NEVER_RETRIED)


# By its alarm in the store a run may be woken a little before this process's clock says so: not worth a park.
NEARLY_DUE_MS = 100


class StepCall:
    """One call of a step: its arguments are restored first, so that a body cannot change its caller's values."""

    kind = "step"

    def __init__(self, body: StepBody, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._body = body
        self.name = body.name
        self.input, self._arguments = self._restored(args, kwargs)
        self.counted = body.counted_input(self._arguments, self.input) if body.is_keyed else self.input
        self._task: asyncio.Task[None] | None = None
        self._unwanted = False
        self._attempt_no = 1
        self._begun_at = Instant(0)
        """When the first attempt began, whoever made it."""
        self._due_at = Instant(0)
        self._last_error: BaseException | None = None
        """Why the last attempt failed, if one did."""
        self._scheduling = False
        self._backoff: OpenWait | None = None
        """The wait for the next attempt, or for outside work, open in the store until the next record closes it."""
        self._notes: Sequence[Event] = ()

    def _restored(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return self._body.arguments.restore(self._body.arguments.bind(args, kwargs))

    def counted_of(self, stored: str) -> str:
        return self._body.count_stored_input(stored)

    def value_of(self, text: str) -> Any:
        return self._body.result.decode(text)

    @property
    def attempt(self) -> int:
        """The number of the attempt that is under way, or that was the last."""
        return self._attempt_no

    def recalled(self, asked: Asked, record: Record) -> None:
        """What its record says is all there is to it."""
        self._attempt_no = record.attempt

    def wait_id(self, record: Record | None) -> int | None:
        # One that rests before its next attempt would make that.
        return record.seq if record is not None and record.state is StepState.WAITING else None

    def begin(self, asked: Asked, record: Record | None) -> None:
        asked.context.busy.add(asked.call)
        work = None
        if record is not None and record.state is StepState.WAITING:
            work = self._outside(asked, record, asked.context.mailbox.wait(record.seq))
            if work.is_over:
                return
        code = self._perform(asked, record, work)
        self._task = begin_errand(code, self.name, loop=asked.context.outer, context=asked.variables)

    def call_off(self, asked: Asked) -> None:
        """A body that still runs is cancelled; a record under way stays."""
        if self._task is None:
            return
        self.drop()
        if not self._scheduling:
            self._call_off_now(asked)

    def _call_off_now(self, asked: Asked) -> None:
        # Recorded, so that a replay does not take an equal call elsewhere for this one.
        self._save_call_off(asked, self._backoff)

    def abandon(self, asked: Asked, record: Record) -> None:
        """Nothing of it is under way, but the run must not be woken for its next attempt."""
        self._attempt_no = record.attempt
        backoff = asked.context.mailbox.wait(record.seq)
        if backoff is not None:
            self._save_call_off(asked, backoff)

    def _save_call_off(self, asked: Asked, backoff: OpenWait | None) -> None:
        context = asked.context
        closed: tuple[int, ...] = ()
        if backoff is not None:
            context.mailbox.forget(backoff.wait_id)
            closed = (backoff.wait_id,)
        context.busy.add(asked.call)
        record = asked.new_record(StepState.CANCELLED, self._attempt_no, context.host.clock.now())
        decision = rules.call_off(context.run, record, closed)
        if backoff is not None and backoff.kind is WaitKind.OUTSIDE:
            decision.children = Asking.read(backoff.name).stopping()
        context.save(self._noted(decision), partial(self._closed, asked))

    def _closed(self, asked: Asked, refused: BaseException | None) -> None:
        asked.context.busy.discard(asked.call)
        if refused is not None:
            asked.context.stop(refused)
        asked.context.kick()

    def drop(self) -> None:
        self._unwanted = True
        if self._task is not None:
            self._task.cancel()

    async def _perform(self, asked: Asked, record: Record | None, work: OutsideWork | None = None) -> None:
        try:
            if work is not None:
                await work.follow(self._is_unwanted)
                return
            is_due = record is None or await self._take_up(asked, record)
            while is_due and not await self._attempt(asked):
                self._attempt_no += 1
                is_due = await self._rest(asked)
        except GeneratorExit:
            raise
        except BaseException as error:
            # Whatever kept an attempt from being recorded: a run that nobody answers would hang for ever.
            if not self._unwanted:
                asked.context.stop(error)
            if not isinstance(error, Exception):
                raise
        finally:
            # The task refers to this call in turn; let go, both are freed at once.
            self._task = None

    def _is_unwanted(self) -> bool:
        return self._unwanted

    async def _take_up(self, asked: Asked, record: Record) -> bool:
        """Go on where the last record of the call has left it; False when the run was let go of meanwhile."""
        context = asked.context
        self._begun_at = context.begun_at(record.call) or record.started_at
        self._attempt_no = record.attempt
        if record.state is StepState.RUNNING:
            return True
        self._attempt_no += 1
        if record.error is not None:
            self._last_error = failures.revive(failures.from_text(record.error))
        self._due_at = record.due_at or record.ended_at
        self._backoff = context.mailbox.wait(record.seq)
        return await self._rest(asked)

    async def _rest(self, asked: Asked) -> bool:
        """Wait for the time of the next attempt; False when the run was let go of meanwhile."""
        context, backoff = asked.context, self._backoff
        context.resting.add(asked.call)
        if backoff is not None and self._due_at - context.host.clock.now() >= NEARLY_DUE_MS:
            # The store wakes the run in time: if nothing else is under way, nobody need sit here.
            context.busy.discard(asked.call)
            context.mailbox.await_(backoff, Waiter(_look_at_nothing))
        context.kick()
        try:
            is_due = await self._sleep_until_due(asked)
        finally:
            context.resting.discard(asked.call)
        context.busy.add(asked.call)
        if backoff is not None:
            context.mailbox.forget(backoff.wait_id)
        return is_due

    async def _sleep_until_due(self, asked: Asked) -> bool:
        clock = asked.context.host.clock
        while (left_ms := self._due_at - clock.now()) > 0:
            await clock.sleep(left_ms)
        return await asked.context.until_free()

    async def _attempt(self, asked: Asked) -> bool:
        """One try of the body; False when it failed and another try follows."""
        context, attempt = asked.context, self._attempt_no
        started_at = context.host.clock.now()
        self._begun_at = self._begun_at or started_at
        limit = attempt_limit(self._body.limits, self._begun_at, started_at)
        if limit is not None and limit.span_ms == 0:
            self._fail(asked, started_at, self._given_up(asked, max(attempt - 1, 1)))
            return True
        self._tell_start(asked, started_at)
        try:
            value = await (self._invoke(asked) if limit is None else self._invoke_within(asked, limit))
            started = started_by(asked, self._body, value) if isinstance(value, Outside) else None
            text, restored = ("", None) if started else self._body.result.restore(value)
        except BaseException as raised:
            error = failures.askable(raised)
            if self._unwanted or ends_the_task(error, self._task):
                raise
            meant = as_meant(error)
            if isinstance(meant, Later) and self._has_no_time_for(asked, meant.delay_ms):
                self._fail(asked, started_at, self._given_up(asked, attempt))
                return True
            if isinstance(meant, Later | BlobsAway):
                context.stop(meant)
                return True
            return await self._attempt_failed(asked, started_at, meant)
        if started is not None and not self._unwanted:
            await self._go_outside(asked, started_at, started)
        elif not self._unwanted:
            # One that swallowed its cancellation has its end already: it was called off, or the run is let go of.
            self._save(asked, asked.new_record(StepState.COMPLETED, attempt, started_at, value=text), restored, None)
        return True

    async def _go_outside(self, asked: Asked, started_at: Instant, started: Started) -> None:
        """Record what was started outside before anything else happens, and wait for its end."""
        context = asked.context
        record = asked.new_record(StepState.WAITING, self._attempt_no, started_at, value=started.text)
        record = record._replace(due_at=started.ends_at(record.ended_at, self._body.limits.end(self._begun_at)))
        decision = go_outside(context.run, record, *started.asking(record), self._take_backoff())
        if await self._open(asked, self._noted(decision)):
            work = self._outside(asked, record._replace(seq=decision.opened[0].wait_id), self._backoff)
            await work.follow(self._is_unwanted)

    def _outside(self, asked: Asked, record: Record, wait: OpenWait | None) -> OutsideWork:
        """What goes on outside, from here on; it may be over at once."""
        self._attempt_no = record.attempt
        work = OutsideWork(asked, self._body, record, wait, partial(self._outside_ended, asked, record))
        self._backoff = work.wait
        work.await_()
        return work

    def _outside_ended(self, asked: Asked, record: Record, end: End) -> None:
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            # It rests, or asks what is known by now.
            self._unwanted = True
            task.cancel()
        if end.notes:
            self._notes = [note._replace(attempt=record.attempt) for note in end.notes]
        if end.error is not None:
            self._fail(asked, record.started_at, end.error, end)
            return
        completed = asked.new_record(StepState.COMPLETED, record.attempt, record.started_at, value=end.text)
        self._save(asked, completed, end.value, None, end)

    def _tell_start(self, asked: Asked, started_at: Instant) -> None:
        context, attempt = asked.context, self._attempt_no
        if self._body.limits.total_ms is not None and started_at == self._begun_at:
            # Also if this process dies in its first attempt: the time for all attempts counts from here.
            record = asked.new_record(StepState.RUNNING, attempt, started_at)
            context.save(rules.begin_step(context.run, record), partial(self._begun, asked))
        else:
            context.host.recorder.ride(context.run, rules.started_step(asked.call, attempt, started_at))

    def _begun(self, asked: Asked, refused: BaseException | None) -> None:
        # Rows that the store cannot hold fail the step when it ends, with the error that says so.
        if refused is not None and not isinstance(refused, RowsRefused):
            asked.context.stop(refused)

    def _invoke(self, asked: Asked, begun: Callable[[], None] | None = None) -> Coroutine[Any, Any, Any]:
        context = asked.context
        host = context.host
        # Anew for each attempt: what a body notes that was given up on reaches nobody.
        self._notes = notes = list[Event]()
        info = StepInfo(context.run, asked.call, self._attempt_no, host.clock.now, context.tell, host.storage, notes)
        return self._body.invoke(self._arguments, info, host.threads, begun)

    def _invoke_within(self, asked: Asked, limit: Limit) -> Coroutine[Any, Any, Any]:
        return run_within(limit, asked.context.host.clock, partial(self._invoke, asked))

    async def _attempt_failed(self, asked: Asked, started_at: Instant, error: BaseException) -> bool:
        limits, address, attempt = self._body.limits, asked.call.address, self._attempt_no
        is_final = is_never_retried(error)
        if isinstance(error, OutOfTime):
            is_final = error.limit.is_final
            error = timed_out(address, attempt, limits, is_final)
        retry = self._body.retry or asked.context.host.default_retry
        if is_final or not retry.allows(attempt, as_raised(error)):
            self._fail(asked, started_at, error)
            return True
        delay_ms = retry.delay_ms(attempt, asked.seed)
        if self._has_no_time_for(asked, delay_ms):
            self._last_error = error
            self._fail(asked, started_at, self._given_up(asked, attempt))
            return True
        return not await self._schedule(asked, started_at, error, delay_ms)

    def _has_no_time_for(self, asked: Asked, delay_ms: int) -> bool:
        """Whether the time for all attempts is over before the next would begin."""
        end = self._body.limits.end(self._begun_at)
        return end is not None and asked.context.host.clock.now() + delay_ms >= end

    def _given_up(self, asked: Asked, attempt: int) -> StepTimeout:
        """Its time is over between two attempts: what failed it is why the last one did."""
        error = given_up(asked.call.address, attempt, self._body.limits)
        error.__cause__ = self._last_error
        return error

    async def _schedule(self, asked: Asked, started_at: Instant, error: BaseException, delay_ms: int) -> bool:
        """Record the failed attempt, and when the next is due; False when the run cannot go on here."""
        context = asked.context
        self._last_error = error
        text = failures.to_text(failures.describe(error))
        record = asked.new_record(StepState.PENDING, self._attempt_no, started_at, error=text)
        self._due_at = Instant(record.ended_at + delay_ms)
        record = record._replace(due_at=self._due_at)
        decision = rules.schedule_retry(context.run, record, delay_ms, self._take_backoff())
        return await self._open(asked, self._noted(decision))

    async def _open(self, asked: Asked, decision: Decision) -> bool:
        """Save what may open a wait, which is closed at once if the code calls the step off meanwhile."""
        scheduled: asyncio.Future[bool] = asked.context.outer.create_future()
        self._scheduling = True
        asked.context.save(decision, partial(self._scheduled, asked, decision, scheduled))
        return await scheduled

    def _scheduled(
        self, asked: Asked, decision: Decision, scheduled: asyncio.Future[bool], refused: BaseException | None
    ) -> None:
        context = asked.context
        self._scheduling = False
        if refused is not None:
            context.stop(refused)
        elif decision.opened:
            (wait,) = decision.opened
            due_at = None if wait.due_in_ms is None else Instant(context.host.clock.now() + wait.due_in_ms)
            self._backoff = OpenWait(wait.wait_id, wait.kind, wait.name, due_at, 1, 0, 1, 0, 0)
        if self._unwanted and not context.is_closed:
            self._call_off_now(asked)
        if not scheduled.done():
            scheduled.set_result(refused is None)

    def _noted(self, decision: Decision) -> Decision:
        """The same with the facts that the attempt has noted before it."""
        if self._notes:
            decision.events, self._notes = (*self._notes, *decision.events), ()
        return decision

    def _take_backoff(self) -> tuple[int, ...]:
        """The wait that the next record closes, if there is one."""
        backoff, self._backoff = self._backoff, None
        return (backoff.wait_id,) if backoff else ()

    def _fail(self, asked: Asked, started_at: Instant, error: BaseException, outside: End | None = None) -> None:
        failure = failures.describe(error)
        record = asked.new_record(StepState.FAILED, self._attempt_no, started_at, error=failures.to_text(failure))
        self._save(asked, record, None, failures.revive(failure), outside)

    def _save(
        self, asked: Asked, record: Record, value: Any, error: BaseException | None, outside: End | None = None
    ) -> None:
        context, closed = asked.context, self._take_backoff() if self._backoff else ()
        if outside is None:
            decision = rules.record_step(context.run, record, closed)
        else:
            decision = rules.end_wait(context.run, record, closed, outside.message)
            decision.children = outside.stopping
        if self._notes:
            self._noted(decision)
        context.save(decision, partial(self._answered, asked, record, closed, value, error))

    def _answered(
        self,
        asked: Asked,
        record: Record,
        closed: tuple[int, ...],
        value: Any,
        error: BaseException | None,
        refused: BaseException | None,
    ) -> None:
        if refused is not None and isinstance(refused, RowsRefused) and record.state is not StepState.FAILED:
            self._refused(asked, record, closed, refused)
        else:
            asked.context.ended(asked, record.ended_at, value, error, refused)

    def _refused(self, asked: Asked, record: Record, closed: tuple[int, ...], refused: RowsRefused) -> None:
        """The store cannot hold this result: the step fails for that, and with nothing of the data in question."""
        failure = failures.describe(Unstorable(f"The store refused the record of step {asked.call.address}: {refused}"))
        failed = record._replace(state=StepState.FAILED, input="{}", value=None, error=failures.to_text(failure))
        decision = rules.record_step(asked.context.run, failed, closed)
        asked.context.save(decision, partial(self._answered, asked, failed, closed, None, failures.revive(failure)))


class PlainStepCall(StepCall):
    """A call of a step whose arguments are given as JSON, and kept as they were given."""

    def __init__(self, body: StepBody, given: dict[str, Any]) -> None:
        self._given = given
        super().__init__(body, (), {})

    def _restored(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        return self._body.arguments.restore_json(self._given)

    def counted_of(self, stored: str) -> str:
        arguments = self._body.arguments.decode(stored)
        return self._body.counted_input(arguments, stored)


def _look_at_nothing() -> None:
    """What comes for the run makes no attempt due earlier."""
