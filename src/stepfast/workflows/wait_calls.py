"""Waits of a run's code: for time, for a message, for children; opened once, ended once, kept over a park."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

from stepfast.kernel import rules
from stepfast.kernel.decisions import CallId, Decision, Message, NewRun, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant, written_span
from stepfast.kernel.errors import Invalid, WaitTimeout
from stepfast.kernel.states import STEP_ENDED, StepState, WaitKind
from stepfast.workflows import failures
from stepfast.workflows.calls import Asked
from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.mailbox import RECEIVE, Address, Waiter, number_of

SIGNAL = "signal"


class WaitCall:
    """What all waits have in common; a kind of wait says when it is met, and what happens when its time is over."""

    wait_kind: WaitKind
    kind = "wait"
    name = "wait"
    looks_when_due = True
    """Whether what came in time must be looked for when the time is over."""
    is_heard_first = False
    """Whether a message that has come for it is used up only when the code has it."""

    def __init__(self, wait_name: str, text: str, due_in_ms: int | None) -> None:
        self.input = self.counted = text
        self._wait_name = wait_name
        self._due_in_ms = due_in_ms
        self._asked: Asked | None = None
        self._wait: OpenWait | None = None
        self._started_at = Instant(0)
        self._opened_as: CallId
        self._errand: asyncio.Task[None] | None = None
        self._ending = False
        self._is_stored = False
        """Whether the wait at hand is as the store has it, not as this process takes it to be."""
        self._was_over = False
        """Whether its time was over when it was taken up: all that came before has been read with it."""

    def counted_of(self, stored: str) -> str:
        return stored

    def value_of(self, text: str) -> Any:
        return None

    def check(self, wait: OpenWait) -> None:
        """Something may have come: end the wait if it is met."""

    def waiter(self, wait: OpenWait) -> Waiter:
        """What the mailbox is to know of it."""
        return Waiter(self._look)

    def due(self, wait: OpenWait) -> None:
        """The time of the wait is over, and all that came in time has been looked at."""

    def takes_at_once(self) -> bool:
        """Whether what is wanted is there already, so that no wait need be opened."""
        return False

    def forgo(self) -> None:
        """The code called it off when its end was on the way into the store already."""

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

    def recalled(self, asked: Asked, record: Record) -> None:
        """What its record says is all there is to it."""

    def wait_id(self, record: Record | None) -> int | None:
        return None if record is None else record.seq

    def begin(self, asked: Asked, record: Record | None) -> None:
        self._asked = asked
        wait = None if record is None else asked.context.mailbox.wait(record.seq)
        if record is not None and wait is not None:
            # Not where it is asked for now: code that was regrouped makes the same call elsewhere.
            self._opened_as, self._started_at, self._is_stored = record.call, record.started_at, True
            self.await_(wait)
            return
        # A wait that was opened and is gone belonged to an earlier generation of the run: it is opened anew.
        self._opened_as, self._started_at = asked.call, asked.context.host.clock.now()
        if not self.takes_at_once():
            self.open()

    def call_off(self, asked: Asked) -> None:
        """The run must not be woken for what its code no longer wants; one that is just being opened is closed then."""
        if self._ending:
            self.forgo()
        elif self._wait is not None:
            self._close(asked, self._wait)

    def abandon(self, asked: Asked, record: Record) -> None:
        """A wait that is still open in the store would wake the run again and again."""
        self._asked, self._started_at = asked, record.started_at
        if record.state not in STEP_ENDED:
            self._wait = asked.context.mailbox.wait(record.seq)
            self.call_off(asked)

    def drop(self) -> None:
        if self._errand is not None:
            self._errand.cancel()

    def _close(self, asked: Asked, wait: OpenWait) -> None:
        self._stop_waiting(wait)
        self.save_call_off(asked, (wait.wait_id,))

    def save_call_off(self, asked: Asked, closed: tuple[int, ...]) -> None:
        """Record that the code no longer wants it."""
        record = asked.new_record(StepState.CANCELLED, 1, self._started_at)
        asked.context.busy.add(asked.call)
        asked.context.save(rules.call_off(asked.context.run, record, closed), partial(self._called_off, asked))
        asked.context.mailbox.go_on()

    def _called_off(self, asked: Asked, refused: BaseException | None) -> None:
        asked.context.busy.discard(asked.call)
        if refused is not None:
            asked.context.stop(refused)
        asked.context.kick()

    def open(self) -> None:
        """Begin to wait, in the store first."""
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
        due_at = None if wait.due_in_ms is None else Instant(context.host.clock.now() + wait.due_in_ms)
        opened = OpenWait(wait.wait_id, wait.kind, wait.name, due_at, wait.need, wait.spare, wait.total, 0, 0)
        if self.asked.answer.done():
            # Before it looks: what has come meanwhile is for others.
            self._wait = opened
            self.call_off(self.asked)
        else:
            self.await_(opened)
        context.kick()

    def await_(self, wait: OpenWait) -> None:
        """Wait for what is open in the store."""
        self._wait = wait
        context = self.asked.context
        context.mailbox.await_(wait, self.waiter(wait))
        if not context.mailbox.is_gathering:
            self._look()
        if wait.due_at is None or self._ending:
            return
        if wait.due_at <= context.host.clock.now():
            # Before the code is still: a run that is due must not be parked.
            context.busy.add(self.asked.call)
            self._was_over = True
        self._errand = context.run_errand(self._fire(wait.wait_id, wait.due_at), "stepfast-timer")

    def _look(self) -> None:
        if self._wait is not None and not self._ending:
            self.check(self.asked.context.mailbox.wait(self._wait.wait_id) or self._wait)

    async def _fire(self, wait_id: int, due_at: Instant) -> None:
        """Rest until the time of the wait is over by this process's clock, then make sure of it by the store's."""
        context, call = self.asked.context, self.asked.call
        clock = context.host.clock
        while not self._ending:
            while (left_ms := due_at - clock.now()) > 0:
                await clock.sleep(left_ms)
            if call not in context.busy and not await context.until_unparked():
                return
            context.busy.add(call)
            now = await context.answered(context.host.store.now)
            # After the moment was read, so that whatever came up to it is seen.
            wait = await self._as_stored(wait_id)
            if wait is None or wait.due_at is None:
                return
            if wait.due_at <= now:
                context.mailbox.ring(wait, partial(self._due, wait))
                return
            context.busy.discard(call)
            context.is_in_time(call)
            due_at = Instant(clock.now() + wait.due_at - now)

    def _due(self, wait: OpenWait) -> None:
        if not self._ending:
            self.due(wait)

    async def _as_stored(self, wait_id: int) -> OpenWait | None:
        """The wait as the store has it, unless it has ended by what has come: only the store knows when it is due."""
        context = self.asked.context
        if (self._has_to_look() or not self._is_stored) and not await context.look_now():
            return None
        self._is_stored = True
        return None if self._ending else context.mailbox.wait(wait_id)

    def _has_to_look(self) -> bool:
        # What has come for another wait before this one was over goes first, and the hint of it may be late.
        return self.looks_when_due or (not self._was_over and self.asked.context.mailbox.awaits_more_than_time)

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
        decision = rules.end_wait(asked.context.run, record, closed, None if self.is_heard_first else taken)
        asked.context.save(decision, partial(asked.context.ended, asked, record.ended_at, value, error))
        asked.context.mailbox.note_end(asked.call, asked.context.host.clock.now())
        asked.context.mailbox.go_on()

    def _stop_waiting(self, wait: OpenWait) -> None:
        self._ending = True
        self.asked.context.mailbox.forget(wait.wait_id)
        if self._errand is not None and self._errand is not asyncio.current_task():
            self._errand.cancel()


class SleepCall(WaitCall):
    """A wait for time alone."""

    wait_kind = WaitKind.TIME
    kind = name = "sleep"
    looks_when_due = False

    def __init__(self, span_ms: int) -> None:
        super().__init__("sleep", f'{{"ms":{span_ms}}}', span_ms)

    def due(self, wait: OpenWait) -> None:
        self.end("null")


class ReceiveCall(WaitCall):
    """A wait for a message of one name.

    The record of one that was received names its number: a message that was on its way to code which did not want it
    any more is given back, and whoever takes it then names the same number, so that replays agree on who had it. The
    store keeps it until the code has it: what nobody has heard when this life of the run ends is there in the next.
    """

    wait_kind = WaitKind.SIGNAL
    kind = RECEIVE
    is_heard_first = True

    def __init__(self, signal: str, codec: ValueCodec, timeout_ms: int | None) -> None:
        super().__init__(signal, json.dumps({"timeout_ms": timeout_ms}), timeout_ms)
        self.name = f"receive:{signal}"
        self._codec = codec
        self._number: int | None = None

    def counted_of(self, stored: str) -> str:
        return json.dumps({"timeout_ms": json.loads(stored)["timeout_ms"]})

    def value_of(self, text: str) -> Any:
        return self._codec.decode(text)

    def takes_at_once(self) -> bool:
        return self._take(None)

    @property
    def address(self) -> Address:
        """What it receives."""
        return (SIGNAL, self._wait_name)

    def waiter(self, wait: OpenWait) -> Waiter:
        return Waiter(self._look, self.address)

    @property
    def has_taken(self) -> bool:
        """Whether it has got what it wants."""
        return self._ending

    def begin_if_come(self, asked: Asked) -> None:
        """Begin only if what it wants is there, and nothing that is past is to be decided before."""
        self._asked, self._opened_as, self._started_at = asked, asked.call, asked.context.host.clock.now()
        if self.takes_at_once():
            asked.answer.on_cancel = asked.call_off

    def check(self, wait: OpenWait) -> None:
        self._take(wait.due_at)

    def due(self, wait: OpenWait) -> None:
        self.fail(WaitTimeout(f"No signal {self._wait_name!r} came within {written_span(self._due_in_ms or 0)}."))

    def _take(self, until: Instant | None) -> bool:
        message = self.asked.context.mailbox.take(*self.address, until)
        if message is not None:
            self._number = message.n
            self.input = json.dumps({**json.loads(self.counted), "n": message.n})
            self.end(message.value or "null", message)
        return message is not None

    def heard(self, asked: Asked) -> None:
        """The code has been given what came, or why that cannot be read."""
        if self._number is not None:
            asked.context.hear(self._number)

    def forgo(self) -> None:
        if self._number is not None:
            self.asked.context.mailbox.give_back(self._number)

    def recalled(self, asked: Asked, record: Record) -> None:
        self._number = number_of(record)
        if self._number is not None:
            asked.context.mailbox.take_back(self._number)

    def abandon(self, asked: Asked, record: Record) -> None:
        super().abandon(asked, record)
        if (number := number_of(record)) is not None:
            asked.context.mailbox.give_back(number)
