"""Branches of a run: where its durable calls stand, so that each finds its own record again."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from stepfast.kernel.decisions import CallId
from stepfast.kernel.durations import Instant

if TYPE_CHECKING:
    from stepfast.workflows.calls import Operation
    from stepfast.workflows.context import RunContext


class Branch:
    """A task or thread of a run's code, numbered by its parent in order of creation."""

    __slots__ = ("_calls", "_children", "context", "now", "path")

    def __init__(self, context: RunContext, path: str = "", now: Instant | None = None) -> None:
        self.context = context
        self.path = path
        self.now: Instant = context.run.queued_at if now is None else now
        """The stored moment of the last result that this branch was given: the same on every replay."""
        self._children = 0
        self._calls: dict[str, int] = {}

    def child(self) -> Branch:
        """A new branch below this one."""
        self._children += 1
        number = str(self._children)
        return Branch(self.context, f"{self.path}.{number}" if self.path else number, self.now)

    def next_call(self, name: str) -> CallId:
        """The place of the next call of that name in this branch."""
        nth = self._calls.get(name, 0) + 1
        self._calls[name] = nth
        return CallId(self.path, name, nth)


class _Thread(threading.local):
    branch: Branch | None = None


_thread = _Thread()


def thread_branch() -> Branch | None:
    """The branch whose code this thread runs, if it runs a `def` workflow."""
    return _thread.branch


def enter_thread(branch: Branch | None) -> None:
    """From here on this thread runs the code of a branch; None: of no branch any more."""
    _thread.branch = branch


def ask_blocking(branch: Branch, operation: Operation) -> Any:
    """A durable call of a `def` workflow: the event loop answers, the thread waits."""
    answer: Future[Any] = Future()
    context = branch.context

    def ask() -> None:
        try:
            context.ask(branch, operation, answer)
        except BaseException as error:  # noqa: BLE001 - it belongs to the thread that asked
            answer.set_exception(error)
        else:
            context.kick()

    context.outer.call_soon_threadsafe(ask)
    return answer.result()
