"""A database as a doctor finds it: looked at from outside, so that one that cannot be opened is examined too."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit


class Weakness(NamedTuple):
    """A setting under which what was acknowledged may be lost, or nothing can be written, and what to do about it."""

    setting: str
    remedy: str


class LongTransaction(NamedTuple):
    """The transaction of others that has been open for longest."""

    span_ms: int
    who: str


class Health(NamedTuple):
    """What was found: the server, its schema, settings that weaken it, its clock, and who holds it up."""

    server: str
    schema: int
    newest_schema: int
    weaknesses: tuple[Weakness, ...]
    ahead_ms: int | None
    """How far its clock is ahead of this machine's. None: the store goes by the clock of each machine."""
    oldest: LongTransaction | None
    trail_owner: str | None = None
    """The role that was used, if it could change or delete events."""
    read_only: Weakness | None = None
    """Why nobody can write there like this."""
    reader: str | None = None
    """The role that was used, if it lacks rights that an engine needs."""


async def examine(url: str) -> Health:
    """Look at the database that a URL names, changing nothing; one that is not there raises."""
    if urlsplit(url).scheme == "sqlite":
        from stepfast.stores.sqlite import health as sqlite
        from stepfast.stores.urls import check_exists, sqlite_path

        check_exists(url)
        return sqlite.examine(sqlite_path(url))
    from stepfast.stores.postgres import health as postgres
    from stepfast.stores.urls import check_postgres

    check_postgres(url)
    return await postgres.examine(url)


async def leads_past(url: str, direct_url: str) -> bool:
    """Whether the way past a pooler leads to the same database; a file has no such way, and one to nowhere raises."""
    if urlsplit(url).scheme == "sqlite":
        return True
    from stepfast.stores.postgres import health as postgres

    return await postgres.is_same(url, direct_url)
