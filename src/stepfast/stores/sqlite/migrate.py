"""Bringing the schema of a file up to date, one transaction for each numbered step."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import apsw

from stepfast.kernel.errors import StoreMismatch, StoreUnusable
from stepfast.stores.sqlite.asking import fetch, one

_RECORD_COLUMNS = {"number", "name", "applied_at"}


class Migration(NamedTuple):
    """One numbered change of the schema, as shipped."""

    number: int
    name: str
    script: str


@cache
def known_migrations() -> tuple[Migration, ...]:
    """Every migration that this program brings, in order."""
    scripts = [
        file for file in (files("stepfast.stores.sqlite") / "migrations").iterdir() if file.name.endswith(".sql")
    ]
    return tuple(sorted(_migration(file.name, file.read_text(encoding="utf-8")) for file in scripts))


def migration_sql() -> str:
    """All migrations as one script, for an empty file."""
    # Whatever shell a person has may be older than the SQLite that comes with us: `unixepoch('subsec')` needs 3.42.
    now = "cast((julianday('now') - 2440587.5) * 86400000 as integer)"
    steps = [
        f"begin;\n{step.script}\ninsert into migration (number, name, applied_at) values"
        f" ({step.number}, '{step.name}', {now});\ncommit;"
        for step in known_migrations()
    ]
    return "\n\n".join(steps) + "\n"


def apply_next(connection: apsw.Connection, path: Path) -> str | None:
    """Apply the first migration that the file lacks, and name it; None when it lacks none.

    The caller's transaction holds the write lock, so of two processes one applies it and the other finds it done.
    """
    applied = schema_number(connection, path)
    migration = next((step for step in known_migrations() if step.number > applied), None)
    if migration is None:
        return None
    try:
        connection.execute(migration.script)
    except apsw.SQLError as problem:
        raise StoreUnusable(
            f"The store {path} does not fit its table migration: {migration.name} cannot be applied ({problem}). Rows "
            "of that table were removed, or other tables changed. Nothing was changed now; put a backup in its place."
        ) from problem
    row = (migration.number, migration.name)
    connection.execute("insert into migration (number, name, applied_at) values (?, ?, now_ms())", row)
    return migration.name


def schema_number(connection: apsw.Connection, path: Path) -> int:
    """The newest migration that the file has had; one that is newer than all we know is refused."""
    if not has_migrations(connection, path):
        return 0
    number = int(one(connection, "select coalesce(max(number), 0) from migration"))
    newest = known_migrations()[-1].number
    if number > newest:
        raise StoreMismatch(
            f"The store {path} has schema {number}, and this program knows schemas up to {newest}. "
            "Upgrade stepfast, or name another file."
        )
    return number


def has_migrations(connection: apsw.Connection, path: Path) -> bool:
    """Whether the file is a store already, or empty; a database of another program is refused."""
    tables = {name for (name,) in fetch(connection, "select name from sqlite_schema where type = 'table'")}
    if tables and "migration" not in tables:
        raise _foreign(path, f"it has a table {min(tables)!r}")
    columns = [name for (name,) in fetch(connection, "select name from pragma_table_info('migration')")]
    if tables and not _RECORD_COLUMNS.issubset(columns):
        raise _foreign(path, f"its table 'migration' has the columns {', '.join(columns)}")
    return bool(tables)


def _foreign(path: Path, told: str) -> StoreUnusable:
    return StoreUnusable(
        f"The store {path} is a database of another program ({told}). Name another file; this one was left alone."
    )


def _migration(file_name: str, script: str) -> Migration:
    name = file_name.removesuffix(".sql")
    return Migration(int(name.partition("_")[0]), name, script)
