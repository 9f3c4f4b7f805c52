"""Branches of a run: where its durable calls stand, so that each finds its own record again."""

from __future__ import annotations

import sys
import threading
from asyncio import CancelledError, Task
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from stepfast.kernel.decisions import CallId
from stepfast.workflows.failures import handled_calls
from stepfast.workflows.made_threads import let_go_of_this_thread, watch_this_thread

if TYPE_CHECKING:
    from stepfast.workflows.calls import Operation
    from stepfast.workflows.context import RunContext

# What a thread may call while it unwinds, each in a `finally` or the end of a `with`, before it counts as one that does
# not end.
UNWINDING_CALLS = 100_000


class Parked(BaseException):
    """The run's code is being dropped here: it waits, was cancelled, or belongs to another worker now.

    No Exception, so that code which catches those does not take it for a failure of its own.
    """


class ThreadAnswer(Future[Any]):
    """What the thread of a `def` workflow waits for."""

    on_cancel: Callable[[], object] | None = None
    task: Task[Any] | None = None
    """The code of the run that it comes from, if it comes from such."""

    def call_off(self) -> None:
        """What the thread waits for is called off, and it is told so; on the worker's loop only."""
        if self.task is not None:
            # It may have something to tidy up, which is waited for.
            self.task.cancel()
        elif not self.done():
            self.set_exception(CancelledError())
            if self.on_cancel is not None:
                self.on_cancel()


class Branch:
    """A task or thread of a run's code, numbered by its parent in order of creation."""

    __slots__ = ("_calls", "_children", "context", "handles", "path")

    def __init__(self, context: RunContext, path: str = "", handles: tuple[CallId, ...] = ()) -> None:
        self.context = context
        self.handles = handles
        """The calls whose failures were being handled where it was made; of a thread, where it is now."""
        self.path = path
        self._children = 0
        self._calls: dict[str, int] = {}

    def child(self) -> Branch:
        """A new branch below this one."""
        self._children += 1
        number = str(self._children)
        error = sys.exception()
        handles = self.handles if error is None else handled_calls(error, self.handles)
        return Branch(self.context, f"{self.path}.{number}" if self.path else number, handles)

    def last_call(self, name: str) -> CallId:
        """The place of the call of that name that this branch made last."""
        return CallId(self.path, name, self._calls.get(name, 1))

    def coming_call(self, name: str) -> CallId:
        """The place that the next call of that name in this branch will have."""
        return CallId(self.path, name, self._calls.get(name, 0) + 1)

    def next_call(self, name: str) -> CallId:
        """The place of the next call of that name in this branch."""
        nth = self._calls.get(name, 0) + 1
        self._calls[name] = nth
        return CallId(self.path, name, nth)


class ThreadCode:
    """The thread of a `def` workflow: what it waits for, and what it must be done with by when."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.answer: ThreadAnswer | None = None
        self.deadlines: list[Deadline] = []
        self._refused = 0

    def ask(self, begin: Callable[[ThreadAnswer], object]) -> Any:
        """Have the worker's loop begin something, and wait here for its answer."""
        self._unwind_if_dropped()
        answer, outer = ThreadAnswer(), self.branch.context.outer
        try:
            outer.call_soon_threadsafe(self._begin, begin, answer)
        except RuntimeError:
            raise Parked from None
        return answer.result()

    def _unwind_if_dropped(self) -> None:
        context = self.branch.context
        if not context.is_closed and not context.outer.is_closed():
            return
        self._refused += 1
        if self._refused > UNWINDING_CALLS:
            context.tell_that_it_stays()
            stay_for_good()
        raise Parked

    def run(self, make: Callable[[], Awaitable[Any]]) -> Any:
        """Run code in the run's own loop, as a branch below this one, and wait here for its end."""
        # What it handled at its last call may be over; what it handles now, the new branch sees by itself.
        self.branch.handles = ()
        branch = self.branch.child()

        async def code() -> Any:
            return await make()

        def begin(answer: ThreadAnswer) -> None:
            answer.task = self.branch.context.run_branch(code(), branch)
            answer.task.add_done_callback(partial(_hand_on, answer))

        return self.ask(begin)

    def within(self, timer: Operation) -> Deadline:
        """From here on, until the deadline is taken away, a call is called off when the timer has ended."""
        deadline = Deadline(self)
        self.ask(partial(deadline.begin, timer))
        return deadline

    def call_off_what_is_late(self) -> None:
        """Call off what the thread waits for if a deadline is over; each deadline does so once, like a cancellation."""
        late = [deadline for deadline in self.deadlines if deadline.is_over and not deadline.is_told]
        if late and self.answer is not None:
            for deadline in late:
                deadline.is_told = True
            self.answer.call_off()

    def _begin(self, begin: Callable[[ThreadAnswer], object], answer: ThreadAnswer) -> None:
        context = self.branch.context
        context.computes = False
        self.answer = answer
        answer.add_done_callback(self._answered)
        try:
            begin(answer)
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that asked
            answer.set_exception(error)
            return
        self.call_off_what_is_late()
        context.kick()

    def _answered(self, answer: Future[Any]) -> None:
        self.answer = None
        # What goes on beside the thread, such as the timer of a `timeout`, must not park the run.
        self.branch.context.computes = True


class Deadline:
    """A time limit on what the thread of a `def` workflow does."""

    def __init__(self, thread: ThreadCode) -> None:
        self.is_over = False
        self.is_told = False
        """Whether the thread has been told: what it calls after that, as in a `finally`, is done."""
        self._thread = thread
        self._branch = thread.branch.child()
        self._timer = ThreadAnswer()

    def begin(self, timer: Operation, answer: ThreadAnswer) -> None:
        """On the worker's loop: start the timer."""
        self._branch.context.ask(self._branch, timer, self._timer)
        self._timer.add_done_callback(self._expire)
        self._thread.deadlines.append(self)
        answer.set_result(None)

    def end(self) -> bool:
        """Take the limit away; whether it is the outermost of those that have called something off."""
        is_outermost: bool = self._thread.ask(self._end)
        return is_outermost

    def _end(self, answer: ThreadAnswer) -> None:
        deadlines = self._thread.deadlines
        deadlines.remove(self)
        if not self._branch.context.is_closed:
            self._timer.call_off()
        answer.set_result(self.is_told and not any(deadline.is_told for deadline in deadlines))

    def _expire(self, timer: Future[Any]) -> None:
        if timer.exception() is None:
            self.is_over = True
            self._thread.call_off_what_is_late()


def _hand_on(answer: ThreadAnswer, task: Task[Any]) -> None:
    """Give what came of a task to the thread that waits for it."""
    error = CancelledError() if task.cancelled() else task.exception()
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


def stay_for_good() -> None:
    """Block this thread: nothing ends one that catches everything, and it costs least while it waits."""
    threading.Event().wait()


class _Thread(threading.local):
    code: ThreadCode | None = None


_thread = _Thread()


def thread_code() -> ThreadCode | None:
    """The `def` workflow whose code this thread runs, if it runs one."""
    return _thread.code


def thread_branch() -> Branch | None:
    """The branch whose code this thread runs, if it runs a `def` workflow."""
    return None if _thread.code is None else _thread.code.branch


def enter_thread(branch: Branch | None) -> None:
    """From here on this thread runs the code of a branch; None: of no branch any more."""
    _thread.code = None if branch is None else ThreadCode(branch)
    if branch is None:
        let_go_of_this_thread()
    else:
        watch_this_thread()


def ask_blocking(branch: Branch, operation: Operation) -> Any:
    """A durable call of a `def` workflow: the event loop answers, the thread waits."""
    assert _thread.code is not None
    # The worker's loop, which takes the call up, does not see what this thread is handling.
    handled, context = sys.exception(), branch.context
    branch.handles = handled_calls(handled)
    if handled is not None:
        context.outer.call_soon_threadsafe(context.heed, handled)
    return _thread.code.ask(partial(branch.context.ask, branch, operation))
