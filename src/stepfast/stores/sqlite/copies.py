"""Copies of a process (fork), and files that were open in it: what SQLite knows of locks is copied, the locks are not.

A copy that opened such a file would take locks for its own that are not, or wait for a thread that was not copied.
"""

from __future__ import annotations

import os
from pathlib import Path
from weakref import WeakKeyDictionary

import apsw

from stepfast.kernel.errors import StoreUnusable

FileId = tuple[int, int]
"""The device and the number of a file, whatever its name."""

_open: WeakKeyDictionary[apsw.Connection, FileId] = WeakKeyDictionary()
_copied: set[FileId] = set()


def file_at(path: str | Path) -> FileId | None:
    """Which file a path leads to, whatever its name; None if to none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def refuse_copied(path: Path) -> None:
    """Refuse a file that was open in this process's original when it was copied."""
    if _copied and file_at(path) in _copied:
        raise StoreUnusable(
            f"The store {path} was open in the process of which this one, {os.getpid()}, is a copy (fork), and SQLite "
            "cannot use a file in both. Open it only after the fork, or start processes in another way, as "
            "multiprocessing does with its start method `spawn`."
        )


def note_open(connection: apsw.Connection) -> None:
    """This process has a file open from here on."""
    if (file := file_at(connection.filename)) is not None:
        _open[connection] = file


def note_closed(connection: apsw.Connection) -> None:
    """It has it open no more, as far as this connection goes."""
    _open.pop(connection, None)


def _inherit() -> None:
    _copied.update(_open.values())
    _open.clear()


os.register_at_fork(after_in_child=_inherit)
