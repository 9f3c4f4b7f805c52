"""Roles of a PostgreSQL server that use a schema without owning it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import asyncpg

from stepfast.stores.grants import Grant, RoleKind
from stepfast.stores.postgres.store import PostgresStore

PASSWORD = "of-a-test"


@asynccontextmanager
async def role(owner_url: str) -> AsyncIterator[tuple[str, str]]:
    """The name of a new role that may do nothing yet, and the database as it connects to it."""
    name = f"test_{uuid.uuid4().hex}"
    session = await asyncpg.connect(owner_url)
    try:
        await session.execute(f"create role {name} login password '{PASSWORD}'")
        try:
            yield name, as_role(owner_url, name)
        finally:
            await session.execute(f"drop owned by {name}")
            await session.execute(f"drop role {name}")
    finally:
        await session.close()


@asynccontextmanager
async def granted(owner_url: str, kind: RoleKind) -> AsyncIterator[str]:
    """The database as a role that was let in connects to it."""
    async with role(owner_url) as (name, url):
        await PostgresStore(owner_url).grant([Grant(name, kind)])
        yield url


def as_role(url: str, name: str) -> str:
    """The same database for another role."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{name}:{PASSWORD}@{parts.netloc.rpartition('@')[2]}").geturl()


def role_of(url: str) -> str:
    """The role that an address names."""
    return str(urlsplit(url).username)
