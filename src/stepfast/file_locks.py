"""Locks on files, which end with the process that holds them: a copy of it (fork) does not keep them.

The system takes a lock back when nobody has the file open any more that it was taken by, and a copy has it open too. So
what a step left running, as the processes of a `ProcessPoolExecutor`, would keep the locks of a worker that was killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

_ours: set[int] = set()


def keep_from_copies(file: int) -> None:
    """From here on a copy of this process has nothing open in the place of this file."""
    _ours.add(file)


def close_kept(file: int) -> None:
    """Close a file that was kept from copies."""
    _ours.discard(file)
    os.close(file)


@contextmanager
def locked(file: int, how: int) -> Iterator[None]:
    """Hold a lock on an open file for the length of the block; waits for as long as others hold one."""
    _ours.add(file)
    try:
        fcntl.flock(file, how)
        yield
    finally:
        # By word: a copy that was made in between may have the file open, and closing it would say nothing.
        fcntl.flock(file, fcntl.LOCK_UN)
        _ours.discard(file)


def _let_go() -> None:
    if _ours:
        # Another file in their place, not a gap: who had them open may close them in the copy too.
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for file in _ours:
            os.dup2(nothing, file, inheritable=False)
        os.close(nothing)
        _ours.clear()


os.register_at_fork(after_in_child=_let_go)
