"""SIGTERM and SIGINT: at first they end the process, then they ask for a stop, and the second time they mean it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

STOPPING = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """What a process does with signals. While nothing is held there is nothing to hand back, and it just ends.

    Handlers run in the main thread between two lines of code, also while a step blocks the event loop.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None
        self._asked = False

    def install(self) -> None:
        """Listen from here on."""
        for number in STOPPING:
            signal.signal(number, self._heard)

    def ask(self, stop: Callable[[], None]) -> None:
        """From here on the first signal calls `stop`, and the second ends the process at once."""
        self._stop = stop

    def _heard(self, number: int, frame: FrameType | None) -> None:
        if self._stop is None:
            os._exit(0)
        if self._asked:
            os._exit(128 + number)
        self._asked = True
        self._stop()


SIGNALS = Signals()


def take_sigterm_for_ctrl_c() -> None:
    """What executes a run here and now gives it back on SIGTERM too; nothing waits for its lease to run out."""
    signal.signal(signal.SIGTERM, lambda number, frame: signal.raise_signal(signal.SIGINT))
