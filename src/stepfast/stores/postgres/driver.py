"""asyncpg behind types: the one place that imports it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Protocol, cast

import asyncpg

Row = Sequence[Any]

PostgresError: type[Exception] = asyncpg.PostgresError
InterfaceError: type[Exception] = asyncpg.InterfaceError
# What the driver says of a connection that the server ended while nobody asked anything.
InternalClientError: type[Exception] = asyncpg.InternalClientError

CACHED_STATEMENTS = 100

# What a pooler in between lets through.
_ANY_SESSION = {"application_name": "stepfast"}
# That null in an array is null a database may set otherwise. On the others nothing rests: they bound what a
# client that vanished can leave behind in the server.
_OWN_SESSION = {
    **_ANY_SESSION,
    "array_nulls": "on",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "5000",
    "jit": "off",
    "lock_timeout": "5000",
    "statement_timeout": "10000",
}
# A plan made for an empty table is a bad one for the rest of a session; what is asked seldom is planned anew each time.
_PLANNED_ANEW = {"plan_cache_mode": "force_custom_plan"}


class Connection(Protocol):
    """What we use of an asyncpg connection."""

    async def fetch(self, query: str, *args: object, timeout: float | None = None) -> list[Row]: ...

    async def execute(self, query: str, *, timeout: float | None = None) -> str: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def terminate(self) -> None: ...

    def is_closed(self) -> bool: ...

    def get_server_pid(self) -> int: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[..., None]) -> None: ...


async def _introspect_types(self: Any, oids: Iterable[int], timeout: float | None) -> tuple[Any, Any]:
    """What types are, as the driver asks before it first reads or writes one; an array of numbers is one too.

    A session that was just made plans that question for longer than it takes to do a run, and the answer for types that
    come with PostgreSQL is the same in every database: one answer is kept for each set of them.
    """
    asked = frozenset(oids)
    if asked in _KNOWN_TYPES:
        # The driver looks whether the question took the place of the statement without a name that it has prepared.
        return _KNOWN_TYPES[asked], _NOT_ASKED
    types, statement = await asyncpg.Connection._introspect_types(self, asked, timeout)
    if max(asked) < FIRST_OWN_OID:
        _KNOWN_TYPES[asked] = types
    return types, statement


FIRST_OWN_OID = 10_000
"""Types below it have the same number and the same form in every PostgreSQL."""
_KNOWN_TYPES: dict[frozenset[int], Any] = {}
_NOT_ASKED = SimpleNamespace(name="nothing was asked")
_Connection = type("Connection", (asyncpg.Connection,), {"_introspect_types": _introspect_types})


async def connect(url: str, timeout: float, is_own: bool, is_cold: bool) -> Connection:
    """A new connection; when its session is not our own it leaves no setting and no statement behind."""
    settings = (_OWN_SESSION | _PLANNED_ANEW if is_cold else _OWN_SESSION) if is_own else _ANY_SESSION
    connection = await asyncpg.connect(
        url,
        timeout=timeout,
        statement_cache_size=CACHED_STATEMENTS if is_own else 0,
        server_settings=settings,
        connection_class=_Connection,
    )
    return cast(Connection, connection)


def sqlstate(error: BaseException) -> str:
    """The five characters by which PostgreSQL names what is wrong; empty for anything else."""
    return str(getattr(error, "sqlstate", None) or "")
