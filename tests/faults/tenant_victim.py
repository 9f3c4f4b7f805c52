"""A process that executes, seals and publishes for several tenants, with secrets, and dies when it is told to.

Called as `python -m tests.faults.tenant_victim OPTIONS` with a JSON object: database, folder, ears (whom it tells of
what it has recorded), dies_after (how many steps or deliveries), secret (of its webhook), twin (`tells_everybody` or
`tells_its_secret`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepfast import Stepfast, annotate, step, workflow
from stepfast.engine import publishing
from stepfast.kernel.views import EventView
from stepfast.sinks import FilteredSink, WebhookSink
from tests.support.apps import MORTAL
from tests.support.victims import tell_of_calls

TENANTS = ("acme", "globex")
LEASE_MS, LOOK_MS = 400, 100
OPTIONS: dict[str, Any] = {}


def live_on() -> None:
    """One more thing was done; after so many the process dies."""
    OPTIONS["done"] = OPTIONS.get("done", 0) + 1
    if OPTIONS["done"] == OPTIONS.get("dies_after"):
        os.kill(os.getpid(), signal.SIGKILL)


@step
async def repeat(words: str) -> str:
    annotate("said", words)
    live_on()
    return words


@workflow
async def parrot(words: str) -> str:
    return await repeat(await repeat(words))


class TenantSink(FilteredSink):
    """The events of one tenant as lines of a file: whose they are, and what they say."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        with (Path(OPTIONS["folder"]) / f"{self.name}.events").open("a") as file:
            file.writelines(f"{event.tenant} {event.run_id} {event.seq} {event.data}\n" for event in events)
        live_on()


class TalkativeSink(FilteredSink):
    """The broken twin: its errors tell how it gets in."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        raise PermissionError(f"{OPTIONS['secret']} is not let in")


async def main() -> None:
    publishing.LEASE_MS, publishing.LOOK_MS = LEASE_MS, LOOK_MS
    app = Stepfast(OPTIONS["database"], workflows=[parrot], worker=replace(MORTAL, max_crashes=50, seal_every_ms=100))
    for tenant in TENANTS:
        told = None if OPTIONS.get("twin") == "tells_everybody" else [tenant]
        app.sinks.add(TenantSink(tenant, tenants=told), from_start=True)
    if OPTIONS.get("twin") == "tells_its_secret":
        app.sinks.add(TalkativeSink("hook"), from_start=True)
    else:
        app.sinks.add(WebhookSink("hook", "http://127.0.0.1:9/", OPTIONS["secret"]), from_start=True)
    async with app:
        tell_of_calls(app._open_parts().store, Path(OPTIONS["ears"]), "advance_sink")
        await asyncio.Event().wait()


if __name__ == "__main__":
    OPTIONS |= json.loads(sys.argv[1])
    logging.basicConfig(level=logging.DEBUG)
    asyncio.run(main())
