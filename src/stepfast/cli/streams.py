"""The streams of a process that was started without some of them, as behind `>&-`."""

from __future__ import annotations

import os
import sys
from typing import IO

_MODES = {"stdin": "r", "stdout": "w", "stderr": "w"}


def open_missing() -> None:
    """Let what is written to a stream that was closed go nowhere, and what is read from one end at once.

    Whether there is one at all is still to be seen by `sys.__stdin__` and `sys.__stdout__`.
    """
    for number, (name, mode) in enumerate(_MODES.items()):
        if getattr(sys, name) is None:
            setattr(sys, name, _nowhere(number, mode))


def _nowhere(number: int, mode: str) -> IO[str]:
    # The first number that is free is that of the stream, as a rule: else the database would come to have it, and
    # whatever a child or a library prints would be written there.
    descriptor = os.open(os.devnull, os.O_RDWR)
    os.set_inheritable(descriptor, descriptor == number)
    # The number stays taken when somebody else is put in the place of the stream.
    return open(descriptor, mode, encoding="utf-8", closefd=False)
