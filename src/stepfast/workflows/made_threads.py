"""Threads that `def` workflows start by themselves: a call there has no place in the run, and would not be recorded."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pools
from types import FrameType
from typing import Any, NamedTuple, ParamSpec, TypeVar
from weakref import ref

from stepfast.kernel.errors import WrongCall

P = ParamSpec("P")
T = TypeVar("T")

# Attributes of threads: in which watch one was made, and that in which it runs workflow code itself.
_MADE = "_stepfast_made"
_WATCH = "_stepfast_watch"


class Watch:
    """The while in which a thread runs the code of a `def` workflow."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class Made(NamedTuple):
    """In which watch a thread was made, and for which work: None, for all that it does."""

    watch: Watch
    work: Callable[[], Future[Any] | None] | None = None

    @property
    def is_for_what_is_done(self) -> bool:
        """Whether the thread was made for what it does now."""
        if self.work is None:
            return True
        under_way = _work_under_way()
        return under_way is not None and self.work() is under_way


class Watched(threading.Thread):
    """A thread while it runs the code of a `def` workflow: threads that this code makes are marked.

    Python keeps nowhere which thread made another. But a new one asks the thread that makes it whether it is a daemon,
    as it inherits that; threads for which that is said with `daemon=` do not ask, and are not known.
    """

    @property
    def daemon(self) -> bool:
        maker = sys._getframe(1)
        if maker.f_code is threading.Thread.__init__.__code__:
            vars(maker.f_locals["self"])[_MADE] = _made_by(maker, vars(self)[_WATCH])
            # What code begins by itself is waited for when the process ends, as everywhere.
            return False
        return super().daemon

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        raise RuntimeError("cannot set daemon status of active thread")


class WatchedPool(ThreadPoolExecutor):
    """A pool that workflow code has used: it knows the work that such code gives it from that of others.

    Pools outlive the code that uses them, and may be everybody's: what a step's body has them do is no affair of ours.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        watch = _watch_here()
        if watch is None:
            return super().submit(fn, *args, **kwargs)
        return super().submit(_work, watch, fn, *args, **kwargs)


def _watched(kind: type[ThreadPoolExecutor]) -> type[ThreadPoolExecutor]:
    return WatchedPool if kind is ThreadPoolExecutor else type(kind.__name__, (WatchedPool, kind), {})


class _AtWork(threading.local):
    watch: Watch | None = None
    """Of the code whose work this thread of a pool does."""


_at_work = _AtWork()


def _work(watch: Watch, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Do what workflow code has given to a pool."""
    before, _at_work.watch = _at_work.watch, watch
    try:
        return fn(*args, **kwargs)
    finally:
        _at_work.watch = before


def _made_by(maker: FrameType, watch: Watch) -> Made:
    """The mark of a thread that is being made. One that a pool makes does what others want as well."""
    growing = maker.f_back
    if growing is None or growing.f_code is not ThreadPoolExecutor._adjust_thread_count.__code__:
        return Made(watch)
    pool: ThreadPoolExecutor = growing.f_locals["self"]
    submitting = growing.f_back
    if not isinstance(pool, WatchedPool):
        pool.__class__ = _watched(type(pool))
    # The work for which a pool grows is handed over by now; what comes after it is seen by the pool.
    work = None if submitting is None else submitting.f_locals.get("f")
    return Made(watch, ref(work) if isinstance(work, Future) else lambda: None)


def _work_under_way() -> Future[Any] | None:
    """What the pool does in this thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not pools._WorkItem.run.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"].future


def _watch_here() -> Watch | None:
    """In which watch this thread runs, was made, or was given what it does."""
    thread = vars(threading.current_thread())
    found: Watch | None = thread.get(_WATCH) or _at_work.watch
    made: Made | None = thread.get(_MADE)
    if found is None and made is not None and made.is_for_what_is_done:
        found = made.watch
    return None if found is None or found.is_over else found


def watch_this_thread() -> None:
    """From here on this thread runs workflow code."""
    thread = threading.current_thread()
    # Not one of a class that somebody else has given it.
    if type(thread) is threading.Thread:
        thread.__class__ = Watched
        vars(thread)[_WATCH] = Watch()


def let_go_of_this_thread() -> None:
    """This thread runs workflow code no more."""
    thread = threading.current_thread()
    watch: Watch | None = vars(thread).pop(_WATCH, None)
    if watch is not None:
        watch.is_over = True
        thread.__class__ = threading.Thread


def refuse_in_made_thread(name: str) -> None:
    """A call that looks durable in a thread of workflow code would be made again by every replay, and nobody know."""
    if _watch_here() is not None:
        raise WrongCall(
            f"{name!r} was called in a thread that a `def` workflow has started, where no call is recorded. For calls "
            "side by side use `each.sync`."
        )
