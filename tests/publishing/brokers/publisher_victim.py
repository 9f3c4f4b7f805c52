"""A process that publishes and dies where it is told to.

Called as `python -m tests.publishing.brokers.publisher_victim OPTIONS` with a JSON object: database, spec (a broker's),
die ("before", "halfway", "delivered": around its second delivery; "never": it leaves when all is done),
broken (say that events are safe before they are).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from stepfast import Stepfast
from stepfast.engine import publishing
from stepfast.engine.clock import SystemClock
from stepfast.engine.publishing import Publisher
from stepfast.kernel.sinks import Backoff, Sink
from stepfast.kernel.views import EventView
from stepfast.sinks import KafkaSink, NatsSink, RedisSink
from tests.publishing.brokers.servers import TOPIC
from tests.support.workflows import say

# Nobody waits for the lease of one that is dead.
publishing.LEASE_MS = 1


def sink_of(spec: dict[str, Any]) -> Sink:
    match spec["kind"]:
        case "redis":
            return RedisSink("place", spec["url"])
        case "nats":
            return NatsSink("place", spec["url"])
        case _:
            return KafkaSink("place", spec["url"], TOPIC)


class Dying:
    """A sink whose process dies in its second delivery, if at all."""

    name = "place"

    def __init__(self, sink: Sink, when: str) -> None:
        self.sink = sink
        self.wants, self.open, self.close = sink.wants, sink.open, sink.close
        self.when = when
        self.deliveries = 0

    async def deliver(self, events: Sequence[EventView]) -> None:
        self.deliveries += 1
        if self.deliveries == 1 or self.when == "never":
            await self.first(events)
            return
        if self.when != "before":
            await self.sink.deliver(events[: len(events) // 2] if self.when == "halfway" else events)
        os.kill(os.getpid(), signal.SIGKILL)

    async def first(self, events: Sequence[EventView]) -> None:
        await self.sink.deliver(events)


class Hasty(Dying):
    """The broken twin: it returns before the broker has answered, and so its progress is recorded before that."""

    async def first(self, events: Sequence[EventView]) -> None:
        """They would be sent by and by."""


async def main(options: dict[str, Any]) -> None:
    async with Stepfast(options["database"], workflows=[say], worker=False) as app:
        kind = Hasty if options.get("broken") else Dying
        sink = kind(sink_of(options["spec"]), options["die"])
        store = app._open_parts().store
        publisher = Publisher(store, SystemClock(), sink, "victim", Backoff(), from_start=True, page=10)
        while await publisher.make_pass():
            pass
        await publisher.close()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
