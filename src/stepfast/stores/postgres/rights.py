"""Who may do what: roles that use the schema without owning it."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.kernel.errors import StoreMismatch, StoreUnusable
from stepfast.stores.grants import Grant
from stepfast.stores.postgres.driver import Connection
from stepfast.stores.postgres.problems import FAILURES, explained

GRANT_S = 60.0

# Of a schema that is not there yet nobody is the owner, and anybody may try to make it.
_MAY_CHANGE = """
select coalesce((select pg_has_role(n.nspowner, 'usage') from pg_namespace n where n.nspname = 'stepfast'), true)
"""

_MAY_MAKE = """
select to_regnamespace('stepfast') is not null,
       has_database_privilege(d.oid, 'create'),
       current_user::text,
       pg_get_userbyid(d.datdba)::text
  from pg_database d
 where d.datname = current_database()
"""

# New tables are for those who could use the old ones; the first migrations know of no roles yet.
REGRANT = """
do $$
begin
    if to_regprocedure('stepfast.grant_rights()') is not null then
        perform stepfast.grant_rights();
    end if;
end
$$;
"""


async def may_change_schema(connection: Connection) -> bool:
    """Whether the role of a connection owns the schema, or could make it."""
    return bool((await connection.fetch(_MAY_CHANGE))[0][0])


async def has_or_may_make_schema(connection: Connection, where: str) -> bool:
    """Whether there is a schema; where there is none, a role that could not make it is refused."""
    has_schema, may_make, role, owner = (await connection.fetch(_MAY_MAKE))[0]
    if not has_schema and not may_make:
        raise StoreUnusable(
            f"{where} has no schema `stepfast` yet, and the role {role!r} of the database URL may not create one. Let "
            f"{owner!r}, who owns the database, or a superuser run `stepfast migrate --grant {role}`, so that this "
            f'role can run engines; or let them run `create schema stepfast authorization "{role}"`, and try again.'
        )
    return bool(has_schema)


def not_its_owner(where: str, number: int, newest: int) -> StoreMismatch:
    """A schema that is too old, seen by a role that cannot bring it up to date."""
    return StoreMismatch(
        f"{where} has schema {number}, and this program needs {newest}. The role of the database URL does not own it: "
        "let the owner run `stepfast migrate`."
    )


def grant_sql(grants: Sequence[Grant]) -> str:
    """What lets roles use the schema, as a script."""
    calls = [f"select stepfast.grant_role({_literal(name)}, {_literal(kind)});" for name, kind in grants]
    return "\n".join(["begin;", *calls, "commit;", ""]) if grants else ""


async def grant(connection: Connection, where: str, grants: Sequence[Grant]) -> None:
    """Let roles use the schema; all of them, or none."""
    try:
        await connection.execute(grant_sql(grants), timeout=GRANT_S)
    except FAILURES as problem:
        raise explained(where, problem) from problem


def _literal(text: str) -> str:
    """A text as SQL has it, whatever the server's settings say of backslashes."""
    quoted = text.replace("'", "''").replace("\\", "\\\\")
    return f"E'{quoted}'" if "\\" in text else f"'{quoted}'"
