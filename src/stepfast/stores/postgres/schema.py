"""The schema's numbered migrations: applying them, and refusing a database that this program does not know."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from stepfast.kernel.errors import StoreMismatch, StoreUnusable
from stepfast.stores.postgres.driver import Connection
from stepfast.stores.postgres.lines import Address
from stepfast.stores.postgres.problems import FAILURES, explained
from stepfast.stores.postgres.rights import REGRANT, may_change_schema, not_its_owner

OLDEST_SERVER = 140_000
MIGRATE_S = 3_600.0

# Any number will do as long as nobody else's advisory lock in this database has it.
_TURN = 7_837_312_026

_PREPARE = """
create schema if not exists stepfast;
create table if not exists stepfast.migration (
    number integer primary key,
    name text not null,
    applied_at bigint not null
);
"""

_ABOUT = """
select current_setting('server_version_num')::integer,
       current_setting('server_version'),
       current_setting('server_encoding'),
       current_setting('default_transaction_isolation'),
       pg_is_in_recovery(),
       pg_backend_pid(),
       to_regclass('stepfast.migration') is not null,
       coalesce((select pg_has_role(n.nspowner, 'usage') from pg_namespace n where n.nspname = 'stepfast'), true)
"""


class Migration(NamedTuple):
    """One numbered change of the schema, as shipped."""

    number: int
    name: str
    script: str

    @property
    def transaction(self) -> str:
        """The change and its record, for one transaction; who could use what was there can use what is new."""
        record = f"values ({self.number}, '{self.name}', (extract(epoch from clock_timestamp()) * 1000)::bigint)"
        return f"{self.script}\ninsert into stepfast.migration (number, name, applied_at) {record};\n{REGRANT}"


@cache
def known_migrations() -> tuple[Migration, ...]:
    """Every migration that this program brings, in order."""
    folder = files("stepfast.stores.postgres") / "migrations"
    scripts = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return tuple(sorted(_migration(file.name, file.read_text(encoding="utf-8")) for file in scripts))


def migration_sql() -> str:
    """All migrations as one script, for those who let nobody but a person change a schema."""
    steps = [
        f"begin;\n{_PREPARE if not n else ''}{step.transaction}\ncommit;" for n, step in enumerate(known_migrations())
    ]
    return "\n\n".join(steps) + "\n"


async def apply_migrations(connection: Connection, where: str) -> list[str]:
    """Apply what the database lacks, each in a transaction of its own; of two processes that try, one waits."""
    applied: list[str] = []
    try:
        if not await may_change_schema(connection):
            _check_schema(where, await _newest(connection), may_change=False)
            return []
        while name := await _apply_next(connection, where):
            applied.append(name)
    except FAILURES as problem:
        raise explained(where, problem) from problem
    return applied


async def check_database(connection: Connection, address: Address) -> None:
    """Refuse a server or schema that we cannot work with, and learn whether sessions are our own."""
    try:
        number, version, encoding, isolation, is_replica, pid, is_ours, may_change = (await connection.fetch(_ABOUT))[0]
        _check_server(address.where, number, version, encoding, is_replica)
        _check_schema(address.where, await _newest(connection) if is_ours else 0, may_change)
    except FAILURES as problem:
        raise explained(address.where, problem) from problem
    if address.has_own_sessions is None:
        # A pooler makes up the number that a client is told at the door.
        address.has_own_sessions = pid == connection.get_server_pid()
    if not address.has_own_sessions:
        _check_shared_sessions(address.where, isolation)


def _check_server(where: str, number: int, version: str, encoding: str, is_replica: bool) -> None:
    if number < OLDEST_SERVER:
        raise StoreUnusable(f"{where} is served by PostgreSQL {version}. Use PostgreSQL 14 or newer.")
    if encoding != "UTF8":
        raise StoreUnusable(f"{where} has the encoding {encoding}. Create it with `createdb --encoding UTF8`.")
    if is_replica:
        raise StoreUnusable(f"{where} is a replica that cannot be written. Name the primary in the database URL.")


def _check_shared_sessions(where: str, isolation: str) -> None:
    """Settings that we cannot make ourselves where sessions are not our own."""
    if isolation != "read committed":
        raise StoreUnusable(
            f"{where} is behind a pooler and has the isolation level {isolation!r}. Run `alter role ... set "
            "default_transaction_isolation = 'read committed'` for the user of the database URL."
        )


def _check_schema(where: str, number: int, may_change: bool) -> None:
    newest = known_migrations()[-1].number
    if number < newest and not may_change:
        raise not_its_owner(where, number, newest)
    if number < newest:
        raise StoreMismatch(f"{where} has schema {number}, and this program needs {newest}. Run `stepfast migrate`.")
    _refuse_newer(where, number)


def _refuse_newer(where: str, number: int) -> None:
    newest = known_migrations()[-1].number
    if number > newest:
        raise StoreMismatch(
            f"{where} has schema {number}, and this program knows schemas up to {newest}. Upgrade stepfast, or name "
            "another database."
        )


async def _apply_next(connection: Connection, where: str) -> str | None:
    """Apply the first migration that the database lacks, and name it; None when it lacks none."""
    await connection.execute("begin; set local statement_timeout = 0; set local lock_timeout = 0", timeout=MIGRATE_S)
    try:
        await connection.execute(f"select pg_advisory_xact_lock({_TURN}); {_PREPARE}", timeout=MIGRATE_S)
        applied = (await connection.fetch("select coalesce(max(number), 0) from stepfast.migration"))[0][0]
        _refuse_newer(where, applied)
        migration = next((step for step in known_migrations() if step.number > applied), None)
        if migration is not None:
            await connection.execute(migration.transaction, timeout=MIGRATE_S)
        await connection.execute("commit")
    except BaseException:
        if not connection.is_closed():
            connection.terminate()
        raise
    return None if migration is None else migration.name


async def _newest(connection: Connection) -> int:
    found = await connection.fetch("select coalesce(max(number), 0) from stepfast.migration")
    return int(found[0][0])


def _migration(file_name: str, script: str) -> Migration:
    name = file_name.removesuffix(".sql")
    return Migration(int(name.partition("_")[0]), name, script)
