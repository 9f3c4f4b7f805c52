"""Redis Streams as a sink: each event is an entry of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stepfast.kernel.durations import Duration
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.texts import check_text
from stepfast.kernel.views import EventView
from stepfast.sinks.broker import CONNECT_TIMEOUT, TIMEOUT, BrokerSink, place_of, token
from stepfast.sinks.cloudevents import attributes, encoded

if TYPE_CHECKING:
    from redis.asyncio import Redis

SCHEMES = ("redis", "rediss", "unix")


class RedisSink(BrokerSink):
    """Adds each event to a stream, or to one for each tenant (`stream:tenant`), with its CloudEvent as field `event`.

    `maxlen` has Redis trim a stream to about that many entries. `options` go to the client as they are: certificates
    and other things of TLS.
    """

    broker = "Redis"
    package = extra = "redis"

    def __init__(
        self,
        name: str,
        url: str,
        *,
        stream: str = "stepfast",
        per_tenant: bool = False,
        maxlen: int | None = None,
        types: Iterable[str] | None = None,
        tenants: Iterable[str] | None = None,
        timeout: Duration = TIMEOUT,
        connect_timeout: Duration = CONNECT_TIMEOUT,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        where, secrets = place_of(url, SCHEMES, "redis://user:password@host:6379/0")
        given = dict(options or {})
        super().__init__(
            name,
            where,
            types=types,
            tenants=tenants,
            timeout=timeout,
            connect_timeout=connect_timeout,
            secrets=[*secrets, given.get("password")],
        )
        self._url = url
        self._stream = check_text("stream", stream)
        self._per_tenant = per_tenant
        self._maxlen = None if maxlen is None else check_whole("maxlen", maxlen, 1)
        self._options = given
        self._client: Redis | None = None

    async def open(self) -> None:
        """See that the server is there and lets us in."""
        from redis.exceptions import RedisError

        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connected().ping()
        except TimeoutError:
            raise self._late() from None
        except (RedisError, OSError) as error:
            raise self._failed(error) from error

    async def deliver(self, events: Sequence[EventView]) -> None:
        """Add all of them or none: Redis does it in one transaction."""
        from redis.exceptions import RedisError

        try:
            async with asyncio.timeout(self._timeout_s), self._connected().pipeline(transaction=True) as pipe:
                for event in events:
                    fields: dict[Any, Any] = {**attributes(event), "event": encoded(event)}
                    pipe.xadd(self._key(event), fields, maxlen=self._maxlen, approximate=True)
                await pipe.execute()
        except TimeoutError:
            raise self._late() from None
        except (RedisError, OSError) as error:
            raise self._failed(error) from error

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _key(self, event: EventView) -> str:
        return f"{self._stream}:{token(event.tenant)}" if self._per_tenant else self._stream

    def _connected(self) -> Redis:
        """The client; it connects by itself, and anew when a connection was lost."""
        if self._client is None:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import ConnectionError as Lost

            # Once more on a new connection: those of a server that was restarted are all dead.
            once_more = Retry(NoBackoff(), 1, supported_errors=(Lost,))
            limits = {"socket_timeout": self._timeout_s, "socket_connect_timeout": self._connect_s}
            self._client = Redis.from_url(self._url, **{**limits, "retry": once_more, **self._options})
        return self._client
