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

if TYPE_CHECKING:
    from stepfast.workflows.calls import Operation
    from stepfast.workflows.context import RunContext


class ThreadAnswer(Future[Any]):
    """What the thread of a `def` workflow waits for."""

    on_cancel: Callable[[], object] | None = None

    def call_off(self, error: BaseException) -> None:
        """The thread gets this error instead, and what it waited for is called off; on the worker's loop only."""
        if not self.done():
            self.set_exception(error)
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

    def ask(self, begin: Callable[[ThreadAnswer], object]) -> Any:
        """Have the worker's loop begin something, and wait here for its answer."""
        answer = ThreadAnswer()
        self.branch.context.outer.call_soon_threadsafe(self._begin, begin, answer)
        return answer.result()

    def run(self, make: Callable[[], Awaitable[Any]]) -> Any:
        """Run code in the run's own loop, as a branch below this one, and wait here for its end."""
        # What it handled at its last call may be over; what it handles now, the new branch sees by itself.
        self.branch.handles = ()
        branch = self.branch.child()

        async def code() -> Any:
            return await make()

        def begin(answer: ThreadAnswer) -> None:
            task = self.branch.context.run_branch(code(), branch)
            task.add_done_callback(partial(_hand_on, answer))
            answer.on_cancel = task.cancel

        return self.ask(begin)

    def within(self, timer: Operation, error: BaseException) -> Deadline:
        """From here on, until the deadline is taken away, calls raise this error once the timer has ended."""
        deadline = Deadline(self, error)
        self.ask(partial(deadline.begin, timer))
        return deadline

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
        for deadline in self.deadlines:
            if deadline.is_over:
                answer.call_off(deadline.error)
        context.kick()

    def _answered(self, answer: Future[Any]) -> None:
        self.answer = None
        # What goes on beside the thread, such as the timer of a `timeout`, must not park the run.
        self.branch.context.computes = True


class Deadline:
    """A time limit on what the thread of a `def` workflow does."""

    def __init__(self, thread: ThreadCode, error: BaseException) -> None:
        self.error = error
        self.is_over = False
        self._thread = thread
        self._branch = thread.branch.child()
        self._timer = ThreadAnswer()

    def begin(self, timer: Operation, answer: ThreadAnswer) -> None:
        """On the worker's loop: start the timer."""
        self._branch.context.ask(self._branch, timer, self._timer)
        self._timer.add_done_callback(self._expire)
        self._thread.deadlines.append(self)
        answer.set_result(None)

    def end(self) -> None:
        """Take the limit away."""
        self._thread.ask(self._end)

    def _end(self, answer: ThreadAnswer) -> None:
        self._thread.deadlines.remove(self)
        if not self._branch.context.is_closed:
            self._timer.call_off(CancelledError())
        answer.set_result(None)

    def _expire(self, timer: Future[Any]) -> None:
        if timer.exception() is None:
            self.is_over = True
            if self._thread.answer is not None:
                self._thread.answer.call_off(self.error)


def _hand_on(answer: ThreadAnswer, task: Task[Any]) -> None:
    """Give what came of a task to the thread that waits for it."""
    error = CancelledError() if task.cancelled() else task.exception()
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(task.result())


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


def ask_blocking(branch: Branch, operation: Operation) -> Any:
    """A durable call of a `def` workflow: the event loop answers, the thread waits."""
    assert _thread.code is not None
    # The worker's loop, which takes the call up, does not see what this thread is handling.
    branch.handles = handled_calls(sys.exception())
    return _thread.code.ask(partial(branch.context.ask, branch, operation))
