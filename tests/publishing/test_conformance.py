"""Every sink is what the engine relies on, and sinks that are not do not pass."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from stepfast.conformance import SinkConformance
from stepfast.kernel.sinks import Sink
from stepfast.kernel.views import EventView
from stepfast.sinks import CallbackSink, KafkaSink, LogSink, NatsSink, RedisSink, WebhookSink
from stepfast.workflows.executors.allowed import Allowed
from tests.publishing.brokers.conftest import running
from tests.publishing.brokers.servers import TOPIC, Broker, free_port
from tests.support.turns import turn

SECRET = "whsec_" + base64.b64encode(bytes(32)).decode()
HERE = Allowed(networks=("127.0.0.0/8",))
NOWHERE = "127.0.0.1:1"


class TestCallback(SinkConformance):
    @pytest.fixture
    def heard(self) -> list[tuple[str, int]]:
        return []

    @pytest.fixture
    def sink(self, heard) -> Sink:
        return CallbackSink("ear", lambda event: heard.append((event.run_id, event.seq)))

    @pytest.fixture
    def arrived(self, heard):
        return said(heard)

    @pytest.fixture
    def sink_away(self) -> Sink:
        return CallbackSink("ear", deaf)


class TestLog(SinkConformance):
    """It has no place that could be away."""

    @pytest.fixture
    def sink(self, caplog) -> Sink:
        caplog.set_level(logging.INFO, "stepfast.events")
        return LogSink("log")

    @pytest.fixture
    def arrived(self, caplog):
        async def read():
            lines = [record.getMessage() for record in caplog.records if record.name == "stepfast.events"]
            return [(of(line, "run_id"), int(of(line, "seq"))) for line in lines]

        return read


class Handler(BaseHTTPRequestHandler):
    """Takes what is posted."""

    got: list[tuple[str, int]]

    def do_POST(self) -> None:
        told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for each in told if isinstance(told, list) else [told]:
            self.got.append((each["subject"], int(each["sequence"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


class TestWebhook(SinkConformance):
    @pytest.fixture
    def heard(self) -> list[tuple[str, int]]:
        return []

    @pytest.fixture
    def sink(self, heard) -> Iterator[Sink]:
        kind = type("Listening", (Handler,), {"got": heard})
        with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
            threading.Thread(target=server.serve_forever).start()
            yield WebhookSink("hook", f"http://127.0.0.1:{server.server_port}/", SECRET, allowed=HERE, batch=100)
            server.shutdown()

    @pytest.fixture
    def arrived(self, heard):
        return said(heard)

    @pytest.fixture
    def sink_away(self) -> Sink:
        return WebhookSink("hook", f"http://127.0.0.1:{free_port()}/", SECRET, allowed=HERE)


class OnBroker(SinkConformance):
    """A sink on a broker that really runs."""

    kind: str

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[Broker]:
        yield from running(self.kind, tmp_path / self.kind)

    @pytest.fixture
    def sink(self, server) -> Sink:
        found: Sink = server.sink()
        return found

    @pytest.fixture
    def arrived(self, server):
        async def read():
            return [(each["subject"], int(each["sequence"])) for each in await server.arrived()]

        return read


class TestRedis(OnBroker):
    kind = "redis"

    @pytest.fixture
    def sink_away(self) -> Sink:
        return RedisSink("place", f"redis://{NOWHERE}/0")


class TestNats(OnBroker):
    kind = "nats"

    @pytest.fixture
    def sink_away(self) -> Sink:
        return NatsSink("place", f"nats://{NOWHERE}")


class TestKafka(OnBroker):
    kind = "kafka"

    @pytest.fixture
    def sink_away(self) -> Sink:
        return KafkaSink("place", NOWHERE, TOPIC, timeout="1s", connect_timeout="1s")


class Place:
    """A sink that keeps every promise; its broken twins break one each."""

    name = "place"

    def __init__(self) -> None:
        self.got: list[tuple[str, int]] = []

    def wants(self, event: EventView) -> bool:
        return True

    async def open(self) -> None:
        """Nothing to connect to."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        self.got += [(event.run_id, event.seq) for event in events]

    async def close(self) -> None:
        """Nothing to let go of."""

    async def arrived(self) -> list[tuple[str, int]]:
        return self.got


class Hasty(Place):
    """Returns before events are there."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        self.later = asyncio.create_task(super().deliver(events))


class Backwards(Place):
    """Turns the order around."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        await super().deliver(events[::-1])


class Shared(Place):
    """Keeps what it delivers where another delivery finds it."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        self.events = events
        await turn()
        await super().deliver(self.events)


class Forgetful(Place):
    """Forgets what it had when it is opened again."""

    async def open(self) -> None:
        self.got = []


class Careless(Place):
    """Drops what it does not like."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        await super().deliver([event for event in events if len(event.tenant) < 100])


class Sullen(Place):
    """Takes nothing more after a delivery that was broken off."""

    is_busy = False

    async def deliver(self, events: Sequence[EventView]) -> None:
        if self.is_busy:
            return
        self.is_busy = True
        await turn()
        await super().deliver(events)
        self.is_busy = False


TWINS: list[tuple[type[Place], Callable[[SinkConformance, Sink, Any], None]]] = [
    (Hasty, SinkConformance.test_events_are_there_when_a_delivery_returns),
    (Backwards, SinkConformance.test_the_events_of_a_run_arrive_in_order),
    (Shared, SinkConformance.test_deliveries_at_once_do_not_hinder_each_other),
    (Forgetful, SinkConformance.test_opening_closing_and_opening_again_loses_nothing),
    (Careless, SinkConformance.test_events_of_any_tenant_type_and_content_arrive),
    (Sullen, SinkConformance.test_a_delivery_that_was_broken_off_leaves_a_sink_that_works),
]


@pytest.mark.parametrize(("twin", "check"), TWINS)
def test_a_broken_twin_of_a_sink_does_not_pass(twin, check):
    place = twin()
    with pytest.raises(AssertionError):
        check(SinkConformance(), place, place.arrived)


@pytest.mark.parametrize("check", [check for _, check in TWINS])
def test_the_sink_that_keeps_its_promises_passes(check):
    place = Place()
    check(SinkConformance(), place, place.arrived)


def test_a_sink_that_hides_that_its_place_is_away_does_not_pass():
    class Request:
        instance = type("Suite", (), {"sink_away": None})()

        def getfixturevalue(self, name: str) -> Place:
            return Place()

    with pytest.raises(AssertionError, match="nowhere"):
        SinkConformance().test_a_place_that_is_not_there_is_an_error_and_soon(Request())


def deaf(event: EventView) -> None:
    raise ConnectionError("nobody there")


def said(heard: list[tuple[str, int]]):
    async def read():
        return list(heard)

    return read


def of(line: str, name: str) -> str:
    return line.split(f"{name}=", 1)[1].split(" ", 1)[0]
