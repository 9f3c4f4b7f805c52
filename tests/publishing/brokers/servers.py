"""Brokers in a test's hands: started on a free port, stopped and started again, read from the beginning."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from stepfast.kernel.sinks import Sink
from stepfast.sinks import KafkaSink, NatsSink, RedisSink
from tools import brokers

SECRET = "pass-w0rd"
TOPIC = "events"
SMALL = 4_000
"""Larger messages are refused by the brokers that are told so."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A broker's process; what it has stored stays when it is stopped."""

    program = ""

    def __init__(self, folder: Path) -> None:
        brokers.install()
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        path = brokers.program(self.program)
        assert path is not None
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [path, *self.command()], stdout=log, stderr=log, cwd=self.folder, env=brokers.environment()
            )
        never = threading.Event()
        while not self.answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            never.wait(0.01)

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class RedisServer(Server):
    """Redis, which writes everything to its file before it answers."""

    program = "redis-server"

    def command(self) -> list[str]:
        port = ["--port", str(self.port), "--bind", "127.0.0.1", "--requirepass", SECRET]
        return [*port, "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(self.folder)]

    @property
    def url(self) -> str:
        return f"redis://:{SECRET}@127.0.0.1:{self.port}/0"

    def sink(self, name: str = "place", **options: Any) -> Sink:
        return RedisSink(name, self.url, **{"timeout": "5s", **options})

    def spec(self) -> dict[str, Any]:
        return {"kind": "redis", "url": self.url}

    def picky_sink(self) -> Sink:
        """One that does not take what the tenant `bitter` has to tell."""
        self._on_it(lambda client: client.set("stepfast:bitter", "no stream"))
        return self.sink(per_tenant=True)

    def grow_easy(self, picky: Sink) -> Sink:
        self._on_it(lambda client: client.delete("stepfast:bitter"))
        return picky

    async def arrived(self) -> list[dict[str, Any]]:
        def read() -> list[dict[str, Any]]:
            keys = sorted(self._on_it(lambda client: client.keys("stepfast*")))
            kinds = {key: self._on_it(lambda client, key=key: client.type(key)) for key in keys}
            streams = [key for key in keys if kinds[key] == b"stream"]
            entries = [entry for key in streams for entry in self._on_it(lambda client, key=key: client.xrange(key))]
            return [json.loads(fields[b"event"]) for _, fields in entries]

        return await asyncio.to_thread(read)

    def _on_it(self, act: Any) -> Any:
        import redis

        with redis.Redis.from_url(self.url) as client:
            return act(client)


class NatsServer(Server):
    """NATS with a stream of JetStream on disk."""

    program = "nats-server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.max_payload = 1_000_000
        self.subjects = ["stepfast.>"]

    def command(self) -> list[str]:
        config = self.folder / "nats.conf"
        config.write_text(
            f'host: "127.0.0.1"\nport: {self.port}\nmax_payload: {self.max_payload}\n'
            f'authorization {{ user: "ann", password: "{SECRET}" }}\n'
            f'jetstream {{ store_dir: "{self.folder}/jetstream" }}\n'
        )
        return ["--config", str(config)]

    def start(self) -> None:
        super().start()
        asyncio.run(self._add_stream())

    @property
    def url(self) -> str:
        return f"nats://ann:{SECRET}@127.0.0.1:{self.port}"

    def sink(self, name: str = "place", **options: Any) -> Sink:
        return NatsSink(name, self.url, **{"timeout": "5s", **options})

    def spec(self) -> dict[str, Any]:
        return {"kind": "nats", "url": self.url}

    def picky_sink(self) -> Sink:
        self.stop()
        self.max_payload = SMALL
        self._start_in_a_thread()
        return self.sink()

    def grow_easy(self, picky: Sink) -> Sink:
        self.stop()
        self.max_payload = 1_000_000
        self._start_in_a_thread()
        return picky

    def _start_in_a_thread(self) -> None:
        starting = threading.Thread(target=self.start)
        starting.start()
        starting.join()

    async def arrived(self) -> list[dict[str, Any]]:
        return [json.loads(data) for _, data, _ in await self.messages()]

    async def messages(self) -> list[tuple[str, bytes, dict[str, str]]]:
        import nats

        client = await nats.connect(self.url)
        try:
            stream = client.jetstream()
            state = (await stream.stream_info(TOPIC)).state
            found = [await stream.get_msg(TOPIC, seq) for seq in range(1, state.last_seq + 1)]
            return [(each.subject or "", each.data or b"", each.headers or {}) for each in found]
        finally:
            await client.close()

    async def _add_stream(self) -> None:
        import nats

        client = await nats.connect(self.url)
        try:
            await client.jetstream().add_stream(name=TOPIC, subjects=self.subjects)
        finally:
            await client.close()


class KafkaServer:
    """The cluster that comes with librdkafka, in a process of its own; it keeps what it has while it is down."""

    def __init__(self, folder: Path) -> None:
        self.process: subprocess.Popen[str] | None = None
        self.address = ""

    def start(self) -> None:
        if self.process is not None:
            self.tell("up")
            return
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.publishing.brokers.kafka_cluster", TOPIC],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._answer()

    def stop(self) -> None:
        self.tell("down")

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()

    def tell(self, *words: str) -> None:
        """Have the cluster do something, and wait until it has."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        assert self._answer() == "done"

    def sink(self, name: str = "place", **options: Any) -> Sink:
        return KafkaSink(name, self.address, **{"topic": TOPIC, "timeout": "5s", **options})

    def spec(self) -> dict[str, Any]:
        return {"kind": "kafka", "url": self.address}

    def picky_sink(self) -> Sink:
        return self.sink(config={"message.max.bytes": SMALL})

    def grow_easy(self, picky: Sink) -> Sink:
        return self.sink()

    async def arrived(self) -> list[dict[str, Any]]:
        return [json.loads(message.value()) for message in await asyncio.to_thread(self.messages)]

    def messages(self) -> list[Any]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "test", "enable.auto.commit": False})
        try:
            partitions = list(consumer.list_topics(TOPIC, 10).topics[TOPIC].partitions)
            ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, each), 10)[1] for each in partitions]
            consumer.assign([TopicPartition(TOPIC, each, OFFSET_BEGINNING) for each in partitions])
            found = list[Any]()
            while len(found) < sum(ends):
                message = consumer.poll(10)
                assert message is not None, "The cluster stopped answering."
                assert message.error() is None, message.error()
                found.append(message)
            return found
        finally:
            consumer.close()

    def _answer(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


Broker = RedisServer | NatsServer | KafkaServer
KINDS: dict[str, type[Broker]] = {"redis": RedisServer, "nats": NatsServer, "kafka": KafkaServer}
