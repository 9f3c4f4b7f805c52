"""Steps under way: attempts, retries, and the record of what came of them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from stepfast.kernel import rules
from stepfast.kernel.decisions import Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, RowsRefused, Unstorable, WrongCall
from stepfast.kernel.states import StepState
from stepfast.workflows import failures
from stepfast.workflows.bodies import Later, StepBody, StepInfo
from stepfast.workflows.calls import Asked

# These fail the same way each time: a value that cannot be stored, a call in the wrong place.
NEVER_RETRIED = (Invalid, WrongCall)


class StepCall:
    """One call of a step: its arguments are restored first, so that a body cannot change its caller's values."""

    kind = "step"

    def __init__(self, body: StepBody, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._body = body
        self.name = body.name
        self.input, self._arguments = body.arguments.restore(body.arguments.bind(args, kwargs))
        self.counted = body.counted_input(self._arguments, self.input)
        self._task: asyncio.Task[None] | None = None
        self._unwanted = False

    def counted_of(self, stored: str) -> str:
        return self._body.count_stored_input(stored)

    def value_of(self, text: str) -> Any:
        return self._body.result.decode(text)

    def begin(self, asked: Asked, record: Record | None) -> None:
        asked.context.busy.add(asked.call)
        self._task = asked.context.outer.create_task(self._perform(asked, record), context=asked.variables)
        self._task.add_done_callback(partial(self._performed, asked))

    def _performed(self, asked: Asked, task: asyncio.Task[None]) -> None:
        # Whatever kept an attempt from being recorded: a run that nobody answers would hang for ever.
        if not self._unwanted and (task.cancelled() or task.exception() is not None):
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
            asked.context.stop(error or asyncio.CancelledError())

    def call_off(self, asked: Asked) -> None:
        """A body that still runs is cancelled; a record under way stays."""
        if self._task is None or self._task.done():
            return
        self.drop()
        context = asked.context
        context.busy.discard(asked.call)
        context.host.recorder.ride(context.run, rules.cancelled_step(asked.call, context.host.clock.now()))

    def abandon(self, asked: Asked, record: Record) -> None:
        """Nothing of it is under way."""

    def drop(self) -> None:
        self._unwanted = True
        if self._task is not None:
            self._task.cancel()

    async def _perform(self, asked: Asked, record: Record | None) -> None:
        attempt = 1
        if record is not None:
            attempt = record.attempt + 1
            await self._rest_until(asked, record.due_at)
        while not await self._attempt(asked, attempt):
            attempt += 1

    async def _attempt(self, asked: Asked, attempt: int) -> bool:
        """One try of the body; False when it failed and another try is due now."""
        context = asked.context
        started_at = context.host.clock.now()
        context.host.recorder.ride(context.run, rules.started_step(asked.call, attempt, started_at))
        try:
            info = StepInfo(context.run, asked.call, attempt, context.host.clock.now, context.tell)
            value = await self._body.invoke(self._arguments, info, context.host.threads)
            text, restored = self._body.result.restore(value)
        except BaseException as error:
            if self._unwanted or isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            if isinstance(error, Later):
                context.stop(error)
                return True
            return await self._attempt_failed(asked, attempt, started_at, error)
        self._save(asked, asked.new_record(StepState.COMPLETED, attempt, started_at, value=text), restored, None)
        return True

    async def _attempt_failed(self, asked: Asked, attempt: int, started_at: Instant, error: BaseException) -> bool:
        retry = self._body.retry or asked.context.host.default_retry
        failure = failures.describe(error)
        text = failures.to_text(failure)
        if isinstance(error, NEVER_RETRIED) or not retry.allows(attempt, error):
            record = asked.new_record(StepState.FAILED, attempt, started_at, error=text)
            self._save(asked, record, None, failures.revive(failure))
            return True
        record = asked.new_record(StepState.PENDING, attempt, started_at, error=text)
        due_at = Instant(record.ended_at + retry.delay_ms(attempt, asked.digest))
        decision = rules.schedule_retry(asked.context.run, record._replace(due_at=due_at))
        if not await asked.context.saved(decision):
            return True
        await self._rest_until(asked, due_at)
        return False

    async def _rest_until(self, asked: Asked, due_at: Instant | None) -> None:
        if due_at is None:
            return
        context = asked.context
        context.resting.add(asked.call)
        context.leave_when_still()
        try:
            await context.host.clock.sleep(due_at - context.host.clock.now())
        finally:
            context.resting.discard(asked.call)

    def _save(self, asked: Asked, record: Record, value: Any, error: BaseException | None) -> None:
        decision = rules.record_step(asked.context.run, record)
        answered = partial(self._answered, asked, record, value, error)
        asked.context.host.recorder.save(asked.context.run, decision, answered)

    def _answered(
        self, asked: Asked, record: Record, value: Any, error: BaseException | None, refused: BaseException | None
    ) -> None:
        if isinstance(refused, RowsRefused) and record.state is not StepState.FAILED:
            self._refused(asked, record, refused)
        else:
            asked.context.ended(asked, record.ended_at, value, error, refused)

    def _refused(self, asked: Asked, record: Record, refused: RowsRefused) -> None:
        """The store cannot hold this result: the step fails for that, and with nothing of the data in question."""
        failure = failures.describe(Unstorable(f"The store refused the record of step {asked.call.address}: {refused}"))
        failed = record._replace(state=StepState.FAILED, input="{}", value=None, error=failures.to_text(failure))
        self._save(asked, failed, None, failures.revive(failure))
