"""NATS JetStream as a sink: each event is a message that a stream has stored."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import check_text
from stepfast.kernel.views import EventView
from stepfast.sinks.broker import CONNECT_TIMEOUT, TIMEOUT, BrokerSink, place_of, token, waves
from stepfast.sinks.cloudevents import MEDIA_TYPE, attributes, encoded, event_id

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext

SCHEMES = ("nats", "tls", "ws", "wss")
SUBJECT = "stepfast.{tenant}.{type}"
# A server that hangs is noticed after two of these.
PING_S = 10


class NatsSink(BrokerSink):
    """Publishes each event to a subject that a stream of JetStream has, and waits until it is stored.

    `subject` may have `{tenant}`, `{type}` and `{run_id}` in it. A repeated event has the same `Nats-Msg-Id`, and
    JetStream drops it within its window. `stream` has the server refuse what would go to another stream.
    """

    broker = "NATS"
    package = extra = "nats"

    def __init__(
        self,
        name: str,
        servers: str | Sequence[str],
        *,
        subject: str = SUBJECT,
        stream: str | None = None,
        types: Iterable[str] | None = None,
        tenants: Iterable[str] | None = None,
        timeout: Duration = TIMEOUT,
        connect_timeout: Duration = CONNECT_TIMEOUT,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        credentials: str | Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        urls = [servers] if isinstance(servers, str) else [*servers]
        if not urls:
            raise Invalid("A sink for NATS has no servers. Give one, as in nats://host:4222.")
        places = [place_of(url, SCHEMES, "nats://user:password@host:4222") for url in urls]
        super().__init__(
            name,
            ", ".join(where for where, _ in places),
            types=types,
            tenants=tenants,
            timeout=timeout,
            connect_timeout=connect_timeout,
            secrets=[*(secret for _, secrets in places for secret in secrets), password, token],
        )
        self._servers = urls
        self._subject = _checked_subject(subject)
        self._stream = stream
        self._access: dict[str, Any] = {"user": user, "password": password, "token": token, "tls": tls}
        if credentials is not None:
            self._access["user_credentials"] = str(credentials)
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def open(self) -> None:
        """See that a server is there and lets us in."""
        await self.deliver([])

    async def deliver(self, events: Sequence[EventView]) -> None:
        """Publish them; the next event of a run when the one before it is stored."""
        try:
            async with asyncio.timeout(self._timeout_s):
                client = await self._connected()
                stream = client.jetstream()
                for wave in waves(events):
                    sent = await asyncio.gather(
                        *(self._publish(client, stream, event) for event in wave), return_exceptions=True
                    )
                    for answer in sent:
                        if isinstance(answer, BaseException):
                            raise answer
        except TimeoutError:
            raise self._late() from None

    async def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        self._connecting = asyncio.Lock()
        if client is not None:
            await _closed(client, self._connect_s)

    async def _publish(self, client: Client, stream: JetStreamContext, event: EventView) -> None:
        from nats.errors import Error
        from nats.js.errors import NoStreamResponseError

        subject, body, headers = self._message(event)
        size = len(body) + sum(len(key) + len(value) + 4 for key, value in headers.items()) + 12
        if size > client.max_payload:
            # The server would close the connection over it, and with it whatever else is under way.
            raise self._failed(
                f"event {event_id(event)} has {size:,} bytes, and max_payload is {client.max_payload:,}."
            )
        try:
            await stream.publish(subject, body, timeout=self._timeout_s, headers=headers)
        except NoStreamResponseError as error:
            raise self._failed(f"no stream of JetStream has the subject {subject}; add one that does.") from error
        except Error as error:
            raise self._failed(error) from error

    def _message(self, event: EventView) -> tuple[str, bytes, dict[str, str]]:
        subject = self._subject.format(tenant=token(event.tenant), type=token(event.type), run_id=token(event.run_id))
        headers = {f"ce-{key}": quote(value, safe=" ") for key, value in attributes(event).items()}
        # Two sinks on one stream are two messages.
        headers |= {"Content-Type": MEDIA_TYPE, "Nats-Msg-Id": f"{token(self.name)}.{event_id(event)}"}
        if self._stream is not None:
            headers["Nats-Expected-Stream"] = self._stream
        return subject, encoded(event), headers

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._client is not None and self._client.is_connected:
                return self._client
            lost, self._client = self._client, None
            if lost is not None:
                await _closed(lost, self._connect_s)
            self._client = await self._any_server()
            return self._client

    async def _any_server(self) -> Client:
        from nats.aio.client import Client
        from nats.errors import Error, NoServersError

        client, complaints = Client(), list[Exception]()

        async def complain(error: Exception) -> None:
            complaints.append(error)

        try:
            # No reconnecting behind our back: what it would send then is offered anew by the engine.
            await client.connect(
                self._servers,
                error_cb=complain,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=max(1, round(self._connect_s)),
                ping_interval=PING_S,
                **self._access,
            )
        except (Error, OSError, ValueError) as error:
            await _closed(client, self._connect_s)
            cause = complaints[-1] if complaints and isinstance(error, NoServersError) else error
            raise self._failed(cause) from error
        except BaseException:
            await _closed(client, self._connect_s)
            raise
        return client


async def _closed(client: Client, patience_s: float) -> None:
    # It is given up: what it has to say about that helps nobody.
    with suppress(Exception):
        async with asyncio.timeout(patience_s):
            await client.close()


def _checked_subject(subject: str) -> str:
    check_text("subject", subject)
    try:
        sample = subject.format(tenant="t", type="t", run_id="t")
    except (KeyError, IndexError, ValueError, AttributeError):
        raise Invalid(
            f"subject is {subject!r}; what it may have in braces is {{tenant}}, {{type}}, {{run_id}}."
        ) from None
    if any(not part or part in "*>" or part.split() != [part] for part in sample.split(".")):
        raise Invalid(f"subject is {subject!r}; its parts are not empty, have no spaces, and are no * or >.")
    return subject
