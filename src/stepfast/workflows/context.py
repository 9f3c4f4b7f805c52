"""One run under way: its durable calls, answered from records first, then by doing them, in an order that replays."""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from stepfast.kernel import rules
from stepfast.kernel.blobs import LargeValues
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.decisions import CallId, Decision, HeldRun, History, Message, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, LeaseLost, NonDeterminism, StepfastError, WrongCall
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import Delivered, Look, Woken
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Clock, Recorder, Store
from stepfast.kernel.replay import Replay, check_all_claimed
from stepfast.kernel.retry import Retry
from stepfast.kernel.states import STEP_CUT_OFF, STEP_ENDED, StepState
from stepfast.workflows import failures
from stepfast.workflows.branches import Branch
from stepfast.workflows.calls import Answer, Asked, Operation
from stepfast.workflows.limits import BodyThreads
from stepfast.workflows.loop import open_loop
from stepfast.workflows.mailbox import Mailbox


class Parked(BaseException):
    """The run's code is being dropped here: it waits, was cancelled, or belongs to another worker now.

    No Exception, so that code which catches those does not take it for a failure of its own.
    """


class Held(Exception):
    """A person holds the run: it is given back, and nobody takes it until it is resumed."""


class Host(NamedTuple):
    """What a run gets from the worker that executes it."""

    recorder: Recorder
    clock: Clock
    threads: BodyThreads
    default_retry: Retry
    store: Store
    values: LargeValues
    change: Callable[[Sequence[Request]], Awaitable[list[Changed | StepfastError]]]
    """Carries commands out, and tells those whom they concern."""
    delivered: Callable[[RunId, Delivered], None]
    """Hears of what was brought to a run."""


class RunContext:
    """The durable side of one run: everything its code asks for comes through here."""

    def __init__(self, run: HeldRun, history: History, host: Host, outer: asyncio.AbstractEventLoop) -> None:
        self.run = run
        self.host = host
        self.outer = outer
        self.loop = open_loop(outer, self._hand_out_next)
        self.mailbox = Mailbox(history.waits, history.inbox)
        self.stopped_by: BaseException | None = None
        self.on_stop: Callable[[], None] = _nothing
        self.busy: set[CallId] = set()
        """Calls that do something; while there are any, the run does not park."""
        self.resting: set[CallId] = set()
        """Those of them that wait for their next try."""
        self.computes = False
        """Whether the thread of a `def` workflow has its answer and goes on: not every branch waits then."""
        self._errands: set[asyncio.Task[None]] = set()
        self._records = history.records
        self._states: dict[CallId, StepState] = {}
        self._heard: set[CallId] = set()
        self._closed = False
        self._unwound = False
        self._leaving: BaseException | None = None
        self._parking = False
        self._looking = 0
        self._moved: asyncio.Future[None] | None = None
        self._replay = Replay(history.records)
        self._fresh: list[Asked] = []
        self._recorded: list[tuple[int, Asked, Record]] = []
        self._deferred: deque[tuple[Asked, Record | None]] = deque()
        self._results: deque[tuple[Asked, Instant, Any, BaseException | None]] = deque()
        self._open: dict[CallId, Asked] = {}

    def ask(self, branch: Branch, operation: Operation, answer: Answer) -> Asked:
        """A durable call: answered by its record, or done; `answer` gets the result when its turn has come."""
        if self._closed:
            raise Parked
        asked = Asked(self, branch, operation, answer)
        self._open[asked.call] = asked
        self._fresh.append(asked)
        return asked

    def _take_up_fresh(self) -> bool:
        """Find the records of the calls that the code has made since; False when they do not fit."""
        fresh, self._fresh = self._fresh, []
        for asked in fresh:
            self._take_up(asked)
        return self.stopped_by is None

    def _take_up(self, asked: Asked) -> None:
        record = None if self._replay.finished else self._find(asked)
        if record is None and asked.answer.done():
            # Called off in the same breath, then and now: it was never begun.
            self._open.pop(asked.call, None)
        elif record is not None and (record.state in STEP_ENDED or asked.answer.done()):
            heapq.heappush(self._recorded, (record.seq, asked, record))
        else:
            self._deferred.append((asked, record))

    def _find(self, asked: Asked) -> Record | None:
        if asked.answer.done():
            return self._replay.forgo(asked.call)
        return self._matched(asked, partial(self._replay.find, asked.call, asked.digest, asked.same_input))

    def _find_elsewhere(self, asked: Asked) -> Record | None:
        if asked.answer.done() or self._replay.finished:
            return None
        return self._matched(asked, partial(self._replay.find_elsewhere, asked.call, asked.digest))

    def _matched(self, asked: Asked, find: Callable[[], Record | None]) -> Record | None:
        try:
            return find()
        except NonDeterminism as error:
            self.stop(error)
        except Invalid as error:
            self.stop(NonDeterminism(f"The recorded arguments of {asked.call.address} do not fit the code: {error}"))
        return None

    def _hand_out_next(self) -> bool:
        """Every branch waits: give out one more result, or begin what was never recorded; False when there is nothing.

        Records come first and in the order in which their results were once handed out, so that a call without a
        record starts only where the run had really got to.
        """
        if self._closed or self.stopped_by is not None:
            return False
        if self.run.hold or self.computes:
            # A held run's steps under way are recorded, but the code hears of them only when it is resumed.
            self.leave_when_still()
            return False
        if self._looking:
            # It may be a pause that has come, and whoever sent it counts on it.
            return False
        if not self._take_up_fresh():
            return False
        if self._recorded:
            _, asked, record = heapq.heappop(self._recorded)
            self._answer_from(record, asked)
            return True
        if self._deferred and self._leaving is None:
            return self._begin_deferred()
        if self._results:
            asked, at, value, error = self._results.popleft()
            self._answer(asked, at, value, error, asked.call)
            return True
        self.leave_when_still()
        self._park_when_still()
        return False

    def _begin_deferred(self) -> bool:
        """All that was recorded is handed out: begin the rest, but for calls whose records other branches have."""
        unmoved: deque[tuple[Asked, Record | None]] = deque()
        for asked, record in self._deferred:
            found = record or self._find_elsewhere(asked)
            if found is not None and found.state in STEP_ENDED:
                heapq.heappush(self._recorded, (found.seq, asked, found))
            else:
                unmoved.append((asked, found))
        self._deferred = unmoved
        if self.stopped_by is None and not self._recorded:
            while self._deferred:
                self._begin(*self._deferred.popleft())
        return self.stopped_by is None

    def _answer_from(self, record: Record, asked: Asked) -> None:
        if asked.answer.done():
            self._open.pop(asked.call, None)
            asked.operation.abandon(asked, record)
            return
        asked.operation.recalled(asked, record)
        try:
            value, error = asked.result_of(record)
        except Invalid as misfit:
            self.stop(NonDeterminism(f"The recorded result of {asked.call.address} does not fit the code: {misfit}"))
        else:
            self._answer(asked, record.ended_at, value, error, record.call)

    def _answer(self, asked: Asked, at: Instant, value: Any, error: BaseException | None, call: CallId) -> None:
        self._open.pop(asked.call, None)
        answer = asked.answer
        # They refer to each other; let go, both are freed at once and leave the garbage collector nothing to do.
        answer.on_cancel = None
        if answer.done():
            return
        asked.branch.now = at
        if error is None:
            answer.set_result(value)
        else:
            self._heard.add(call)
            answer.set_exception(failures.mark(error, call))

    def _begin(self, asked: Asked, record: Record | None) -> None:
        if asked.answer.done():
            self._open.pop(asked.call, None)
            if record is None:
                self._forgo(asked)
            else:
                asked.operation.abandon(asked, record)
            return
        asked.answer.on_cancel = asked.call_off
        asked.operation.begin(asked, record)

    def call_off(self, asked: Asked) -> None:
        """The code no longer wants a call that was begun."""
        self._open.pop(asked.call, None)
        asked.operation.call_off(asked)

    def _forgo(self, asked: Asked) -> None:
        """Record what an earlier holder had no time for: a call that was under way there was called off.

        Without it the next call of that name in its branch would not fit.
        """
        record = asked.new_record(StepState.CANCELLED, 1, self.host.clock.now())
        self.busy.add(asked.call)
        self.save(rules.call_off(self.run, record), partial(self._forgone, asked))

    def _forgone(self, asked: Asked, refused: BaseException | None) -> None:
        self.busy.discard(asked.call)
        if refused is not None:
            self.stop(refused)
        self.kick()

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
        for record in decision.records:
            self._states[record.call] = record.state
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

    def unheard_failures(self) -> list[CallId]:
        """The calls that failed, but whose failure the code was never given."""
        states = self._newest_states().items()
        return [call for call, state in states if state is StepState.FAILED and call not in self._heard]

    def cut_off_calls(self) -> list[CallId]:
        """The calls of which something is recorded, but no end that the code could go on from."""
        return [call for call, state in self._newest_states().items() if state in STEP_CUT_OFF]

    def _newest_states(self) -> dict[CallId, StepState]:
        return {record.call: record.state for record in self._records} | self._states

    def begun_at(self, call: CallId) -> Instant | None:
        """When the first recorded attempt of a call began."""
        return next((record.started_at for record in self._records if record.call == call), None)

    def run_errand(self, errand: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[None]:
        """Do something beside the code, on the worker's loop; whatever goes wrong there stops the run with that error.

        A task that nobody refers to may vanish, and the run would wait for ever for what it was to bring.
        """
        task = self.outer.create_task(errand, name=name)
        self._errands.add(task)
        task.add_done_callback(self._errand_done)
        return task

    def _errand_done(self, task: asyncio.Task[None]) -> None:
        self._errands.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.stop(error)

    def run_branch(self, code: Coroutine[Any, Any, Any], branch: Branch) -> asyncio.Task[Any]:
        """Run code of a `def` workflow that is not its thread's, beside it in the run's loop."""
        if self._closed:
            code.close()
            raise Parked
        return self.loop.start(code, branch)

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
            self._tell_move()

    def wind_down(self, reason: BaseException) -> None:
        """Begin no further step, and stop when those under way are recorded; one that rests before a retry is not."""
        self._leaving = reason
        self.kick()

    def leave_when_still(self) -> None:
        """Let go, if that is wanted, once nothing is under way that would have to be done again."""
        leaving = Held() if self.run.hold else self._leaving
        if leaving is not None and self.busy <= self.resting:
            self.stop(leaving)

    def _park_when_still(self) -> None:
        if self.busy or self._parking or self._leaving is not None:
            return
        if self.mailbox.is_awaited:
            self._parking = True
            self.save(rules.park(self.run, self.host.clock.now(), self.mailbox.awaited_kinds), self._parked)
        elif self.loop.tasks and not self._errands:
            self.stop(WrongCall(NOTHING_COMES))

    def _parked(self, refused: BaseException | None) -> None:
        self._parking = False
        if refused is None:
            self.stop(Parked())
        elif isinstance(refused, Woken):
            self.look()
        else:
            self.stop(refused)
        self._tell_move()

    async def until_unparked(self) -> bool:
        """Wait while the run is being parked, which would cut off what is done meanwhile; False when it is gone."""
        while self._parking and self.stopped_by is None:
            await self._move()
        return self.stopped_by is None

    async def until_free(self) -> bool:
        """Wait while no step may begin: the run is held, or is being parked or let go; False when it is gone."""
        while (self._parking or self.run.hold or self._leaving is not None) and self.stopped_by is None:
            await self._move()
        return self.stopped_by is None

    async def _move(self) -> None:
        self._moved = self._moved or self.outer.create_future()
        await asyncio.shield(self._moved)

    def _tell_move(self) -> None:
        moved, self._moved = self._moved, None
        if moved is not None:
            moved.set_result(None)

    def look(self) -> None:
        """Something may have come for the run: read it."""
        if not self._closed:
            self._looking += 1
            self.run_errand(self._look(), "stepfast-look")

    async def _look(self) -> None:
        try:
            await self.look_now()
        finally:
            self._looking -= 1
            self.kick()

    async def look_now(self) -> bool:
        """Read what has come for the run, and let those look who wait for it; False when that was not possible."""
        try:
            look = await self._read_look()
        except StepfastError as error:
            self.stop(error)
            return False
        if self._closed:
            return False
        if look is None or look.token != self.run.token:
            self.stop(LeaseLost(f"Run {self.run.run_id} was ended or taken by a command."))
            return False
        # Of two looks under way the later may be answered first.
        if look.wakes >= self.run.wakes:
            self._take_in(look)
        return True

    async def _read_look(self) -> Look | None:
        run, host = self.run, self.host
        look = await host.store.look(run.run_id)
        if look is None or not look.inbox:
            return look
        values = await host.values.resolve(run.tenant, run.run_id, [message.value for message in look.inbox])
        inbox = [message._replace(value=value) for message, value in zip(look.inbox, values, strict=True)]
        return look._replace(inbox=inbox)

    def _take_in(self, look: Look) -> None:
        self.run.wakes, self.run.hold = look.wakes, look.hold
        self.mailbox.update(look.waits, look.inbox)
        commands = [] if look.hold else self.take_commands()
        if commands:
            self.save(rules.tell_commands(self.run, commands, self.host.clock.now()), self._told)
        self._tell_move()
        self.kick()

    def take_commands(self) -> list[Message]:
        """The commands that have come for the run and that nobody has told of, now taken."""
        return self.mailbox.take_commands(self.run.wakes)

    def _told(self, refused: BaseException | None) -> None:
        if refused is not None:
            self.stop(refused)

    @property
    def is_replaying(self) -> bool:
        """Whether the code is still on a way that it has gone before."""
        return bool(self._recorded) or not self._replay.finished

    @property
    def rests(self) -> bool:
        """Whether nothing is under way but pauses before a next try."""
        still = self.stopped_by is None and not self._results and self.loop.is_idle
        return still and bool(self.busy) and self.busy <= self.resting

    @property
    def is_quiet(self) -> bool:
        """Nothing of the code is left: no branch, no step under way, no call unanswered."""
        return not (self._open or self.busy or self.loop.tasks)

    @property
    def is_closed(self) -> bool:
        return self._closed

    def release(self) -> None:
        """Nothing of the run is left here: take apart what refers to each other, so that it is freed at once."""
        self.on_stop = _nothing
        self.loop.release()

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


def _nothing() -> None:
    """Nobody is there to be told."""


NOTHING_COMES = (
    "The workflow's code waits for something that no durable call can bring, such as an asyncio.Event of its own. "
    "Await a step, a sleep, a signal or a child instead."
)

# Code that swallows Parked and goes on calling would unwind for ever; it is dropped after so many callbacks.
UNWINDING_CALLBACKS = 10_000
