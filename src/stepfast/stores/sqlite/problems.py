"""What SQLite and the file system complain about, as errors that name the file, its state and the next step."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from stepfast.kernel.errors import RowsRefused, StepfastError, StoreUnavailable, StoreUnusable

REFUSED = (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError, UnicodeEncodeError, OverflowError)

# What SQLite asks for at once for the index of its log, before it has read or written anything.
SHM_BYTES = 32_768

_LOCKED = "is locked by another program. Find it with `fuser {path}` and end it, or try again later."
# Whoever closes the file in this process by other means, as with Python's own sqlite3, takes our locks away with it.
_DAMAGED = (
    "is damaged, or looks so because something else in this process has opened and closed it. Restart the process; "
    "if that does not help, put a backup in its place."
)
# Who may only read the file leaves the log and its index behind as read-only as it was then.
_READ_ONLY = (
    "cannot be written. Allow writing to {path.name}, to {path.name}-wal and {path.name}-shm where they exist, and to "
    "their folder, or mount their disk for writing."
)
_STATES: tuple[tuple[type[Exception], type[StepfastError], str], ...] = (
    (apsw.BusyError, StoreUnavailable, _LOCKED),
    (apsw.LockedError, StoreUnavailable, _LOCKED),
    (apsw.ReadOnlyError, StoreUnusable, _READ_ONLY),
    (apsw.PermissionsError, StoreUnusable, "may not be used. Allow reading and writing the file and its folder."),
    (apsw.CantOpenError, StoreUnusable, "cannot be opened. Allow reading and writing the file and its folder."),
    (apsw.FullError, StoreUnavailable, "cannot grow: the disk is full. Nothing was written; free some space."),
    (apsw.NotADBError, StoreUnusable, "is no SQLite database. Name another file; this one was left alone."),
    (apsw.CorruptError, StoreUnusable, _DAMAGED),
    (
        UnicodeDecodeError,
        StoreUnusable,
        "holds text that is no UTF-8: somebody has changed it. Put a backup in its place.",
    ),
    (apsw.IOError, StoreUnusable, "cannot be read or written by the system. Check the disk."),
    (PermissionError, StoreUnusable, "cannot be used. Allow reading and writing the file and its folder."),
    (OSError, StoreUnusable, "cannot be used by the system. Check the path and the disk."),
)
# Of a table or column that is read, and of a column that is written.
_LACKS = ("no such", "has no column")
_KNOWN = tuple(kind for kind, _, _ in _STATES)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what the file system or SQLite raise about the file into errors of the kernel."""
    try:
        yield
    except REFUSED as refusal:
        raise RowsRefused(f"The store {path} refuses a row: {refusal}. Nothing of its batch was written.") from refusal
    except apsw.SQLError as problem:
        if not any(words in str(problem) for words in _LACKS):
            raise
        words = "lacks a table or column that it should have. Put a backup in its place."
        raise StoreUnusable(f"The store {path} {words} ({problem})") from problem
    except _KNOWN as problem:
        raise _explain(path, problem) from problem


def _explain(path: Path, problem: Exception) -> StepfastError:
    # Where a file beside the database cannot grow, SQLite knows only that the system did not do what it was asked.
    is_full = isinstance(problem, apsw.IOError | apsw.CantOpenError) and _has_no_room(path.parent)
    looked_for = apsw.FullError() if is_full else problem
    error, state = next((error, state) for kind, error, state in _STATES if isinstance(looked_for, kind))
    return error(f"The store {path} {state.format(path=path)} ({problem})")


def _has_no_room(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < SHM_BYTES
    except OSError:
        return False
