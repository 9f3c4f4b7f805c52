"""Ctrl-C while a command speaks to a database: told once, so that what was begun is handed back in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from stepfast.cli.signals import Asking


@contextmanager
def heard_once() -> Iterator[None]:
    """Within the block, SIGINTs that come together are one: a second would cut the way back short."""
    inner = signal.getsignal(signal.SIGINT)
    if not callable(inner) or threading.current_thread() is not threading.main_thread():
        yield
        return
    asking = Asking()

    def hear(number: int, frame: FrameType | None) -> None:
        if asking.is_first() or asking.is_meant(number):
            inner(number, frame)

    signal.signal(signal.SIGINT, hear)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, inner)
