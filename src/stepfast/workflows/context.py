"""One run under way: its durable calls, answered from records first, then by doing them, in an order that replays."""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

from stepfast.kernel import rules
from stepfast.kernel.decisions import CallId, Decision, HeldRun, History, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, NonDeterminism, StepfastError
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import Woken
from stepfast.kernel.ports import Clock, Recorder, Store
from stepfast.kernel.replay import Replay, check_all_claimed
from stepfast.kernel.retry import Retry
from stepfast.kernel.states import STEP_ENDED
from stepfast.workflows.branches import Branch
from stepfast.workflows.calls import Answer, Asked, Operation
from stepfast.workflows.loop import CallAnswer, open_loop
from stepfast.workflows.mailbox import Mailbox


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
    store: Store


class RunContext:
    """The durable side of one run: everything its code asks for comes through here."""

    def __init__(self, run: HeldRun, history: History, host: Host, outer: asyncio.AbstractEventLoop) -> None:
        self.run = run
        self.host = host
        self.outer = outer
        self.loop = open_loop(outer, self._hand_out_next)
        self.mailbox = Mailbox(history.waits, history.inbox)
        self.stopped_by: BaseException | None = None
        self.on_stop: Callable[[], None] = lambda: None
        self.busy: set[CallId] = set()
        """Calls that do something; while there are any, the run does not park."""
        self.resting: set[CallId] = set()
        """Those of them that wait for their next try."""
        self._closed = False
        self._unwound = False
        self._leaving: BaseException | None = None
        self._parking = False
        self._replay = Replay(history.records)
        self._recorded: list[tuple[int, Asked, Record]] = []
        self._deferred: deque[tuple[Asked, Record | None]] = deque()
        self._results: deque[tuple[Asked, Instant, Any, BaseException | None]] = deque()
        self._open: dict[CallId, Asked] = {}

    def ask(self, branch: Branch, operation: Operation, answer: Answer) -> Asked:
        """A durable call: claims its record, or is done; `answer` gets the result when its turn has come."""
        if self._closed:
            raise Parked
        asked = Asked(self, branch, operation, answer)
        self._open[asked.call] = asked
        record = None if self._replay.finished else self._find(asked)
        if record is None or record.state not in STEP_ENDED:
            self._deferred.append((asked, record))
        else:
            heapq.heappush(self._recorded, (record.seq, asked, record))
        return asked

    def _find(self, asked: Asked) -> Record | None:
        try:
            return self._replay.find(asked.call, asked.digest, asked.same_input)
        except NonDeterminism as error:
            self.stop(error)
            raise Parked from error
        except Invalid as error:
            self.stop(NonDeterminism(f"The recorded arguments of {asked.call.address} do not fit the code: {error}"))
            raise Parked from error

    def _hand_out_next(self) -> bool:
        """Every branch waits: give out one more result, or begin what was never recorded; False when there is nothing.

        Records come first and in the order in which their results were once handed out, so that a call without a
        record starts only where the run had really got to.
        """
        if self._closed or self.stopped_by is not None:
            return False
        if self._recorded:
            _, asked, record = heapq.heappop(self._recorded)
            self._answer_from(record, asked)
            return True
        if self._deferred and self._leaving is None:
            while self._deferred:
                self._begin(*self._deferred.popleft())
            return True
        if self._results:
            self._answer(*self._results.popleft())
            return True
        self.leave_when_still()
        self._park_when_still()
        return False

    def _answer_from(self, record: Record, asked: Asked) -> None:
        try:
            value, error = asked.result_of(record)
        except Invalid as misfit:
            self.stop(NonDeterminism(f"The recorded result of {asked.call.address} does not fit the code: {misfit}"))
        else:
            self._answer(asked, record.ended_at, value, error)

    def _answer(self, asked: Asked, at: Instant, value: Any, error: BaseException | None) -> None:
        self._open.pop(asked.call, None)
        if asked.answer.done():
            return
        asked.branch.now = at
        if error is None:
            asked.answer.set_result(value)
        else:
            asked.answer.set_exception(error)

    def _begin(self, asked: Asked, record: Record | None) -> None:
        if asked.answer.cancelled():
            self._open.pop(asked.call, None)
            if record is not None:
                asked.operation.abandon(asked, record)
            return
        if isinstance(asked.answer, CallAnswer):
            asked.answer.on_cancel = partial(self._call_off, asked)
        asked.operation.begin(asked, record)

    def _call_off(self, asked: Asked) -> None:
        self._open.pop(asked.call, None)
        asked.operation.call_off(asked)

    def ended(
        self, asked: Asked, at: Instant, value: Any, error: BaseException | None, refused: BaseException | None
    ) -> None:
        """A call has its result, and it is saved, unless `refused` says why not."""
        self.busy.discard(asked.call)
        if refused is None:
            self._results.append((asked, at, value, error))
            self.kick()
        else:
            self.stop(refused)

    def save(self, decision: Decision, answered: Callable[[BaseException | None], None]) -> None:
        """Save something of this run with the next commit."""
        self.host.recorder.save(self.run, decision, answered)

    async def saved(self, decision: Decision) -> bool:
        """Save, and wait for it; False when the run cannot go on here."""
        answer: asyncio.Future[BaseException | None] = self.outer.create_future()

        def answered(refused: BaseException | None) -> None:
            if not answer.done():
                answer.set_result(refused)

        self.save(decision, answered)
        refused = await answer
        if refused is not None:
            self.stop(refused)
        return refused is None

    def tell(self, event: Event) -> None:
        """Send an event along with the run's next commit; may be called from any thread."""
        if events._get_running_loop() in (self.outer, self.loop):
            self.host.recorder.ride(self.run, event)
        else:
            self.outer.call_soon_threadsafe(self.host.recorder.ride, self.run, event)

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

    def leave_when_still(self) -> None:
        """Let go, if that is wanted, once nothing is under way that would have to be done again."""
        if self._leaving is not None and self.busy <= self.resting:
            self.stop(self._leaving)

    def _park_when_still(self) -> None:
        if self.busy or self._parking or self._leaving is not None or not self.mailbox.is_awaited:
            return
        self._parking = True
        self.save(rules.park(self.run, self.host.clock.now()), self._parked)

    def _parked(self, refused: BaseException | None) -> None:
        self._parking = False
        if refused is None:
            self.stop(Parked())
        elif isinstance(refused, Woken):
            self.look()
        else:
            self.stop(refused)

    def look(self) -> None:
        """Something may have come for the run: read it."""
        if not self._closed:
            self.outer.create_task(self.look_now(), name="stepfast-look")

    async def look_now(self) -> bool:
        """Read what has come for the run, and let those look who wait for it; False when that was not possible."""
        try:
            look = await self.host.store.look(self.run.run_id)
        except StepfastError as error:
            self.stop(error)
            return False
        if look is None or self._closed:
            return False
        self.run.wakes = look.wakes
        self.mailbox.update(look.waits, look.inbox)
        self.kick()
        return True

    @property
    def is_replaying(self) -> bool:
        """Whether the code is still on a way that it has gone before."""
        return bool(self._recorded) or not self._replay.finished

    @property
    def is_quiet(self) -> bool:
        """Nothing of the code is left: no branch, no step under way, no call unanswered."""
        return not (self._open or self.busy or self.loop.tasks)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def refuse_calls(self) -> None:
        """From here on every durable call raises Parked and does nothing."""
        self._closed = True

    def close(self) -> None:
        """Drop the code without letting it act: from here on every durable call raises Parked and does nothing."""
        if self._unwound:
            return
        self._closed = self._unwound = True
        for asked in list(self._open.values()):
            asked.operation.drop()
            if not asked.answer.done():
                asked.answer.set_exception(Parked())
        for branch_task in list(self.loop.tasks):
            branch_task.cancel()
        self.loop.drain(UNWINDING_CALLBACKS)


# Code that swallows Parked and goes on calling would unwind for ever; it is dropped after so many callbacks.
UNWINDING_CALLBACKS = 10_000
