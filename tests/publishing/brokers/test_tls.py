"""Brokers behind TLS: a server whose authority is known is talked to, and another is not."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator

import pytest

from stepfast.kernel.errors import SinkFailed
from stepfast.sinks import NatsSink, RedisSink
from tests.publishing.brokers.certificates import Certificates, make_certificates
from tests.publishing.brokers.servers import SECRET, NatsServer, RedisServer
from tests.publishing.brokers.test_delivering import RUNS, event


class SecureRedis(RedisServer):
    certificates: Certificates

    def command(self) -> list[str]:
        made = self.certificates
        files = ["--tls-cert-file", str(made.server), "--tls-key-file", str(made.key), "--tls-auth-clients", "no"]
        plain = super().command()
        return [
            "--port",
            "0",
            "--tls-port",
            str(self.port),
            "--tls-ca-cert-file",
            str(made.authority),
            *files,
            *plain[2:],
        ]


class SecureNats(NatsServer):
    certificates: Certificates

    def command(self) -> list[str]:
        options = super().command()
        config = self.folder / "nats.conf"
        files = {"cert_file": str(self.certificates.server), "key_file": str(self.certificates.key)}
        config.write_text(f"{config.read_text()}tls {json.dumps(files)}\n")
        return options

    def start(self) -> None:
        # The stream is added by the test, which knows how to talk to it.
        super(NatsServer, self).start()


@pytest.fixture
def certificates(tmp_path) -> Certificates:
    return make_certificates(tmp_path)


@pytest.fixture
def redis(tmp_path, certificates) -> Iterator[SecureRedis]:
    server = SecureRedis(tmp_path)
    server.certificates = certificates
    server.start()
    yield server
    server.stop()


@pytest.fixture
def nats(tmp_path, certificates) -> Iterator[SecureNats]:
    server = SecureNats(tmp_path)
    server.certificates = certificates
    server.start()
    yield server
    server.stop()


async def test_redis_whose_authority_is_known_is_talked_to(redis, certificates):
    url = redis.url.replace("redis://", "rediss://")
    sink = RedisSink("place", url, options={"ssl_ca_certs": str(certificates.authority)})
    await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()


async def test_redis_whose_authority_is_not_known_is_refused(redis):
    sink = RedisSink("place", redis.url.replace("redis://", "rediss://"))
    with pytest.raises(SinkFailed, match=r"(?i)certificate") as raised:
        await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()
    assert SECRET not in str(raised.value)


async def test_nats_whose_authority_is_known_is_talked_to(nats, certificates):
    sink = NatsSink("place", nats.url, tls=ssl.create_default_context(cafile=certificates.authority))
    with pytest.raises(SinkFailed, match="no stream of JetStream"):
        await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()


async def test_nats_whose_authority_is_not_known_is_refused(nats):
    sink = NatsSink("place", nats.url, tls=ssl.create_default_context())
    with pytest.raises(SinkFailed, match=r"(?i)certificate") as raised:
        await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()
    assert SECRET not in str(raised.value)
