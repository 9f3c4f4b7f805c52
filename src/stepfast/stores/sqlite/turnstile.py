"""Turns among the writers of one file, so that a busy one never keeps the others waiting for long."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stepfast.file_locks import close_kept, keep_from_copies
from stepfast.kernel.errors import StoreUnavailable

# A waiter asks again this often; asking, unlike blocking, can be given up.
ASK_AGAIN_S = 0.0003
NEXT, WRITING = "next", "writing"
# By everybody: a lock is empty, and whoever cannot reach the store's folder cannot reach it either.
READABLE = 0o644


class Turnstile:
    """Two file locks: who holds the first is next, who holds the second writes.

    SQLite's own waiting is a lottery in which a writer that commits back to back wins nearly always. Here it finds the
    first lock taken by whoever came while it wrote. The system takes the locks back from a process that dies,
    for copies of it (fork) do not have them.
    """

    def __init__(self, path: Path, patience_ms: int) -> None:
        self._path = path
        self._patience_s = patience_ms / 1_000
        self._next = _open_lock(path, NEXT)
        try:
            self._writing = _open_lock(path, WRITING)
        except OSError:
            os.close(self._next)
            raise
        keep_from_copies(self._next)
        keep_from_copies(self._writing)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for this writer's turn, and keep it for the length of the block."""
        deadline = time.monotonic() + self._patience_s
        self._take(self._next, deadline)
        try:
            self._take(self._writing, deadline)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._writing, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the lock files; they stay beside the store."""
        close_kept(self._next)
        close_kept(self._writing)

    def _take(self, lock: int, deadline: float) -> None:
        while not _try_lock(lock):
            if time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"The store {self._path} did not come free within {self._patience_s:g} s: another process is "
                    f"writing, or was stopped while it wrote. Find it with `fuser {self._path}`, or try again later."
                )
            time.sleep(ASK_AGAIN_S)


def is_known(path: Path) -> bool:
    """Whether a store has been opened there before: its locks stand beside it, and are made first."""
    return _lock_file(path, NEXT).exists()


def lock_files(path: Path) -> list[Path]:
    """The locks that stand beside a store, there or not."""
    return [_lock_file(path, name) for name in (NEXT, WRITING)]


def _lock_file(path: Path, name: str) -> Path:
    return path.with_name(f"{path.name}.{name}")


def _open_lock(path: Path, name: str) -> int:
    file = _lock_file(path, name)
    # Read-only is enough to lock it.
    with suppress(FileNotFoundError):
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    lock = os.open(file, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, READABLE)
    _open_to_the_same(lock, path)
    return lock


def _open_to_the_same(lock: int, path: Path) -> None:
    """Let everybody lock who may open the store: one command of another user must not shut its owner out."""
    # A store that is made only now has the rights that its lock has; one of somebody else's lock are theirs to give.
    with suppress(FileNotFoundError, PermissionError):
        store = path.stat()
        os.fchmod(lock, READABLE)
        _give(lock, store)
        given = os.fstat(lock)
        # The rights of the store on a file of somebody else would keep out whom the store lets in.
        if (given.st_uid, given.st_gid) == (store.st_uid, store.st_gid):
            os.fchmod(lock, stat.S_IMODE(store.st_mode) & 0o666)


def _give(lock: int, store: os.stat_result) -> None:
    """Give a lock to the group and the owner of its store, as far as whoever has made it may."""
    # The group first: it can be given by an owner alone, who is none any more behind the second.
    for owner, group in ((-1, store.st_gid), (store.st_uid, -1)):
        with suppress(PermissionError):
            os.fchown(lock, owner, group)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
