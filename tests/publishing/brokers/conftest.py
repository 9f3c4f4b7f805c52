"""Fixtures: each of the brokers, running."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.publishing.brokers.servers import KINDS, Broker, KafkaServer, NatsServer, RedisServer


def running(kind: str, folder: Path) -> Iterator[Broker]:
    folder.mkdir()
    server = KINDS[kind](folder)
    try:
        server.start()
        yield server
    finally:
        if isinstance(server, KafkaServer):
            server.end()
        else:
            server.stop()


@pytest.fixture(params=list(KINDS))
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    yield from running(request.param, tmp_path / "broker")


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    yield from running("redis", tmp_path / "redis")  # type: ignore[misc]


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    yield from running("nats", tmp_path / "nats")  # type: ignore[misc]


@pytest.fixture
def kafka_server(tmp_path: Path) -> Iterator[KafkaServer]:
    yield from running("kafka", tmp_path / "kafka")  # type: ignore[misc]
