"""One HTTP/1.1 request and its answer, on a connection of its own to an address that was checked."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from stepfast.kernel.errors import Invalid
from stepfast.kernel.executor_errors import HttpFailed, HttpRefused
from stepfast.kernel.texts import shown

PORTS = {"http": 80, "https": 443}
MAX_HEAD_BYTES = 65_536
# A server that speaks no TLS may wait for a request until the end of time; asyncio would wait for a minute.
HANDSHAKE_S = 10.0
MAX_LINE_BYTES = 16_384
# Letters of a URL that stay as they are; all others are written as escapes.
PLAIN = "/:?#[]@!$&'()*+,;=%-._~"

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)(?: .*)?\r?\n")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?\r?\n")


class Target(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> tuple[str, str, int]:
        return self[:3]

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


class Request(NamedTuple):
    """What is sent."""

    method: str
    target: Target
    headers: dict[str, str]
    body: bytes | None


class Answer(NamedTuple):
    """What came back; several headers of one name are joined by commas."""

    status: int
    headers: dict[str, str]
    body: bytes


def parse_url(url: str) -> Target:
    """Where a URL leads; only http and https, and no passwords in it."""
    if any(character <= " " or character == "\x7f" for character in url):
        raise Invalid(f"{_told(url)} is no URL: it has blanks or control characters. Write them as escapes.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        name = host.encode("idna").decode() if host and not host.isascii() else host
    except (ValueError, UnicodeError) as error:
        raise Invalid(f"{_told(url)} is no URL: {error}.") from error
    if parts.scheme not in PORTS or not name:
        raise Invalid(f"{_told(url)} cannot be called: write http://host/... or https://host/...")
    if parts.username is not None or parts.password is not None:
        raise Invalid(f"The URL for {name} has a user name in it. Send it in the header Authorization.")
    path = quote(parts.path or "/", PLAIN) + (f"?{quote(parts.query, PLAIN)}" if parts.query else "")
    return Target(parts.scheme, name, PORTS[parts.scheme] if port is None else port, path)


def _told(url: str) -> str:
    """A URL for errors, which are stored and read by many: without what may be a password or a key."""
    scheme, colon, rest = re.split(r"[?#]", url, maxsplit=1)[0].rpartition("//")
    return shown(scheme + colon + rest.rpartition("@")[2])


async def exchange(request: Request, addresses: Sequence[str], max_bytes: int | None) -> Answer:
    """Send a request to the first of the addresses that answers, and read the answer; without a bound, its head."""
    reader, writer = await _connect(request.target, addresses)
    try:
        writer.write(_head(request) + (request.body or b""))
        await writer.drain()
        return await _read_answer(reader, request.method, max_bytes)
    except (OSError, EOFError) as error:
        raise HttpFailed(f"The connection to {request.target.host} broke: {error}.") from error
    except ValueError as error:
        raise HttpFailed(f"{request.target.host} answered what is not HTTP: {error}.") from error
    finally:
        writer.transport.abort()


async def reach(target: Target, addresses: Sequence[str]) -> None:
    """See that one of the addresses can be connected to; raises HttpFailed where none can."""
    _, writer = await _connect(target, addresses)
    writer.transport.abort()


async def _connect(target: Target, addresses: Sequence[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    secure: dict[str, Any] = {}
    if target.scheme == "https":
        secure = {"ssl": _context(), "server_hostname": target.host, "ssl_handshake_timeout": HANDSHAKE_S}
    problems = []
    for address in addresses:
        try:
            return await asyncio.open_connection(address, target.port, limit=MAX_LINE_BYTES, **secure)
        except OSError as error:
            problems.append(f"{address}: {error}")
    raise HttpFailed(f"{target.host} cannot be reached at port {target.port} ({'; '.join(problems)}).")


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()


def _head(request: Request) -> bytes:
    own = {"Host": request.target.host_header, "Connection": "close", "Accept-Encoding": "identity"}
    if request.body is not None or request.method in ("POST", "PUT", "PATCH"):
        own["Content-Length"] = str(len(request.body or b""))
    lines = [f"{request.method} {request.target.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in {**request.headers, **own}.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def _read_answer(reader: asyncio.StreamReader, method: str, max_bytes: int | None) -> Answer:
    status = 100
    while 100 <= status < 200:
        # What is below 200 is only a word in between.
        matched = _STATUS.fullmatch(line := await reader.readline())
        if not matched:
            raise (
                ValueError(f"its first line is {shown(line)}") if line else EOFError("it was closed without an answer")
            )
        status, headers = int(matched[1]), await _read_headers(reader)
        if status == 101:
            raise ValueError("it wants to speak another protocol")
    if max_bytes is None or method == "HEAD" or status in (204, 304):
        return Answer(status, headers, b"")
    return Answer(status, headers, await _read_body(reader, headers, max_bytes))


async def _read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    size = 0
    while (line := await reader.readline()) not in (b"\r\n", b"\n"):
        size += len(line)
        name, colon, value = line.decode("latin-1").partition(":")
        if not line.endswith(b"\n"):
            raise EOFError("it was closed amid the headers")
        if not colon or name != name.strip() or size > MAX_HEAD_BYTES:
            raise ValueError("its headers are too long, or none")
        key = name.lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str], max_bytes: int) -> bytes:
    if headers.get("transfer-encoding", "").lower().endswith("chunked"):
        return await _read_chunks(reader, max_bytes)
    length = headers.get("content-length")
    if length is None:
        return await _read_rest(reader, max_bytes)
    if not (length.isascii() and length.isdecimal()):
        raise ValueError(f"its length is {shown(length)}")
    _check_size(int(length[:20]), max_bytes)
    return await reader.readexactly(int(length))


async def _read_chunks(reader: asyncio.StreamReader, max_bytes: int) -> bytes:
    body = bytearray()
    while True:
        matched = _CHUNK.fullmatch(line := await reader.readline())
        if not matched:
            raise ValueError(f"it has {shown(line)} for the size of a part")
        size = int(matched[1], 16)
        _check_size(len(body) + size, max_bytes)
        if size == 0:
            await _read_headers(reader)
            return bytes(body)
        body += await reader.readexactly(size)
        if await reader.readline() not in (b"\r\n", b"\n"):
            raise ValueError("a part is longer than it says")


async def _read_rest(reader: asyncio.StreamReader, max_bytes: int) -> bytes:
    body = bytearray()
    while part := await reader.read(MAX_HEAD_BYTES):
        body += part
        _check_size(len(body), max_bytes)
    return bytes(body)


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise HttpRefused(f"The answer has more than {most:,} bytes. Allow more: max_response_bytes.")
