"""Looking at a SQLite file from outside."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import apsw

from stepfast.stores.health import Health, Weakness
from stepfast.stores.sqlite.asking import one
from stepfast.stores.sqlite.file_system import NETWORK_FILE_SYSTEMS, file_system_of
from stepfast.stores.sqlite.foreign import refuse_folder
from stepfast.stores.sqlite.migrate import known_migrations, schema_number
from stepfast.stores.sqlite.problems import explained
from stepfast.stores.sqlite.turnstile import lock_files

PATIENCE_MS = 5_000
# The log alone grows to a few megabytes between two checkpoints.
LITTLE_SPACE = 64_000_000
TRIAL_BYTES = 65_536


def examine(path: Path) -> Health:
    """What a look finds; it changes nothing."""
    refuse_folder(path)
    with explained(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(PATIENCE_MS)
            return _examine(connection, path)
        finally:
            connection.close()


def _examine(connection: apsw.Connection, path: Path) -> Health:
    return Health(
        server=f"SQLite {apsw.sqlite_lib_version()}",
        schema=schema_number(connection, path),
        newest_schema=known_migrations()[-1].number,
        weaknesses=tuple(_weaknesses(connection, path)),
        ahead_ms=None,
        oldest=None,
        read_only=_read_only(path) or _full(path),
    )


def _read_only(path: Path) -> Weakness | None:
    """What would stop a writer: the system is asked, and nothing is opened for it."""
    beside = [path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"), *lock_files(path)]
    for needed in (path, path.parent, *(file for file in beside if file.exists())):
        if not os.access(needed, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            remedy = "Allow writing to the file, to those beside it and to its folder, or mount its disk for writing."
            return Weakness(f"{needed} cannot be written", remedy)
    return None


def _full(path: Path) -> Weakness | None:
    """What the system says to a file without a name beside it, which is gone at once; quotas are found out too."""
    try:
        with TemporaryFile(dir=path.parent) as file:
            # Random, as some file systems give what is all the same no room.
            file.write(os.urandom(TRIAL_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as problem:
        way_out = "Mount its disk for writing" if problem.errno == errno.EROFS else "Free some space"
        remedy = f"{way_out}, or move the file: starts and steps are refused until then."
        return Weakness(f"{path.parent.absolute()} takes nothing more ({problem.strerror})", remedy)
    return None


def _weaknesses(connection: apsw.Connection, path: Path) -> Iterator[Weakness]:
    # How each commit is synced is no property of the file: every writer of ours asks for `full`.
    mode = one(connection, "pragma journal_mode")
    if mode != "wal":
        yield Weakness(
            f"journal_mode is {mode}", "Another program has changed it; the next worker sets it to wal again."
        )
    kind = file_system_of(path.absolute())
    if kind in NETWORK_FILE_SYSTEMS:
        yield Weakness(f"the file lies on {kind}", "Its locks do not hold there. Move it to a local disk.")
    free = shutil.disk_usage(path.parent).free
    if free < LITTLE_SPACE:
        left = f"the disk of the file has {free / 1_000_000:.1f} MB left"
        yield Weakness(left, "Free some space, or move the file: starts and steps are refused when it is full.")
    if kind in ("tmpfs", "ramfs"):
        yield Weakness(f"the file lies on {kind}", "It is gone when the machine restarts. Move it to a disk.")
