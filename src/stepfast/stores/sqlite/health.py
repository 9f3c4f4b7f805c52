"""Looking at a SQLite file from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from stepfast.stores.health import Health, Weakness
from stepfast.stores.sqlite.asking import one
from stepfast.stores.sqlite.file_system import NETWORK_FILE_SYSTEMS, file_system_of
from stepfast.stores.sqlite.migrate import known_migrations, schema_number
from stepfast.stores.sqlite.problems import explained

PATIENCE_MS = 5_000


def examine(path: Path) -> Health:
    """What a look finds; it changes nothing."""
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
        now=None,
        oldest=None,
    )


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
    if kind in ("tmpfs", "ramfs"):
        yield Weakness(f"the file lies on {kind}", "It is gone when the machine restarts. Move it to a disk.")
