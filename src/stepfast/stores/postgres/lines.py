"""Lines to the database: connections that are made when needed, and made anew after they broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, NamedTuple, TypeVar

from stepfast.errands import begin_errand
from stepfast.kernel.errors import StoreUnavailable
from stepfast.stores.postgres import driver
from stepfast.stores.postgres.driver import Connection, PostgresError, Row, sqlstate
from stepfast.stores.postgres.problems import (
    FAILURES,
    NOT_OUR_SESSION,
    TRIES,
    breaks_the_connection,
    explained,
    explained_at_the_door,
    place,
)

GOODBYE_S = 1.0

# Bounds for what a client that is lost in the middle can leave locked, set for the transaction alone, as the session
# may belong to everybody.
BEGIN = """
begin isolation level read committed;
set local statement_timeout = '5s';
set local lock_timeout = '3s';
set local idle_in_transaction_session_timeout = '3s';
"""

T = TypeVar("T")
Work = Callable[[Connection], Awaitable[T]]


class Deadlines(NamedTuple):
    """How long a call may take from end to end, and how much of it the making of a connection."""

    call_s: float = 10.0
    connect_s: float = 5.0


class Address:
    """Where the database is, and whether sessions there are our own: behind a pooler they belong to everybody."""

    def __init__(self, url: str, deadlines: Deadlines, has_own_sessions: bool | None) -> None:
        self.where = place(url)
        self.deadlines = deadlines
        self.has_own_sessions = has_own_sessions
        self.is_open = False
        self._url = url

    async def connect(self, is_cold: bool = True) -> Connection:
        """A new connection, or an error that says what is wrong at the door."""
        return await self._connect(self.has_own_sessions is True, is_cold)

    async def visit(self) -> Connection:
        """A connection that takes nothing for granted about the sessions there."""
        return await self._connect(is_own=False, is_cold=True)

    async def _connect(self, is_own: bool, is_cold: bool) -> Connection:
        try:
            return await _undisturbed(driver.connect(self._url, self.deadlines.connect_s, is_own, is_cold))
        except (*FAILURES, ValueError, OverflowError) as problem:  # the last one for a port that cannot be
            raise explained_at_the_door(self.where, problem) from problem


class Line:
    """One connection, used by one call at a time; a cold line is for statements of many kinds, each asked seldom."""

    def __init__(self, address: Address, is_cold: bool = False) -> None:
        self._address = address
        self._is_cold = is_cold
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None

    async def fetch(self, statement: str, args: Sequence[object] = ()) -> list[Row]:
        """Run one statement in a transaction of its own, and answer before the deadline.

        It is one round trip, or two where statements cannot stay prepared; a pooler changes the session between them no
        more than within a transaction, and nothing is locked before the last.
        """
        return await self._do(lambda connection: connection.fetch(statement, *args))

    async def transact(self, work: Work[T]) -> T:
        """Do work of several statements in one transaction, whole or not at all, and answer before the deadline."""
        return await self._do(lambda connection: _transaction(connection, work))

    async def close(self) -> None:
        """Take leave of the server, or hang up if it does not answer."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await part(connection)

    async def _do(self, work: Work[T]) -> T:
        try:
            async with asyncio.timeout(self._address.deadlines.call_s), self._turn:
                return await self._try(work)
        except TimeoutError as problem:
            raise explained(self._address.where, problem) from problem

    async def _try(self, work: Work[T]) -> T:
        for tries in count(1):
            try:
                return await work(await self._connected())
            except asyncio.CancelledError:
                # What the server answers to a question that nobody waits for must not reach the next caller.
                self._hang_up()
                raise
            except FAILURES as problem:
                self._learn_from(problem)
                if tries >= TRIES.get(sqlstate(problem), 1):
                    raise explained(self._address.where, problem) from problem
        raise AssertionError("unreachable")

    def _learn_from(self, problem: Exception) -> None:
        if sqlstate(problem) in NOT_OUR_SESSION:
            self._address.has_own_sessions = False
        if breaks_the_connection(problem):
            self._hang_up()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()

    async def _connected(self) -> Connection:
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        self._hang_up()
        if not self._address.is_open:
            raise StoreUnavailable(f"{self._address.where} is not open. Open the store before using it.")
        self._connection = await self._address.connect(self._is_cold)
        return self._connection


class Pool:
    """A few lines that are lent to one call each."""

    def __init__(self, address: Address, size: int) -> None:
        self._address = address
        self._lines = [Line(address, is_cold=True) for _ in range(size)]
        # The line that was used last is lent first, so that a quiet process keeps few connections.
        self._free: asyncio.LifoQueue[Line] = asyncio.LifoQueue()
        for line in reversed(self._lines):
            self._free.put_nowait(line)

    async def fetch(self, statement: str, args: Sequence[object] = ()) -> list[Row]:
        """Run one statement on a line that is free, or on the first that becomes so."""
        async with self._lent() as line:
            return await line.fetch(statement, args)

    async def transact(self, work: Work[T]) -> T:
        """Do work of several statements in one transaction."""
        async with self._lent() as line:
            return await line.transact(work)

    async def close(self) -> None:
        """Close every line."""
        for line in self._lines:
            await line.close()

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Line]:
        try:
            async with asyncio.timeout(self._address.deadlines.call_s):
                line = await self._free.get()
        except TimeoutError as problem:
            raise explained(self._address.where, problem) from problem
        try:
            yield line
        finally:
            self._free.put_nowait(line)


class LinePerLoop:
    """A line for each event loop that asks, as connections belong to the loop that made them."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lent: dict[asyncio.AbstractEventLoop, AsyncGenerator[Line, None]] = {}

    async def fetch(self, statement: str, args: Sequence[object] = ()) -> list[Row]:
        """Run one statement on the line of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._lent:
            self._lent = {known: line for known, line in self._lent.items() if not known.is_closed()}
            self._lent[loop] = _lend(self._address)
        line = await anext(self._lent[loop])
        return await line.fetch(statement, args)

    async def close(self) -> None:
        """Close every line, each in its own loop."""
        lent, self._lent = self._lent, {}
        for loop, line in lent.items():
            await _close_in(loop, line)


async def part(connection: Connection) -> None:
    """Close a connection in good form, or hang up if the server does not answer."""
    try:
        await connection.close(timeout=GOODBYE_S)
    except FAILURES:
        connection.terminate()


async def _undisturbed(connecting: Coroutine[Any, Any, Connection]) -> Connection:
    """A new connection; a caller that is cancelled meanwhile leaves when it was made and ended, or takes too long.

    The driver asks for TLS with a future that nobody looks at if it is cancelled too early: asyncio complains of that.
    """
    task = begin_errand(connecting)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_end_unwanted)
        try:
            await asyncio.wait({task}, timeout=GOODBYE_S)
        finally:
            task.cancel()
        raise


def _end_unwanted(task: asyncio.Task[Connection]) -> None:
    """End a connection that nobody waits for any more; why it could not be made is of no interest either."""
    if not task.cancelled() and task.exception() is None:
        task.result().terminate()


async def _transaction(connection: Connection, work: Work[T]) -> T:
    await connection.execute(BEGIN)
    try:
        answer = await work(connection)
        await connection.execute("commit")
    except PostgresError as problem:
        if not breaks_the_connection(problem):
            await connection.execute("rollback")
        raise
    except BaseException:
        # Whatever else happened: a connection with a transaction open must not reach the next caller.
        connection.terminate()
        raise
    return answer


async def _lend(address: Address) -> AsyncGenerator[Line, None]:
    """The same line over and over; a loop that ends closes its generators, and this one its connection."""
    line = Line(address)
    try:
        while True:
            yield line
    finally:
        await line.close()


async def _close_in(loop: asyncio.AbstractEventLoop, line: AsyncGenerator[Line, None]) -> None:
    if loop is asyncio.get_running_loop():
        await line.aclose()
    elif loop.is_running():
        closing = asyncio.run_coroutine_threadsafe(_close(line), loop)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(closing), GOODBYE_S)


async def _close(line: AsyncGenerator[Line, None]) -> None:
    await line.aclose()
