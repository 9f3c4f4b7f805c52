"""What may stand between a client and PostgreSQL: a line that breaks, and a pooler in transaction mode."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

READY, IDLE = b"Z", b"I"
SSL_REQUEST = 80877103


class Message(NamedTuple):
    """One message of PostgreSQL's protocol, with its first byte apart; a client's very first message has none."""

    kind: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        return self.kind + struct.pack("!I", len(self.body) + 4) + self.body


async def read_message(reader: asyncio.StreamReader, has_kind: bool = True) -> Message:
    kind = await reader.readexactly(1) if has_kind else b""
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    return Message(kind, await reader.readexactly(length - 4))


async def dial(url: str) -> Streams:
    """A raw connection to the server at `url`."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query).get("host", [""])[0]
    if folder.startswith("/"):
        return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{parts.port or 5432}")
    return await asyncio.open_connection(parts.hostname, parts.port or 5432)


class Proxy:
    """Listens on a port of its own and serves each client by a task; all of them end with it."""

    def __init__(self, url: str) -> None:
        self.server_url = url
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """The address to use instead of the server's."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        parts = urlsplit(self.server_url)
        try:
            yield parts._replace(netloc=f"{parts.username or 'postgres'}@127.0.0.1:{port}", query="").geturl()
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for writer in self._writers:
                writer.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        # A task of a server that is cancelled makes asyncio complain; this one ends by itself.
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            await self.serve((reader, writer))
        writer.close()

    async def dial(self) -> Streams:
        reader, writer = await dial(self.server_url)
        self._writers.append(writer)
        return reader, writer

    async def serve(self, client: Streams) -> None:
        raise AssertionError("each proxy serves in its own way")


class CuttingProxy(Proxy):
    """Passes everything on, until it is told to swallow the server's next answer and cut the line."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_cutting = False
        self.cuts = 0

    async def serve(self, client: Streams) -> None:
        server = await self.dial()
        asking = asyncio.create_task(self._pass_on(client[0], server[1]))
        try:
            while data := await server[0].read(65536):
                if self.is_cutting:
                    self.cuts += 1
                    self.is_cutting = False
                    return
                client[1].write(data)
        finally:
            asking.cancel()
            server[1].close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


class Pooler(Proxy):
    """Hands a client's messages to another session of the server after each transaction, as PgBouncer does."""

    def __init__(self, url: str, sessions: int = 2) -> None:
        super().__init__(url)
        self._sessions = sessions

    async def serve(self, client: Streams) -> None:
        startup = await self._startup(client)
        greetings = [await self._session(startup) for _ in range(self._sessions)]
        self._welcome(client[1], greetings[0][1])
        link = Link([server for server, _ in greetings], client[1])
        answering = [asyncio.create_task(link.pass_answers_on(server)) for server, _ in greetings]
        try:
            while True:
                message = await read_message(client[0])
                link.server[1].write(message.raw)
        finally:
            for task in answering:
                task.cancel()

    async def _startup(self, client: Streams) -> Message:
        message = await read_message(client[0], has_kind=False)
        if struct.unpack("!I", message.body[:4])[0] == SSL_REQUEST:
            client[1].write(b"N")
            message = await read_message(client[0], has_kind=False)
        return message

    async def _session(self, startup: Message) -> tuple[Streams, list[Message]]:
        reader, writer = await self.dial()
        writer.write(startup.raw)
        greeting = []
        while (message := await read_message(reader)).kind != READY:
            greeting.append(message)
        return (reader, writer), greeting

    def _welcome(self, writer: asyncio.StreamWriter, greeting: list[Message]) -> None:
        """What the server said, but with a number of the pooler's own where the server named its process."""
        for message in greeting:
            body = struct.pack("!II", 7, 7) if message.kind == b"K" else message.body
            writer.write(Message(message.kind, body).raw)
        writer.write(Message(READY, IDLE).raw)


class Link:
    """The session that a client is linked to for the length of a transaction."""

    def __init__(self, servers: list[Streams], client: asyncio.StreamWriter) -> None:
        self._servers = servers
        self._client = client

    @property
    def server(self) -> Streams:
        return self._servers[0]

    async def pass_answers_on(self, server: Streams) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = await read_message(server[0])
                if message == Message(READY, IDLE):
                    self._servers.append(self._servers.pop(0))
                self._client.write(message.raw)
