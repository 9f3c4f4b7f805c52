"""Threads that `def` workflows start by themselves: a call there has no place in the run, and would not be recorded."""

from __future__ import annotations

import sys
import threading
import weakref

from stepfast.kernel.errors import WrongCall

_made: weakref.WeakKeyDictionary[threading.Thread, threading.Thread] = weakref.WeakKeyDictionary()
"""Threads by the thread whose workflow code has made them, as long as that runs it."""


class Watched(threading.Thread):
    """A thread while it runs the code of a `def` workflow: it notes the threads that this code makes.

    Python keeps nowhere which thread made another. But a new one asks the thread that makes it whether it is a daemon,
    as it inherits that; threads for which that is said with `daemon=` do not ask, and are not known.
    """

    @property
    def daemon(self) -> bool:
        maker = sys._getframe(1)
        if maker.f_code is threading.Thread.__init__.__code__:
            _made[maker.f_locals["self"]] = self
        return super().daemon

    @daemon.setter
    def daemon(self, daemonic: bool) -> None:
        raise RuntimeError("cannot set daemon status of active thread")


def watch_this_thread() -> None:
    """From here on this thread runs workflow code."""
    _change_kind(threading.Thread, Watched)


def let_go_of_this_thread() -> None:
    """This thread runs workflow code no more. A pool that it has used may be everybody's from here on."""
    _change_kind(Watched, threading.Thread)
    for made in [made for made, maker in _made.items() if maker is threading.current_thread()]:
        del _made[made]


def _change_kind(kind: type[threading.Thread], to: type[threading.Thread]) -> None:
    thread = threading.current_thread()
    # Not one of a class that somebody else has given it.
    if type(thread) is kind:
        thread.__class__ = to


def refuse_in_made_thread(name: str) -> None:
    """A call that looks durable in a thread of workflow code would be made again by every replay, and nobody know."""
    if _made and threading.current_thread() in _made:
        raise WrongCall(
            f"{name!r} was called in a thread that a `def` workflow has started, where no call is recorded. For calls "
            "side by side use `each.sync`."
        )
