"""Threads that `def` workflows start by themselves: a call there has no place in the run, and would not be recorded."""

from __future__ import annotations

import sys
import threading

from stepfast.kernel.errors import WrongCall

_MADE_IN = "_stepfast_made_in"
"""The attribute by which a thread knows the watch in which it was made."""


class Watch:
    """The while in which a thread runs the code of a `def` workflow."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class Watched(threading.Thread):
    """A thread while it runs the code of a `def` workflow: threads that this code makes are marked.

    Python keeps nowhere which thread made another. But a new one asks the thread that makes it whether it is a daemon,
    as it inherits that; threads for which that is said with `daemon=` do not ask, and are not known.
    """

    watch: Watch

    @property
    def daemon(self) -> bool:
        maker = sys._getframe(1)
        if maker.f_code is threading.Thread.__init__.__code__:
            vars(maker.f_locals["self"])[_MADE_IN] = self.watch
        return super().daemon

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        raise RuntimeError("cannot set daemon status of active thread")


def watch_this_thread() -> None:
    """From here on this thread runs workflow code."""
    thread = threading.current_thread()
    # Not one of a class that somebody else has given it.
    if type(thread) is threading.Thread:
        thread.__class__ = Watched
        vars(thread)["watch"] = Watch()


def let_go_of_this_thread() -> None:
    """This thread runs workflow code no more. A pool that it has used may be everybody's from here on."""
    thread = threading.current_thread()
    watch: Watch | None = vars(thread).pop("watch", None)
    if watch is not None:
        watch.is_over = True
        thread.__class__ = threading.Thread


def refuse_in_made_thread(name: str) -> None:
    """A call that looks durable in a thread of workflow code would be made again by every replay, and nobody know."""
    watch: Watch | None = vars(threading.current_thread()).get(_MADE_IN)
    if watch is not None and not watch.is_over:
        raise WrongCall(
            f"{name!r} was called in a thread that a `def` workflow has started, where no call is recorded. For calls "
            "side by side use `each.sync`."
        )
