"""Hints between the processes on one database: NOTIFY, apart from every commit. One that gets lost costs a poll."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from stepfast.errands import begin_errand
from stepfast.kernel.errors import StepfastError, StoreUnavailable
from stepfast.log import Log
from stepfast.stores.postgres.driver import Connection
from stepfast.stores.postgres.lines import Address, part
from stepfast.stores.postgres.problems import FAILURES, explained

log = Log("hints")


def tell_unheard(where: str) -> None:
    """Say that hints cannot be heard by this way at all: whoever listens there shares its session with others."""
    reason = f"{where} is behind a pooler. Set STEPFAST_DATABASE_DIRECT_URL to the way past it."
    log.warning("hints_unheard", reason=reason)


CHANNEL = "stepfast"
HINT = f"select pg_notify('{CHANNEL}', $1::text || ' ' || topic) from unnest($2::text[]) topic"

PAUSE_S = 1.0
# Who listens sends nothing, and hears nothing of a way that swallows what it should carry. Seldom, for every process
# asks, and an idle worker's polling, upkeep and heartbeats leave little of its two statements a second.
LOOK_EVERY_S = 60.0
ANSWER_S = 3.0


class Ear:
    """Listens on a connection of its own, and listens again after it broke; what is said meanwhile is lost."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._connection: Connection | None = None
        self._listening: asyncio.Task[None] | None = None
        self._broke = asyncio.Event()
        self._is_lost = False
        self._heard: Callable[[str], None] = lambda topic: None
        # Whoever hints hears it too; by this name it knows its own voice.
        self.name = secrets.token_hex(8)

    async def open(self, heard: Callable[[str], None]) -> None:
        """Call `heard` with each topic that another process hints at, from now on until closed."""
        self._heard = heard
        await self._try_to_listen(StoreUnavailable)
        self._listening = begin_errand(self._keep_listening(), "stepfast-hints")

    async def close(self) -> None:
        """Stop listening."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            await asyncio.wait({listening})
        connection, self._connection = self._connection, None
        if connection is not None:
            await part(connection)

    def hint_arguments(self, topics: Sequence[str]) -> list[object]:
        """The arguments of `HINT`."""
        return [self.name, topics]

    async def _keep_listening(self) -> None:
        while True:
            if self._connection is not None:
                await self._until_broken(self._connection)
                self._connection = None
                self._tell_lost(f"{self._address.where} has ended the connection, or does not answer on it.")
            await asyncio.sleep(PAUSE_S)
            # An address that was good before is no mistake of whoever gave it.
            await self._try_to_listen(StepfastError)

    async def _until_broken(self, connection: Connection) -> None:
        while not self._broke.is_set():
            # `asyncio.wait_for` of Python 3.11 would drop the end that comes with a break, and `close` wait for ever.
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._broke.wait()
                return
            try:
                await connection.execute("select 1", timeout=ANSWER_S)
            except FAILURES:
                connection.terminate()
                return

    async def _try_to_listen(self, passing: type[StepfastError]) -> None:
        self._broke.clear()
        try:
            connection = await self._address.connect()
            self._connection = connection
            connection.add_termination_listener(self._note_break)
            await self._listen_on(connection)
            self._tell_returned()
        except passing as problem:
            # The next round tries again.
            self._broke.set()
            self._tell_lost(str(problem))

    def _tell_lost(self, reason: str) -> None:
        if not self._is_lost:
            self._is_lost = True
            log.warning("hints_lost", reason=reason)

    def _tell_returned(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.info("hints_returned")

    async def _listen_on(self, connection: Connection) -> None:
        try:
            await connection.add_listener(CHANNEL, self._receive)
        except FAILURES as problem:
            connection.terminate()
            raise explained(self._address.where, problem) from problem

    def _note_break(self, *_: object) -> None:
        self._broke.set()

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        name, _, topic = payload.partition(" ")
        if name != self.name:
            self._heard(topic)
