"""HTTP servers on the loopback that answer what a test tells them, byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from ssl import SSLContext


class Server:
    """Answers each request by its path, and remembers what came."""

    def __init__(self, answers: dict[str, bytes | None]) -> None:
        self.answers = answers
        self.requests: list[str] = []
        self.address = ""
        self.port = 0
        self._stopped = asyncio.Event()

    def url(self, path: str = "/") -> str:
        return f"http://{self.address}:{self.port}{path}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length")), 0)
        self.requests.append(head + (await reader.readexactly(length)).decode())
        answer = self.answers[head.split()[1]]
        if answer is None:
            await self._stopped.wait()
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()

    def stop(self) -> None:
        self._stopped.set()


@asynccontextmanager
async def serving(
    answers: dict[str, bytes | None], address: str = "127.0.0.1", port: int = 0, secure: SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server while it runs."""
    server = Server(answers)
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = server.answer
    listening = await asyncio.start_server(answer, address, port, ssl=secure)
    server.address, server.port = address, listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.stop()
        listening.close()
        await listening.wait_closed()


def answer(body: bytes = b"", status: int = 200, **headers: str) -> bytes:
    """An answer as it goes over the wire."""
    named = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = [f"HTTP/1.1 {status} Word", *(f"{name}: {value}" for name, value in named.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body
