"""Threads that each own one connection, and the transaction in which everything is written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import apsw

from stepfast.kernel.errors import StoreUnavailable, StoreUnusable
from stepfast.stores.sqlite.asking import set_clock
from stepfast.stores.sqlite.copies import file_at, note_closed, note_open, refuse_copied
from stepfast.stores.sqlite.problems import explained
from stepfast.stores.sqlite.turnstile import Turnstile

T = TypeVar("T")
U = TypeVar("U")
Clock = Callable[[], int]

CACHE_KIB = 64 * 1024
# All statements of a worker stay compiled, inserts of several widths among them.
COMPILED = 300
# Pages that change with every commit are copied back to the file once for all the commits in between.
CHECKPOINT_PAGES = 4_000


# What is said of the writing when a file is found to be gone.
NOTHING_WRITTEN = "Nothing was written"
LAST_LOST = "What was written last is lost"


class Reader:
    """A thread with a connection that only reads; calls may come from any event loop."""

    flags = apsw.SQLITE_OPEN_READONLY

    def __init__(self, path: Path, clock: Clock, patience_ms: int, name: str) -> None:
        self._path = path
        self._clock = clock
        self._patience_ms = patience_ms
        self._name = name
        self._thread: ThreadPoolExecutor | None = None
        self._connection: apsw.Connection | None = None

    async def connect(self) -> None:
        """Start the thread and open its connection; nothing happens when that was done before."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"stepfast-{self._name}")
            await self._in_thread(self._begin)

    async def run(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do the work on the connection, after whatever was asked before."""
        return await self._in_thread(partial(self._perform, work))

    async def close(self) -> None:
        """Close the connection and end the thread."""
        if self._thread is not None:
            thread = self._thread
            await self._in_thread(self._release)
            self._thread = None
            thread.shutdown()

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._thread is None:
            raise StoreUnavailable(f"The store {self._path} is not open. Open it first.")
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(self._explained, call))

    def _explained(self, call: Callable[[], T]) -> T:
        with explained(self._path):
            return call()

    def _perform(self, work: Callable[[apsw.Connection], T]) -> T:
        return work(self._opened())

    def _begin(self) -> None:
        refuse_copied(self._path)
        self._open()

    def _open(self) -> None:
        connection = apsw.Connection(str(self._path), flags=self.flags, statementcachesize=COMPILED)
        self._connection = connection
        note_open(connection)
        connection.set_busy_timeout(self._patience_ms)
        # One plan for all values: otherwise many statements are compiled anew for each row of an executemany, which
        # made claims six times as dear.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        set_clock(connection, self._clock)
        connection.execute(f"pragma cache_size = -{CACHE_KIB}")

    def _opened(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreUnavailable(f"The store {self._path} is not open. Open it first.")
        return self._connection

    def _release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            note_closed(self._connection)
            self._connection = None


class Writer(Reader):
    """A thread with a connection that writes when its turn among all writers of the file comes."""

    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    _turnstile: Turnstile | None = None
    _file: tuple[int, int] | None = None
    _wal: tuple[int, int] | None = None

    def _open(self) -> None:
        self._turnstile = Turnstile(self._path, self._patience_ms)
        with self._turnstile.turn():
            super()._open()
            connection = self._opened()
            connection.execute("pragma journal_mode = wal")
            # A new file gets its log with the first reading. From then on nobody who knows of our locks removes it;
            # before, we might find the log of another process here, which goes with that.
            connection.execute("select count(*) from sqlite_schema").fetchall()
            connection.execute("pragma synchronous = full")
            connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
            # A statement for many rows keeps the pages that it changes until it is done. In a file they would have to
            # be written while others wait for the lock, and in a folder for such files that may be full or missing.
            connection.execute("pragma temp_store = memory")
            self._file = file_at(connection.filename)
            self._wal = file_at(connection.filename_wal)

    async def run_then(self, work: Callable[[apsw.Connection], T], then: Callable[[apsw.Connection, T], U]) -> U:
        """Do the work in one transaction; what comes then does not keep other writers waiting."""
        return await self._in_thread(partial(self._perform_then, work, then))

    async def run_unless(
        self,
        look: Callable[[apsw.Connection], U | None],
        work: Callable[[apsw.Connection], T],
        then: Callable[[apsw.Connection, T], U],
    ) -> U:
        """What a look answers; where that is None, the work and what comes then."""
        return await self._in_thread(partial(self._perform_unless, look, work, then))

    async def look(self, question: Callable[[apsw.Connection], T]) -> T:
        """Ask without a transaction, which takes a lock and two statements, where mostly nothing is to be written."""
        return await self._in_thread(partial(self._look, question))

    async def run_single(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do work of one statement, which is a transaction of its own."""
        return await self._in_thread(partial(self._perform_single, work))

    def _perform_then(self, work: Callable[[apsw.Connection], T], then: Callable[[apsw.Connection, T], U]) -> U:
        return then(self._opened(), self._perform(work))

    def _perform_unless(
        self,
        look: Callable[[apsw.Connection], U | None],
        work: Callable[[apsw.Connection], T],
        then: Callable[[apsw.Connection, T], U],
    ) -> U:
        found = self._look(look)
        return self._perform_then(work, then) if found is None else found

    def _look(self, question: Callable[[apsw.Connection], T]) -> T:
        # Whoever is idle hears of a file that is gone as well, and not only with its next heartbeat.
        return question(self._checked(NOTHING_WRITTEN))

    def _perform_single(self, work: Callable[[apsw.Connection], T]) -> T:
        assert self._turnstile is not None
        connection = self._checked(NOTHING_WRITTEN)
        with self._turnstile.turn():
            answer = work(connection)
        self._checked(LAST_LOST)
        return answer

    def _perform(self, work: Callable[[apsw.Connection], T]) -> T:
        """Do the work in one transaction: it has happened whole, or not at all."""
        assert self._turnstile is not None
        connection = self._checked(NOTHING_WRITTEN)
        with self._turnstile.turn():
            connection.execute("begin immediate")
            try:
                answer = work(connection)
                connection.execute("commit")
            finally:
                # SQLite has rolled back by itself when the disk was full.
                if connection.in_transaction:
                    connection.execute("rollback")
        self._checked(LAST_LOST)
        return answer

    def _checked(self, state: str) -> apsw.Connection:
        """The connection, if what is written by it can be read: asked before and behind each turn at the file.

        In the turn each question would cost the thread its turn at the interpreter, while all others wait. What was
        lost is never answered for: who has lost it between the two hears of it behind the second.
        """
        connection = self._opened()
        self._check_file(connection, state)
        self._check_wal(connection, state)
        return connection

    def _check_file(self, connection: apsw.Connection, state: str) -> None:
        """Answer for nothing in a file that nobody can open any more; the system keeps one until it is closed."""
        if file_at(connection.filename) != self._file:
            raise StoreUnusable(
                f"The store {self._path} was removed or replaced while it was in use. {state}. If that very file was "
                "moved, move it back, and work goes on; else start this program again."
            )

    def _check_wal(self, connection: apsw.Connection, state: str) -> None:
        """Answer for nothing that is in a log which nobody can read any more.

        Another copy of SQLite in this process, like Python's own, does not know of our locks. When it closes the file
        it takes itself for the last user, moves the log into the file and removes it; we would go on writing to it.
        """
        found = file_at(connection.filename_wal)
        if found is None or found != self._wal:
            raise StoreUnusable(
                f"The write-ahead log of the store {self._path} was removed while it was in use, as by Python's own "
                f"sqlite3 when it closes the file in this process. {state}; start this program again, and read the "
                "file with apsw, or in another process."
            )

    def _release(self) -> None:
        connection = self._connection
        if connection is not None and self._wal is not None and file_at(connection.filename_wal) != self._wal:
            # SQLite would move what is in our log into the file, over what others have written there since.
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        super()._release()
        if self._turnstile is not None:
            self._turnstile.close()
            self._turnstile = None
