"""Looking at a PostgreSQL database from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stepfast.kernel.durations import Instant
from stepfast.stores.health import Health, LongTransaction, Weakness
from stepfast.stores.postgres.driver import Connection
from stepfast.stores.postgres.lines import Address, Deadlines, part
from stepfast.stores.postgres.problems import FAILURES, explained
from stepfast.stores.postgres.schema import known_migrations

_ABOUT = """
select current_setting('server_version') as version,
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as full_page_writes,
       current_setting('synchronous_commit') as synchronous_commit,
       (extract(epoch from clock_timestamp()) * 1000)::bigint as now,
       to_regclass('stepfast.migration') is not null as has_schema
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

_SCHEMA = "select coalesce(max(number), 0) from stepfast.migration"

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
    address = Address(url, Deadlines(), has_own_sessions=None)
    connection = await address.visit()
    try:
        return await _examine(connection)
    except FAILURES as problem:
        raise explained(address.where, problem) from problem
    finally:
        await part(connection)


async def _examine(connection: Connection) -> Health:
    version, fsync, full_page_writes, synchronous_commit, now, has_schema = (await connection.fetch(_ABOUT))[0]
    settings = {"fsync": fsync, "full_page_writes": full_page_writes, "synchronous_commit": synchronous_commit}
    oldest = await connection.fetch(_OLDEST)
    owner = await connection.fetch(_TRAIL_OWNER)
    return Health(
        server=f"PostgreSQL {version}",
        schema=(await connection.fetch(_SCHEMA))[0][0] if has_schema else 0,
        newest_schema=known_migrations()[-1].number,
        weaknesses=tuple(_weaknesses(settings)),
        now=Instant(now),
        oldest=LongTransaction(*oldest[0]) if oldest else None,
        trail_owner=owner[0][0] if owner else None,
    )


def _weaknesses(settings: Mapping[str, str]) -> Iterator[Weakness]:
    for name, value in settings.items():
        if value == "off":
            yield Weakness(f"{name} is off", _REMEDIES[name])
