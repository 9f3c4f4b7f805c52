"""Looking at a PostgreSQL database from outside."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import TypeVar

from stepfast.stores.health import Health, LongTransaction, Weakness
from stepfast.stores.postgres.driver import Connection, PostgresError, sqlstate
from stepfast.stores.postgres.lines import Address, Deadlines, part
from stepfast.stores.postgres.problems import FAILURES, explained
from stepfast.stores.postgres.schema import known_migrations, schema_number

T = TypeVar("T")

_ABOUT = """
select current_setting('server_version') as version,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit,
       (extract(epoch from clock_timestamp()) * 1000)::bigint as now
"""

# Who owns a table may do anything with it, also who may act as its owner.
_TRAIL_OWNER = """
select current_user::text
  from pg_class c
 where c.oid = to_regclass('stepfast.event')
   and (
       pg_has_role(c.relowner, 'member')
       or has_table_privilege(c.oid, 'update, delete, truncate, trigger')
       or has_any_column_privilege(c.oid, 'update')
   )
"""

_TAKES_WRITES = "select pg_is_in_recovery(), current_setting('transaction_read_only') = 'on'"

# Asked first, as a statement fails whole when it calls what it may not call.
_MAY_ASK = "select has_function_privilege('stepfast.rights_on(text, boolean, text)', 'execute'), current_user::text"

_LACKS_RIGHTS = """
select exists (
    select
      from pg_class c
     cross join lateral unnest(string_to_array(stepfast.rights_on(c.relname, false, 'engine'), ', ')) as r (name)
     where c.relnamespace = 'stepfast'::regnamespace
       and c.relkind in ('r', 'p')
       and not has_table_privilege(c.oid, r.name)
)
"""

# More than fits into so little memory goes to a file where the tables are, which is gone at once.
_TRIAL = """
begin;
set local work_mem = '64kB';
set local temp_tablespaces = '';
select count(*) from generate_series(1, 10000);
commit
"""
_NO_RESOURCES, _DISK_FULL = "53", "53100"

_FULL = Weakness("The server has no room left on its disk", "Free some space there: starts and steps wait until then.")
_STANDBY = Weakness("The server is a standby, which takes no writes", "Name the primary in the database URL.")
_READ_ONLY = Weakness(
    "The server takes no writes: default_transaction_read_only is on",
    "Set it to off for the server, the database or the role of the database URL, wherever it was set.",
)

# Which database of which server, by whichever way one came there.
_WHERE = "select oid, pg_postmaster_start_time() from pg_database where datname = current_database()"

# Autovacuum does its work in transactions of its own, which hold nobody up.
_OLDEST = """
select (extract(epoch from clock_timestamp() - xact_start) * 1000)::bigint,
       format('pid %s, user %s, program %s, %s', pid, usename, coalesce(nullif(application_name, ''), 'unknown'), state)
  from pg_stat_activity
 where datname = current_database()
   and pid <> pg_backend_pid()
   and backend_type = 'client backend'
   and xact_start is not null
 order by xact_start
 limit 1
"""

_REMEDIES = {
    "fsync": "A crash of the machine can destroy the database. Set fsync = on in postgresql.conf.",
    "full_page_writes": "A crash of the machine can tear pages. Set full_page_writes = on in postgresql.conf.",
    "synchronous_commit": "A crash of the server loses the last commits. Set synchronous_commit = on for it.",
}


async def examine(url: str) -> Health:
    """What a visit finds; it changes nothing."""
    return await _visited(url, _examine)


async def is_same(url: str, other_url: str) -> bool:
    """Whether two URLs lead to one database; one that leads nowhere raises."""
    return await _visited(url, _whereabouts) == await _visited(other_url, _whereabouts)


async def _visited(url: str, look: Callable[[Connection, str], Awaitable[T]]) -> T:
    address = Address(url, Deadlines(), has_own_sessions=None)
    connection = await address.visit()
    try:
        return await look(connection, address.where)
    except FAILURES as problem:
        raise explained(address.where, problem) from problem
    finally:
        await part(connection)


async def _whereabouts(connection: Connection, where: str) -> tuple[object, ...]:
    return tuple((await connection.fetch(_WHERE))[0])


async def _examine(connection: Connection, where: str) -> Health:
    asked_at = time.time_ns()
    version, fsync, full_page_writes, synchronous_commit, now = (await connection.fetch(_ABOUT))[0]
    # It was asked somewhere between the two; a slow way there is no wrong clock.
    ahead_ms = now - (asked_at + time.time_ns()) // 2_000_000
    settings = {"fsync": fsync, "full_page_writes": full_page_writes, "synchronous_commit": synchronous_commit}
    oldest = await connection.fetch(_OLDEST)
    owner = await connection.fetch(_TRAIL_OWNER)
    schema, newest = await schema_number(connection, where), known_migrations()[-1].number
    return Health(
        server=f"PostgreSQL {version}",
        schema=schema,
        newest_schema=newest,
        weaknesses=tuple(_weaknesses(settings)),
        ahead_ms=ahead_ms,
        oldest=LongTransaction(*oldest[0]) if oldest else None,
        trail_owner=owner[0][0] if owner else None,
        read_only=await _read_only(connection) or await _full(connection),
        reader=await _reader(connection) if schema == newest else None,
    )


async def _read_only(connection: Connection) -> Weakness | None:
    is_standby, is_read_only = (await connection.fetch(_TAKES_WRITES))[0]
    if is_standby:
        return _STANDBY
    return _READ_ONLY if is_read_only else None


async def _full(connection: Connection) -> Weakness | None:
    """What the server says to a file of a few hundred kilobytes."""
    try:
        await connection.execute(_TRIAL)
    except PostgresError as problem:
        state = sqlstate(problem)
        if not state.startswith(_NO_RESOURCES):
            raise
        await connection.execute("rollback")
        # One that allows no such files (temp_file_limit) says nothing of its disk.
        return _FULL if state == _DISK_FULL else None
    return None


async def _reader(connection: Connection) -> str | None:
    """The role of the connection, if it lacks rights that an engine needs."""
    may_ask, role = (await connection.fetch(_MAY_ASK))[0]
    lacks = not may_ask or (await connection.fetch(_LACKS_RIGHTS))[0][0]
    return str(role) if lacks else None


def _weaknesses(settings: Mapping[str, str]) -> Iterator[Weakness]:
    for name, value in settings.items():
        if value == "off":
            yield Weakness(f"{name} is off", _REMEDIES[name])
