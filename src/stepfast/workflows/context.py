"""One run under way: its durable calls, answered from records first, then by doing them, in an order that replays."""

from __future__ import annotations

import asyncio
import heapq
import sys
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any

from stepfast.kernel.decisions import CallId, HeldRun, History, OpenWait, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, NonDeterminism
from stepfast.kernel.plan_rules import GIVEN
from stepfast.kernel.replay import NOTHING_RECORDED, Replay, check_all_claimed
from stepfast.kernel.states import STEP_CUT_OFF, STEP_ENDED, StepState
from stepfast.log import Log, about
from stepfast.workflows import failures
from stepfast.workflows.bodies import Later, StepBody, as_meant
from stepfast.workflows.branches import Branch, Parked
from stepfast.workflows.calls import Answer, Asked, Operation
from stepfast.workflows.mailbox import Waiter
from stepfast.workflows.namesakes import refuse_namesake
from stepfast.workflows.once_calls import ConcludingCall
from stepfast.workflows.stay import Host, Stay
from stepfast.workflows.wait_calls import ReceiveCall

log = Log("workflows")


class RunContext(Stay):
    """The durable side of one run: everything its code asks for comes through here."""

    __slots__ = (
        "_deferred",
        "_elsewhere",
        "_fresh",
        "_handlers",
        "_heard",
        "_late",
        "_open",
        "_recorded",
        "_records",
        "_replay",
        "_results",
        "_steps",
        "_unwound",
        "moment",
    )

    def __init__(self, run: HeldRun, history: History, host: Host, outer: asyncio.AbstractEventLoop) -> None:
        super().__init__(run, history, host, outer, self._hand_out_next)
        self._records = history.records
        self._heard: set[CallId] = set()
        self._handlers: dict[CallId, tuple[CallId, ...]] = {}
        self._unwound = False
        self._steps: dict[str, StepBody] = {}
        self._replay = Replay(history.records, run.kept_seq) if history.records else NOTHING_RECORDED
        self._fresh: list[Asked] = []
        self._recorded: list[tuple[int, Asked, Record]] = []
        self._elsewhere: list[tuple[int, CallId, Asked]] = []
        self._deferred: list[tuple[Asked, Record | None]] = []
        self._late: set[CallId] = set()
        self._results: deque[tuple[Asked, Instant, Any, BaseException | None]] = deque()
        self._open: dict[CallId, Asked] = {}
        self.mailbox.newcomers = self._newcomers
        self.moment: Instant = run.queued_at
        """The stored moment of the last result that the code was given: the same on every replay."""

    def know(self, body: StepBody) -> None:
        """Take note of a step that the code calls; refuse one whose name another has in this run."""
        known = self._steps.setdefault(body.name, body)
        if known is not body:
            refuse_namesake(known, body)

    def ask(self, branch: Branch, operation: Operation, answer: Answer, body: StepBody | None = None) -> Asked:
        """A durable call: answered by its record, or done; `answer` gets the result when its turn has come.

        `body` is that of the step that the code calls, if it calls one by its function.
        """
        if body is not None and self._steps.get(body.name) is not body:
            self.know(body)
        if self._closed:
            raise Parked
        self.heed(sys.exception())
        asked = Asked(self, branch, operation, answer)
        self._open[asked.call] = asked
        self._fresh.append(asked)
        return asked

    def heed(self, handled: BaseException | None) -> None:
        """Put the run off at once where a branch of its code ends with `Later`, or makes a call on its way out with it.

        What is beside it goes on as it is when the run comes back; the call is made where the code really gets there.
        """
        if handled is not None and not self._closed and isinstance(meant := as_meant(handled), Later):
            self.stop(meant)

    def _take_up_fresh(self) -> bool:
        """Find the records of the calls that the code has made since; False when they do not fit."""
        fresh, self._fresh = self._fresh, []
        unended = [taken for asked in fresh if (taken := self._take_up(asked)) is not None]
        # Only when all of them that have a record of their own have got it: there is little left to look through.
        self._deferred.extend(taken for taken in unended if taken[1] or not self._waits_for_place(taken[0]))
        return self.stopped_by is None

    def _take_up(self, asked: Asked) -> tuple[Asked, Record | None] | None:
        """What is still to be begun, or gone on with; None for a call whose end is recorded, or that nobody wants."""
        record = None if self._replay.finished else self._find(asked)
        if record is None and asked.answer.done():
            # Called off in the same breath, then and now: it was never begun.
            self._open.pop(asked.call, None)
        elif record is not None and (record.state in STEP_ENDED or asked.answer.done()):
            heapq.heappush(self._recorded, (record.seq, asked, record))
        else:
            return asked, record
        return None

    def _waits_for_place(self, asked: Asked) -> bool:
        """Whether a call may have been moved from another branch, which has its record: it waits for its turn then."""
        place = None if self._replay.finished else self._replay.place_elsewhere(asked.call, asked.digest)
        if place is not None:
            heapq.heappush(self._elsewhere, (place, asked.call, asked))
        return place is not None

    def _take_up_moved(self) -> None:
        """Its turn has come: it is a call that was moved, unless its record went to the branch that it was made in.

        Later than in its turn it would come behind what was recorded since, and the next replay in another order.
        """
        place, _, asked = heapq.heappop(self._elsewhere)
        if not asked.answer.done() and self._replay.place_elsewhere(asked.call, asked.digest) == place:
            found = self._find_elsewhere(asked)
            assert found is not None
            heapq.heappush(self._recorded, (found.seq, asked, found))
        elif asked.answer.done() or not self._waits_for_place(asked):
            self._deferred.append((asked, None))

    def _find(self, asked: Asked) -> Record | None:
        if asked.answer.done():
            return self._replay.forgo(asked.call)
        call, given = asked.call, asked.operation.input
        return self._matched(asked, partial(self._replay.find, call, asked.digest, asked.same_input, given))

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
        if self._reading:
            # It may be a pause that has come, and whoever sent it counts on it.
            return False
        replayed = self._replay.finished and not (self._recorded or self._elsewhere)
        if self._late:
            # Those that have ended, or that nobody wants any more, keep nothing back.
            self._late &= self._open.keys()
        may_begin = self._leaving is None and not self._late
        if replayed and len(self._fresh) == 1 and not self._deferred and may_begin and self.mailbox.unheard is None:
            return self._begin_alone(self._fresh.pop())
        if self._fresh and not self._take_up_fresh():
            return False
        if not replayed and self._hand_out_recorded():
            return True
        if self._deferred and may_begin:
            return self._begin_deferred()
        if self._results:
            asked, at, value, error = self._results.popleft()
            self._answer(asked, at, value, error, asked.call)
            return True
        return self._decide_next()

    def _decide_next(self) -> bool:
        """The code has heard all there is: let the next of what is past be decided, else park; False when it is all."""
        unheard = self.mailbox.unheard
        if self._has_heard():
            if self._late and self._begin_what_came():
                return True
            if unheard is not None:
                self.mailbox.go_on()
                return True
        self.leave_when_still()
        self.park_when_still()
        return False

    def _has_heard(self) -> bool:
        """Whether the code has heard of the end that all else waits for; nothing does from here on then."""
        if self.mailbox.unheard in self._open:
            return False
        self.mailbox.unheard = None
        return True

    def _begin_what_came(self) -> bool:
        """Begin one of the calls that are kept back by what is late, if what it waits for may have come before that.

        That is a wait which is open in the store, a signal that is there, and what concludes a call that has ended.
        A step is begun when its time has come.
        """
        if self._leaving is not None or not self._replay.finished:
            return False
        for index, (asked, record) in enumerate(self._deferred):
            if self._belongs_before(asked, record):
                del self._deferred[index]
                self._begin(asked, record)
                return True
        if not self.mailbox.has_messages or not self._newcomers():
            return False
        before = len(self._deferred)
        self.mailbox.let_look()
        self._deferred = [*filter(_is_to_begin, self._deferred)]
        return len(self._deferred) < before

    def _belongs_before(self, asked: Asked, record: Record | None) -> bool:
        if asked.answer.done():
            return False
        return self._open_wait(asked, record) is not None or isinstance(asked.operation, ConcludingCall)

    def _newcomers(self) -> list[Waiter]:
        """Those of the calls that are still to be begun which would take what has come."""
        if not self._replay.finished or self._leaving is not None:
            return []
        return [
            Waiter(partial(operation.begin_if_come, asked), operation.address)
            for asked, record in filter(_is_to_begin, self._deferred)
            if record is None and isinstance(operation := asked.operation, ReceiveCall) and not asked.answer.done()
        ]

    def _hand_out_recorded(self) -> bool:
        while self._elsewhere and (not self._recorded or self._elsewhere[0][0] < self._recorded[0][0]):
            self._take_up_moved()
        if not self._recorded:
            return False
        _, asked, record = heapq.heappop(self._recorded)
        self._answer_from(record, asked)
        return True

    def _begin_alone(self, asked: Asked) -> bool:
        """Begin the one call that the code has made since, as nearly always; False when there is nothing else to do.

        It is the same as to take it up with all others, without the way there.
        """
        if asked.answer.done():
            self._open.pop(asked.call, None)
            return True
        # By the one door that there is: where only records may answer, nothing is begun there.
        self._begin(asked, None)
        # While it is under way, and nothing came of it at once, there is nothing to hand out.
        return self.stopped_by is None and (not self.busy or bool(self._results) or bool(self.loop.ready))

    def _begin_deferred(self) -> bool:
        """All that was recorded is handed out: begin the rest, but for calls whose records other branches have."""
        unmoved: list[tuple[Asked, Record | None]] = []
        for asked, record in filter(_is_to_begin, self._deferred):
            found = record or self._find_elsewhere(asked)
            if found is not None and found.state in STEP_ENDED:
                heapq.heappush(self._recorded, (found.seq, asked, found))
            else:
                unmoved.append((asked, found))
        self._deferred = unmoved
        if self.stopped_by is None and not self._recorded:
            self._begin_in_time()
        return self.stopped_by is None

    def _begin_in_time(self) -> None:
        """Begin calls, those first that wait in the store already, and then those that take what has come.

        If the time of such a wait is over the others are left for later: what its end calls off is never begun.
        """
        mailbox, calls = self.mailbox, self._deferred
        had_unheard = mailbox.unheard is not None and self._has_heard()
        waiting = [(wait, call) for call in calls if (wait := self._open_wait(*call))] if mailbox.has_waits else []
        if waiting:
            now, gone_on = self.host.clock.now(), {asked.call for _, (asked, _) in waiting}
            self._deferred = [call for call in calls if call[0].call not in gone_on]
            self._late = {asked.call for wait, (asked, _) in waiting if mailbox.is_late(wait, now)}
            with mailbox.gathering():
                for _, (asked, record) in mailbox.by_time(waiting):
                    self._begin(asked, record)
        elif had_unheard or (mailbox.has_messages and len(self._newcomers()) > 1):
            mailbox.let_look()
        if not self._late:
            calls, self._deferred = self._deferred, []
            for asked, record in filter(_is_to_begin, calls):
                self._begin(asked, record)

    def _open_wait(self, asked: Asked, record: Record | None) -> OpenWait | None:
        """The wait in the store that a call goes on with, if it has one."""
        wait_id = asked.operation.wait_id(record)
        return None if wait_id is None else self.mailbox.wait(wait_id)

    def is_in_time(self, call: CallId) -> None:
        """The time of a wait is not over by the store's clock: what it kept back may begin."""
        self._late.discard(call)
        self.kick()

    def _answer_from(self, record: Record, asked: Asked) -> None:
        if asked.answer.done():
            self._open.pop(asked.call, None)
            asked.operation.abandon(asked, record)
            return
        if record.state is StepState.CANCELLED:
            # Called off before, and wanted now that the code comes by again: it is begun anew.
            self._deferred.append((asked, None))
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
        self.moment = at
        if error is None:
            answer.set_result(value)
        else:
            self._heard.add(call)
            answer.set_exception(failures.mark(error, call))
        if type(asked.operation) is ReceiveCall:
            asked.operation.heard(asked)

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
        self.heed(sys.exception())
        if self.stopped_by is not None:
            # The run is let go of, and its code unwinds: what is under way waits for it as it is.
            return
        self._open.pop(asked.call, None)
        asked.operation.call_off(asked)

    def _forgo(self, asked: Asked) -> None:
        """Record what an earlier holder had no time for: a call that was under way there was called off.

        Without it the next call of that name in its branch would not fit.
        """
        record = asked.new_record(StepState.CANCELLED, 1, self.host.clock.now())
        self.busy.add(asked.call)
        self.save(asked.forgone(self.run, record), partial(self._forgone, asked))

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
            self.loop.kick()
        else:
            self.stop(refused)

    def unheard_failures(self) -> list[CallId]:
        """The calls that failed, but whose failure the code was never given."""
        states = self._newest_states().items()
        return [call for call, state in states if state is StepState.FAILED and call not in self._heard]

    def failures_of(self, calls: Collection[CallId]) -> dict[CallId, BaseException]:
        """What is recorded of those of these calls that failed, whether or not the code was given it."""
        states = self._newest_states()
        failed = [call for call in calls if states.get(call) is StepState.FAILED]
        texts = {record.call: record.error or "{}" for record in self._records} | self._errors if failed else {}
        return {call: failures.revive(failures.from_text(texts[call])) for call in failed}

    def cut_off_calls(self) -> list[CallId]:
        """The calls of which something is recorded, but no end that the code could go on from."""
        given = self.given_calls()
        return [call for call, state in self._newest_states().items() if state in STEP_CUT_OFF and call not in given]

    def given_calls(self) -> frozenset[CallId]:
        """The calls whose results a person has given."""
        return frozenset(record.call for record in self._records if record.kind == GIVEN)

    def note_handler(self, call: CallId, handled: tuple[CallId, ...]) -> None:
        """The code makes a call while it handles the failures of others."""
        self._handlers[call] = handled

    def handlers_of(self, failed: Iterable[CallId]) -> list[CallId]:
        """The calls that the code made while it handled these failures, or failures of such calls."""
        found = dict.fromkeys(failed)
        before = len(found)
        # A handler is asked for after what it handles, so that one pass finds all.
        for call, handled in self._handlers.items():
            if any(each in found for each in handled):
                found.setdefault(call)
        return list(found)[before:]

    def _newest_states(self) -> dict[CallId, StepState]:
        return {record.call: record.state for record in self._records} | self._states

    def begun_at(self, call: CallId) -> Instant | None:
        """When the first recorded attempt of a call began."""
        return next((record.started_at for record in self._records if record.call == call), None)

    def run_branch(self, code: Coroutine[Any, Any, Any], branch: Branch) -> asyncio.Task[Any]:
        """Run code of a `def` workflow that is not its thread's, beside it in the run's loop."""
        if self._closed:
            code.close()
            raise Parked
        return self.loop.start(code, branch)

    def check_end(self) -> None:
        """Refuse an end of the code that left recorded steps out."""
        if not self._replay.finished:
            check_all_claimed(self._replay)

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
        if self.loop.tasks:
            self.tell_that_it_stays()

    def tell_that_it_stays(self) -> None:
        """The code has caught what was to end it here again and again, and is left where it is."""
        log.warning("code_stays", **about(self.run), workflow=self.run.code, remedy=CATCH_LESS)


def _is_to_begin(call: tuple[Asked, Record | None]) -> bool:
    """Whether a call that was put off has not taken what it wants meanwhile."""
    operation = call[0].operation
    return not isinstance(operation, ReceiveCall) or not operation.has_taken


# Code that swallows Parked and goes on calling would unwind for ever; it is dropped after so many callbacks.
UNWINDING_CALLBACKS = 10_000
CATCH_LESS = "Write `except Exception:` for a bare `except:` or `except BaseException:` around durable calls."
