"""A limit of memory that a program has from its first moment on."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Self

# It takes its limit upon itself and then becomes the program: set from the worker, a limit comes after the first
# moments of the program, and a busy machine makes them long. What Python changes as it starts, signals and LC_CTYPE, is
# put back. A worker's own hard limit, if lower, holds: it cannot be raised. What fails is told on a line that is closed
# when the program begins.
BECOME_LIMITED = """
import _signal, os, resource, sys
line, most, *own = sys.argv[1:5]
program = sys.argv[5:]
try:
    os.set_inheritable(int(line), False)
    variables = dict(os.environb)
    for name, given in zip((b"LC_CTYPE", b"LD_LIBRARY_PATH"), own):
        variables.pop(name, None)
        if given:
            variables[name] = os.fsencode(given[1:])
    for ignored in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(ignored, _signal.SIG_DFL)
    highest = resource.getrlimit(resource.RLIMIT_AS)[1]
    bound = int(most) if highest == resource.RLIM_INFINITY else min(int(most), highest)
    resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    os.execve(program[0], program, variables)
except (OSError, MemoryError) as error:
    os.write(int(line), (str(error) or "no memory").encode("utf-8", "replace"))
    os._exit(126)
"""

LIBRARIES = "LD_LIBRARY_PATH"
_OWN = ("LC_CTYPE", LIBRARIES)
_MOST_TOLD = 4_096


def can_limit() -> bool:
    """Whether there is an interpreter to do it: a frozen application would begin itself once more."""
    return sys.platform.startswith("linux") and bool(sys.executable) and not getattr(sys, "frozen", False)


class Limit:
    """How a program is started so that it has no more memory than `most`, if that is said."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.lines: tuple[int, ...] = ()
        """What of this process the started one must have."""

    def __enter__(self) -> Self:
        if self._most is not None:
            self._reading, writing = os.pipe()
            os.set_blocking(self._reading, False)
            self.lines = (writing,)
        return self

    def __exit__(self, *_: object) -> None:
        for line in self.lines:
            os.close(line)
            os.close(self._reading)

    def around(self, args: list[str], variables: Mapping[str, str]) -> list[str]:
        """What is to be started in the program's place."""
        if self._most is None:
            return args
        own = ["=" + variables[name] if name in variables else "" for name in _OWN]
        return [sys.executable, "-I", "-S", "-c", BECOME_LIMITED, str(self.lines[0]), str(self._most), *own, *args]

    def variables(self, variables: Mapping[str, str]) -> dict[str, str]:
        """What that is given: the program's variables, and where this interpreter finds its libraries."""
        if self._most is None:
            return dict(variables)
        others = {name: value for name, value in variables.items() if name not in _OWN}
        return others | {name: os.environ[name] for name in (LIBRARIES,) if name in os.environ}

    def complaint(self) -> str:
        """What kept a program that has ended from beginning; empty if it did begin."""
        if not self.lines:
            return ""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._reading, _MOST_TOLD).decode("utf-8", "replace")
        return ""
