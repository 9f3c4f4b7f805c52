"""Virtual time on PostgreSQL: the function that all its statements ask for the time answers a stored moment instead."""

from __future__ import annotations

import asyncio
from typing import Any

from stepfast.kernel.errors import Invalid
from stepfast.stores.postgres_urls import without_password
from stepfast.stores.urls import store_for
from stepfast.testing.clock import VirtualClock

# Held for as long as the connection lives: what a killed test leaves behind is free for the next.
TAKE = "select pg_try_advisory_lock(7305118265)"
ALIVE = "select exists (select 1 from stepfast.worker where dead_at is null)"
IS_VIRTUAL = "select to_regclass('stepfast.virtual_time') is not null"
DEFINITION = "select pg_get_functiondef('stepfast.now_ms()'::regprocedure)"

# The function as it was is kept beside the moment: whoever finds a database that a killed test left can set it right.
MAKE_VIRTUAL = "create table stepfast.virtual_time (now_ms bigint not null, definition text not null)"
REMEMBER = "insert into stepfast.virtual_time (now_ms, definition) values ($1, $2)"
ANSWER_STORED = """
create or replace function stepfast.now_ms() returns bigint
language sql volatile as $$ select now_ms from stepfast.virtual_time $$
"""
SET = "update stepfast.virtual_time set now_ms = $1"
DEFINITION_KEPT = "select definition from stepfast.virtual_time"
UNMAKE = "drop table stepfast.virtual_time"


class PostgresTime:
    """A database that goes by a virtual clock while this is open, and by its own before and after."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self._url = url
        self._clock = clock
        self._connection: Any = None
        self._set_to: int | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Bring the schema up to date, and take the time over."""
        store = store_for(self._url, self._clock)
        try:
            await store.migrate()
        finally:
            await store.close()
        import asyncpg

        self._connection = await asyncpg.connect(self._url)
        try:
            await self._take_over()
        except BaseException:
            await self._connection.close()
            raise

    async def follow(self) -> None:
        """Tell the database what time it is, if that has changed."""
        async with self._turn:
            now = self._clock.now()
            if now != self._set_to:
                await self._connection.execute(SET, now)
                self._set_to = now

    async def close(self) -> None:
        """Give the database its own time back."""
        async with self._connection.transaction():
            await self._connection.execute(await self._connection.fetchval(DEFINITION_KEPT))
            await self._connection.execute(UNMAKE)
        await self._connection.close()

    async def _take_over(self) -> None:
        if not await self._connection.fetchval(TAKE):
            raise Invalid(
                f"Another engine is open on {without_password(self._url)}, and two would set its clock against each "
                f"other. Give each engine() a database of its own."
            )
        async with self._connection.transaction():
            if not await self._connection.fetchval(IS_VIRTUAL):
                await self._refuse_if_used()
                definition = await self._connection.fetchval(DEFINITION)
                await self._connection.execute(MAKE_VIRTUAL)
                await self._connection.execute(REMEMBER, self._clock.now(), definition)
                await self._connection.execute(ANSWER_STORED)

    async def _refuse_if_used(self) -> None:
        if await self._connection.fetchval(ALIVE):
            raise Invalid(
                f"Workers are alive on {without_password(self._url)}, and a test would stop its clock. "
                f"Give engine() a database of its own."
            )
