"""Waits of a run's code: for time, for a message, for children; opened once, ended once, kept over a park."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from stepfast.kernel import rules
from stepfast.kernel.decisions import Decision, Message, NewRun, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, StepfastError, WaitTimeout
from stepfast.kernel.states import StepState, WaitKind
from stepfast.workflows import failures
from stepfast.workflows.calls import Asked
from stepfast.workflows.codec import ValueCodec

SIGNAL = "signal"


class WaitCall:
    """What all waits have in common; a kind of wait says when it is met, and what happens when its time is over."""

    wait_kind: WaitKind
    kind = "wait"
    name = "wait"

    def __init__(self, wait_name: str, text: str, due_in_ms: int | None) -> None:
        self.input = self.counted = text
        self._wait_name = wait_name
        self._due_in_ms = due_in_ms
        self._asked: Asked | None = None
        self._wait: OpenWait | None = None
        self._started_at = Instant(0)
        self._timer: asyncio.Task[None] | None = None
        self._ending = False

    def counted_of(self, stored: str) -> str:
        return stored

    def value_of(self, text: str) -> Any:
        return None

    def check(self, wait: OpenWait) -> None:
        """Something may have come: end the wait if it is met."""

    def due(self, wait: OpenWait) -> None:
        """The time of the wait is over."""

    def takes_at_once(self) -> bool:
        """Whether what is wanted is there already, so that no wait need be opened."""
        return False

    def wait(self) -> Wait:
        """What is waited for."""
        return Wait(0, self.wait_kind, self._wait_name, self.asked.call, self._due_in_ms)

    def children(self) -> list[NewRun]:
        """The runs to start with the wait."""
        return []

    @property
    def asked(self) -> Asked:
        assert self._asked is not None
        return self._asked

    def begin(self, asked: Asked, record: Record | None) -> None:
        self._asked = asked
        self._started_at = asked.context.host.clock.now() if record is None else record.started_at
        if record is not None:
            self._resume(record)
        elif not self.takes_at_once():
            self._open()

    def call_off(self, asked: Asked) -> None:
        """The run must not be woken for what its code no longer wants; one that is just being opened is closed then."""
        if self._wait is None or self._ending:
            return
        self._stop_waiting(self._wait)
        record = asked.new_record(StepState.CANCELLED, 1, self._started_at)
        decision = rules.call_off_wait(asked.context.run, record, self._wait.wait_id)
        asked.context.busy.add(asked.call)
        asked.context.save(decision, partial(self._called_off, asked))

    def abandon(self, asked: Asked, record: Record) -> None:
        """Its wait is still open in the store, and would wake the run again and again."""
        self._asked, self._started_at = asked, record.started_at
        self._wait = asked.context.mailbox.wait(record.seq)
        self.call_off(asked)

    def drop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _called_off(self, asked: Asked, refused: BaseException | None) -> None:
        asked.context.busy.discard(asked.call)
        if refused is not None:
            asked.context.stop(refused)
        asked.context.kick()

    def _resume(self, record: Record) -> None:
        wait = self.asked.context.mailbox.wait(record.seq)
        if wait is None:
            address = self.asked.call.address
            self.asked.context.stop(StepfastError(f"{address} was opened, but the store has no wait {record.seq}."))
        else:
            self._await(wait)

    def _open(self) -> None:
        context, asked = self.asked.context, self.asked
        record = asked.new_record(StepState.WAITING, 1, self._started_at)
        decision = rules.open_wait(context.run, record, self.wait(), self.children())
        context.busy.add(asked.call)
        context.save(decision, partial(self._opened, decision))

    def _opened(self, decision: Decision, refused: BaseException | None) -> None:
        context = self.asked.context
        context.busy.discard(self.asked.call)
        if refused is not None:
            context.stop(refused)
            return
        if context.is_closed:
            return
        (wait,) = decision.opened
        # Later than the store's own moment by the way of the answer, so that nothing fires early.
        due_at = None if wait.due_in_ms is None else Instant(context.host.clock.now() + wait.due_in_ms)
        opened = OpenWait(wait.wait_id, wait.kind, wait.name, due_at, wait.need, wait.spare, wait.total, 0, 0)
        if self.asked.answer.cancelled():
            # Before it looks: what has come meanwhile is for others.
            self._wait = opened
            self.call_off(self.asked)
        else:
            self._await(opened)
        context.kick()

    def _await(self, wait: OpenWait) -> None:
        self._wait = wait
        context = self.asked.context
        context.mailbox.await_(wait, self._look)
        self._look()
        if wait.due_at is None or self._ending:
            return
        if wait.due_at <= context.host.clock.now():
            self.due(wait)
        else:
            self._timer = context.outer.create_task(self._fire(wait, wait.due_at), name="stepfast-timer")

    def _look(self) -> None:
        if self._wait is not None and not self._ending:
            self.check(self.asked.context.mailbox.wait(self._wait.wait_id) or self._wait)

    async def _fire(self, wait: OpenWait, due_at: Instant) -> None:
        clock = self.asked.context.host.clock
        while (left := due_at - clock.now()) > 0:
            await clock.sleep(left)
        if not self._ending:
            self.due(wait)

    def end(self, text: str, taken: Message | None = None) -> None:
        """What was waited for has come."""
        try:
            value = self.value_of(text)
        except Invalid as error:
            self.fail(error, taken)
            return
        self._save(self.asked.new_record(StepState.COMPLETED, 1, self._started_at, value=text), value, None, taken)

    def fail(self, error: BaseException, taken: Message | None = None) -> None:
        """It will not come."""
        failure = failures.describe(error)
        record = self.asked.new_record(StepState.FAILED, 1, self._started_at, error=failures.to_text(failure))
        self._save(record, None, failures.revive(failure), taken)

    def _save(self, record: Record, value: Any, error: BaseException | None, taken: Message | None) -> None:
        asked = self.asked
        closed: tuple[int, ...] = ()
        self._ending = True
        if self._wait is not None:
            self._stop_waiting(self._wait)
            closed = (self._wait.wait_id,)
        asked.context.busy.add(asked.call)
        decision = rules.end_wait(asked.context.run, record, closed, taken)
        asked.context.save(decision, partial(asked.context.ended, asked, record.ended_at, value, error))

    def _stop_waiting(self, wait: OpenWait) -> None:
        self._ending = True
        self.asked.context.mailbox.forget(wait.wait_id)
        if self._timer is not None and self._timer is not asyncio.current_task():
            self._timer.cancel()


class SleepCall(WaitCall):
    """A wait for time alone."""

    wait_kind = WaitKind.TIME
    kind = name = "sleep"

    def __init__(self, span_ms: int) -> None:
        super().__init__("sleep", f'{{"ms":{span_ms}}}', span_ms)

    def due(self, wait: OpenWait) -> None:
        self.end("null")


class ReceiveCall(WaitCall):
    """A wait for a message of one name."""

    wait_kind = WaitKind.SIGNAL
    kind = "receive"

    def __init__(self, signal: str, codec: ValueCodec, timeout_ms: int | None) -> None:
        super().__init__(signal, f'{{"timeout_ms":{"null" if timeout_ms is None else timeout_ms}}}', timeout_ms)
        self.name = f"receive:{signal}"
        self._codec = codec

    def value_of(self, text: str) -> Any:
        return self._codec.decode(text)

    def takes_at_once(self) -> bool:
        message = self.asked.context.mailbox.take(SIGNAL, self._wait_name, None)
        if message is not None:
            self.end(message.value or "null", message)
        return message is not None

    def check(self, wait: OpenWait) -> None:
        message = self.asked.context.mailbox.take(SIGNAL, self._wait_name, wait.due_at)
        if message is not None:
            self.end(message.value or "null", message)

    def due(self, wait: OpenWait) -> None:
        # What came in time wins, also when nobody looked until now; until that is known the run must not park.
        context = self.asked.context
        context.busy.add(self.asked.call)
        context.outer.create_task(self._look_once_more(), name="stepfast-look")

    async def _look_once_more(self) -> None:
        looked = await self.asked.context.look_now()
        if looked and not self._ending:
            self.fail(WaitTimeout(f"No signal {self._wait_name!r} came within {self._due_in_ms} ms."))
