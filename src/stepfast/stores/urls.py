"""From a database URL to the store behind it."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from stepfast.kernel.errors import Invalid, StoreUnusable
from stepfast.stores.grants import Grant
from stepfast.stores.postgres_urls import POSTGRES, POSTGRES_FORM, check_address, without_password

if TYPE_CHECKING:
    from stepfast.kernel.ports import Clock, Store

FORMS = f"sqlite:///file.db (relative), sqlite:////folder/file.db (absolute) or {POSTGRES_FORM}"


def store_for(url: str, clock: Clock, direct_url: str | None = None) -> Store:
    """The store that a URL names; opening it is the caller's. `direct_url` leads past a pooler, for hints."""
    if is_sqlite(url):
        return _sqlite(url, clock)
    if is_postgres(url):
        return _postgres(url, direct_url)
    raise _not_understood(url)


def _sqlite(url: str, clock: Clock) -> Store:
    from stepfast.stores.sqlite.store import SqliteStore

    return SqliteStore(sqlite_path(url), clock.local)


def is_sqlite(url: str) -> bool:
    return url.lower().startswith("sqlite:")


def is_postgres(url: str) -> bool:
    return url.lower().startswith(tuple(f"{scheme}://" for scheme in POSTGRES))


def sqlite_path(url: str) -> Path:
    """The file that a SQLite URL names."""
    parts = urlsplit(url)
    if parts.netloc or "%00" in parts.path or parts.path in ("", "/") or not url.lower().startswith("sqlite:///"):
        raise Invalid(f"The database URL {url!r} names no file; write {FORMS}.")
    if parts.query or parts.fragment:
        # Left unsaid, the file would be another one, or opened in another way, than was meant.
        raise Invalid(f"The database URL {url!r} has a ? or # in it, and takes no options; in a name write %3F or %23.")
    path = unquote(parts.path.removeprefix("/"))
    if not Path(path).name:
        raise Invalid(f"The database URL {url!r} names a folder and no file; write {FORMS}.")
    if path == ":memory:":
        raise Invalid(
            f"The database URL {url!r} names no file, and what is kept in memory survives nothing. Write {FORMS}; "
            "for tests, `stepfast.testing.engine()` has a store that is gone afterwards."
        )
    return Path(path)


def database_in(url: str, folder: Path) -> str:
    """The URL with a relative SQLite file taken as relative to that folder."""
    file = url[len("sqlite:///") :]
    if not is_sqlite(url) or file.startswith("/"):
        return url
    return f"sqlite:///{quote(str(folder.absolute()))}/{file}"


def check_database(url: str) -> None:
    """Refuse what names no database."""
    if is_sqlite(url):
        sqlite_path(url)
    elif not is_postgres(url):
        raise _not_understood(url)
    else:
        check_address(url)


def check_exists(url: str) -> None:
    """Refuse a SQLite file that is not there, for those who want to look and not to make one."""
    if not is_sqlite(url):
        return
    try:
        is_there = sqlite_path(url).exists()
    except OSError as problem:
        words = "cannot be looked at. Allow reading and writing the file and its folder."
        raise StoreUnusable(f"The store {sqlite_path(url)} {words} ({problem})") from problem
    if not is_there:
        raise StoreUnusable(
            f"The store {sqlite_path(url)} does not exist. Name the database with --database or STEPFAST_DATABASE_URL, "
            "or make it with `stepfast migrate`."
        )


def check_postgres(url: str) -> None:
    """Refuse what is no PostgreSQL URL, or cannot be used without its driver."""
    if not is_postgres(url):
        raise _not_understood(url)
    check_address(url)
    if importlib.util.find_spec("asyncpg") is None:
        raise Invalid("A PostgreSQL URL needs the package asyncpg: pip install 'stepfast[postgres]'.")


def _postgres(url: str, direct_url: str | None) -> Store:
    check_postgres(url)
    if direct_url is not None and not is_postgres(direct_url):
        # It would be tried again and again, and no hint be heard, without a word.
        shown = without_password(direct_url)
        raise Invalid(f"STEPFAST_DATABASE_DIRECT_URL is {shown!r}; write {POSTGRES_FORM}.")
    if direct_url is not None:
        check_address(direct_url)
    from stepfast.stores.postgres.store import PostgresStore

    return PostgresStore(url, direct_url=direct_url)


def migration_sql(url: str) -> str:
    """Every migration of the store that a URL names, as one script."""
    if is_sqlite(url):
        from stepfast.stores.sqlite import migrate

        return migrate.migration_sql()
    if is_postgres(url):
        from stepfast.stores.postgres import schema

        return schema.migration_sql()
    raise _not_understood(url)


def grant_sql(url: str, grants: Sequence[Grant]) -> str:
    """What lets roles use the schema, as a script."""
    _refuse_roles(url, grants)
    if not grants:
        return ""
    from stepfast.stores.postgres import rights

    return rights.grant_sql(grants)


async def grant(url: str, grants: Sequence[Grant]) -> None:
    """Let roles use the schema of the database that a URL names without owning it."""
    _refuse_roles(url, grants)
    if not grants:
        return
    check_postgres(url)
    from stepfast.stores.postgres.store import PostgresStore

    await PostgresStore(url).grant(grants)


def _refuse_roles(url: str, grants: Sequence[Grant]) -> None:
    if grants and is_sqlite(url):
        raise Invalid("A SQLite file has no roles: whoever may write the file may change all of it. Leave out --grant.")


def _not_understood(url: str) -> Invalid:
    return Invalid(f"The database URL {without_password(url)!r} is not understood; write {FORMS}.")
