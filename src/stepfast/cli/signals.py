"""SIGTERM and SIGINT: at first they end the process, then they ask for a stop, and the second time they mean it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None

STOPPING = (signal.SIGTERM, signal.SIGINT)
# `timeout`, systemd and others tell a process and then its whole group: what follows so soon is the same asking. A busy
# machine may bring it late; a person who presses Ctrl-C twice is quick.
SAME_ASKING_S = {signal.SIGTERM: 1.0, signal.SIGINT: 0.25}
WITHOUT_US: dict[int, Handler] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}

_ours: dict[int, Handler] = {}


def listen(number: int, heard: Handler) -> None:
    """Have a signal heard by this process; copies of it (fork) do what they would without us.

    A step that ends a process of its own by SIGTERM would otherwise tell a copy of the worker to stop: it would stay
    for the grace time, and then give back the runs that the worker still holds.
    """
    _ours[number] = heard
    signal.signal(number, heard)


class _Forking(threading.local):
    mask: set[signal.Signals | int]


_forking = _Forking()


def _be_deaf() -> None:
    # What a copy is told while it is made waits until it listens in its own way.
    _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)


def _hear_again() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _forking.mask)


def _hear_as_a_copy() -> None:
    for number, heard in _ours.items():
        if signal.getsignal(number) == heard:
            signal.signal(number, WITHOUT_US[number])
    _ours.clear()
    _hear_again()


os.register_at_fork(before=_be_deaf, after_in_parent=_hear_again, after_in_child=_hear_as_a_copy)


class Asking:
    """Tells the first signal, and what comes with it, from one that somebody sent later because he means it."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._first_at: float | None = None

    def is_first(self) -> bool:
        """Whether nobody has asked before; asking is what this call does."""
        if self._first_at is not None:
            return False
        self._first_at = self._now()
        return True

    def is_meant(self, number: int) -> bool:
        """Whether this signal is another one than the first."""
        return self._first_at is not None and self._now() - self._first_at > SAME_ASKING_S[signal.Signals(number)]


class Signals:
    """What a process does with signals. While nothing is held there is nothing to hand back, and it just ends.

    Handlers run in the main thread between two lines of code, also while a step blocks the event loop.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._is_supervised = False
        self._asking = Asking()

    def install(self) -> None:
        """Listen from here on."""
        for number in STOPPING:
            listen(number, self._heard)

    def ask(self, stop: Callable[[], None], is_supervised: bool = False) -> None:
        """From here on the first signal calls `stop`, and the second ends the process at once.

        A supervisor passes on what it hears, beside what others send to all processes; when it means it, it kills.
        """
        self._stop = stop
        self._is_supervised = is_supervised

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._stop is None:
            os._exit(0)
        if self._asking.is_first():
            self._stop()
        elif self._asking.is_meant(number) and not self._is_supervised:
            os._exit(128 + number)


SIGNALS = Signals()


def stay_deaf() -> None:
    """The process is on its way out with its exit code: no signal changes that, also while Python shuts down."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


class Interruption:
    """What has interrupted a command: Ctrl-C, unless it was SIGTERM that was taken for it."""

    number: int = signal.SIGINT

    @property
    def exit_code(self) -> int:
        """How a shell would say it."""
        return 128 + self.number


INTERRUPTION = Interruption()


def take_sigterm_for_ctrl_c() -> None:
    """What executes a run here and now gives it back on SIGTERM too; nothing waits for its lease to run out."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A script that starts a command in the background has it ignore Ctrl-C, and with it whatever goes the same way.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    asking = Asking()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if asking.is_first() or asking.is_meant(number):
            INTERRUPTION.number = number
            signal.raise_signal(signal.SIGINT)

    listen(signal.SIGTERM, interrupt)
