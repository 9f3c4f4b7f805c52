"""The schema's numbered migrations: applying them, and refusing a database that this program does not know."""

from __future__ import annotations

import time
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from stepfast.kernel.errors import StoreMismatch, StoreUnavailable, StoreUnusable
from stepfast.log import Log
from stepfast.stores.postgres.driver import Connection, PostgresError, sqlstate
from stepfast.stores.postgres.lines import Address
from stepfast.stores.postgres.problems import FAILURES, explained
from stepfast.stores.postgres.rights import REGRANT, has_or_may_make_schema, may_change_schema, not_its_owner

log = Log("store")

OLDEST_SERVER = 140_000
MIGRATE_S = 3_600.0

# Any number will do as long as nobody else's advisory lock in this database has it.
_TURN = 7_837_312_026
_WHOSE_TURN = f"""
select format('pid %s, user %s, program %s, %s',
              l.pid, a.usename, coalesce(nullif(a.application_name, ''), 'unknown'), coalesce(a.state, 'unknown'))
  from pg_locks l
  left join pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory'
   and l.granted
   and l.database = (select d.oid from pg_database d where d.datname = current_database())
   and (l.classid::bigint << 32) | l.objid::bigint = {_TURN}
   and l.objsubid = 1
"""
_LOCK_TIMED_OUT = "55P03"
TELL_AFTER_MS = 3_000
GIVE_UP_AFTER_S = 600.0

_NO_LOCK_TIMEOUT = "set local lock_timeout = 0"
# Whoever waits for their turn must then see what the one before them has made.
_BEGIN = "begin isolation level read committed; set local statement_timeout = 0; " + _NO_LOCK_TIMEOUT

_MAKE_SCHEMA = "create schema if not exists stepfast;"
_MAKE_RECORD = """
create table if not exists stepfast.migration (
    number integer primary key,
    name text not null,
    applied_at bigint not null
);
"""

# What there is in the schema, whatever the role may use of it: tables and views, and the columns of `migration`.
_FOUND = """
select array(
           select c.relname::text
             from pg_class c
            where c.relnamespace = to_regnamespace('stepfast') and c.relkind in ('r', 'p', 'v', 'm', 'f')
            order by c.relname
       ),
       array(
           select a.attname::text
             from pg_class c
             join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            where c.relnamespace = to_regnamespace('stepfast') and c.relname = 'migration'
            order by a.attnum
       )
"""
_RECORD_COLUMNS = {"number", "name", "applied_at"}
# What a migration meets that was applied and is not in the record: a table, function, column or other thing of its own.
_THERE_ALREADY = frozenset({"42P07", "42723", "42701", "42710"})

_ABOUT = """
select current_setting('server_version_num')::integer,
       current_setting('server_version'),
       current_setting('server_encoding'),
       current_setting('default_transaction_isolation'),
       pg_is_in_recovery(),
       pg_backend_pid(),
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
        f"begin;\n{_prepare(has_schema=False) if not n else ''}{step.transaction}\ncommit;"
        for n, step in enumerate(known_migrations())
    ]
    return "\n\n".join(steps) + "\n"


async def apply_migrations(connection: Connection, where: str) -> list[str]:
    """Apply what the database lacks, each in a transaction of its own; of two processes that try, one waits."""
    applied: list[str] = []
    try:
        await _check_ground(connection, where)
        if not await may_change_schema(connection):
            _check_schema(where, await schema_number(connection, where), may_change=False)
            return []
        while name := await _apply_next(connection, where):
            applied.append(name)
    except FAILURES as problem:
        raise explained(where, problem) from problem
    return applied


async def _check_ground(connection: Connection, where: str) -> None:
    """Refuse a server or database that nothing could work with, before anything is made in it."""
    number, version, encoding, _, is_replica, *_ = (await connection.fetch(_ABOUT))[0]
    _check_server(where, number, version, encoding, is_replica)


async def check_database(connection: Connection, address: Address) -> None:
    """Refuse a server or schema that we cannot work with, and learn whether sessions are our own."""
    try:
        number, version, encoding, isolation, is_replica, pid, may_change = (await connection.fetch(_ABOUT))[0]
        _check_server(address.where, number, version, encoding, is_replica)
        _check_schema(address.where, await schema_number(connection, address.where), may_change)
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
    await connection.execute(_BEGIN, timeout=MIGRATE_S)
    try:
        await _take_turn(connection, where)
        applied = await schema_number(connection, where)
        _refuse_newer(where, applied)
        migration = next((step for step in known_migrations() if step.number > applied), None)
        if migration is not None:
            await _apply(connection, where, migration)
        await connection.execute("commit")
    except BaseException:
        if not connection.is_closed():
            connection.terminate()
        raise
    return None if migration is None else migration.name


async def _take_turn(connection: Connection, where: str) -> None:
    """Wait until nobody else migrates: in silence at first, and not for ever, for that one may be frozen."""
    began_at, is_told = time.monotonic(), False
    while not await _has_turn(connection):
        if time.monotonic() - began_at >= GIVE_UP_AFTER_S:
            raise StoreUnavailable(
                f"{where} is still being migrated by somebody else ({await _holder(connection)}). See whether that "
                "goes on, end it if not, and run `stepfast migrate` again."
            )
        if not is_told:
            is_told = True
            log.warning("migration_waits", database=where, behind=await _holder(connection))


async def _has_turn(connection: Connection) -> bool:
    """Wait a little for the turn; the transaction goes on either way."""
    take = f"set local lock_timeout = {TELL_AFTER_MS}; select pg_advisory_xact_lock({_TURN}); {_NO_LOCK_TIMEOUT};"
    try:
        await connection.execute(f"savepoint turn; {take}", timeout=MIGRATE_S)
    except PostgresError as problem:
        if sqlstate(problem) != _LOCK_TIMED_OUT:
            raise
        await connection.execute("rollback to savepoint turn")
        return False
    return True


async def _holder(connection: Connection) -> str:
    found = await connection.fetch(_WHOSE_TURN)
    return str(found[0][0]) if found else "it has just ended"


async def _apply(connection: Connection, where: str, migration: Migration) -> None:
    has_schema = await has_or_may_make_schema(connection, where)
    await connection.execute(_prepare(has_schema), timeout=MIGRATE_S)
    try:
        await connection.execute(migration.transaction, timeout=MIGRATE_S)
    except PostgresError as problem:
        if sqlstate(problem) not in _THERE_ALREADY:
            raise
        raise StoreUnusable(
            f"{where} has what {migration.name} would make ({problem}), and stepfast.migration does not say so: rows "
            "of it were removed. Nothing was changed; put a backup in its place, or put the rows back."
        ) from problem


def _prepare(has_schema: bool) -> str:
    """What must be there before a migration. Who may not make schemas may still own one that was made for them."""
    return f"\n{'' if has_schema else _MAKE_SCHEMA}{_MAKE_RECORD}"


async def schema_number(connection: Connection, where: str) -> int:
    """The newest migration that the database has had, 0 for none; a schema of another program is refused."""
    relations, columns = (await connection.fetch(_FOUND))[0]
    if not relations:
        return 0
    if not _RECORD_COLUMNS.issubset(columns):
        other = f"it has {relations[0]!r}, and no table 'migration'"
        told = f"its table 'migration' has the columns {', '.join(columns)}" if columns else other
        raise StoreUnusable(
            f"{where} has a schema `stepfast` that is not Stepfast's ({told}). It was left alone: name another "
            "database, or give that schema another name with `alter schema stepfast rename to ...`, and run "
            "`stepfast migrate`."
        )
    return int((await connection.fetch("select coalesce(max(number), 0) from stepfast.migration"))[0][0])


def _migration(file_name: str, script: str) -> Migration:
    name = file_name.removesuffix(".sql")
    return Migration(int(name.partition("_")[0]), name, script)
