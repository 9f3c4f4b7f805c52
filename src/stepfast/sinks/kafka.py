"""Kafka as a sink: each event is a message of a topic, those of a run in one partition."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import Invalid
from stepfast.kernel.texts import check_text, check_texts
from stepfast.kernel.views import EventView
from stepfast.sinks.broker import CONNECT_TIMEOUT, TIMEOUT, BrokerSink, waves
from stepfast.sinks.cloudevents import MEDIA_TYPE, attributes, encoded

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

POLL_S = 0.1
Failure: TypeAlias = "KafkaError | BufferError | RuntimeError"
SECRET_SETTINGS = ("sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.client.secret")

# Whatever it would write there comes back as an error as well.
SILENT = logging.getLogger("stepfast.kafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


class KafkaSink(BrokerSink):
    """Produces each event to a topic, with its run as the key, and waits until all replicas in sync have it.

    `config` has further settings of librdkafka: `security.protocol`, `ssl.ca.location`, `message.max.bytes` and others.
    """

    broker = "Kafka"
    package, extra = "confluent_kafka", "kafka"

    def __init__(
        self,
        name: str,
        brokers: str | Sequence[str],
        topic: str,
        *,
        types: Iterable[str] | None = None,
        tenants: Iterable[str] | None = None,
        timeout: Duration = TIMEOUT,
        connect_timeout: Duration = CONNECT_TIMEOUT,
        user: str | None = None,
        password: str | None = None,
        mechanism: str = "SCRAM-SHA-512",
        tls: bool = False,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        where = ",".join(check_texts("brokers", [brokers] if isinstance(brokers, str) else brokers))
        if not where:
            raise Invalid("A sink for Kafka has no brokers. Give one, as in host:9092.")
        given = _checked_config(config)
        super().__init__(
            name,
            where,
            types=types,
            tenants=tenants,
            timeout=timeout,
            connect_timeout=connect_timeout,
            secrets=[password, *(str(given[key]) for key in SECRET_SETTINGS if key in given)],
        )
        self._topic = check_text("topic", topic)
        self._config = {**self._limits(), **_access(user, password, mechanism, tls), **given, **_promises(where)}
        self._line: _Line | None = None

    async def open(self) -> None:
        """See that a broker is there and lets us in; whether the topic is there is seen when something is sent."""
        from confluent_kafka import KafkaException

        line = self._ready()
        try:
            await asyncio.to_thread(line.producer.list_topics, self._topic, self._connect_s)
        except KafkaException as error:
            self._give_up(line)
            raise self._failed(line.told(error.args[0])) from error

    async def deliver(self, events: Sequence[EventView]) -> None:
        """Produce them; the next event of a run when the one before it is safe."""
        line = self._ready()
        try:
            async with asyncio.timeout(self._timeout_s):
                for wave in waves(events):
                    if (error := await self._produce(line.producer, wave)) is not None:
                        self._give_up(line, error)
                        raise self._failed(line.told(error))
        except TimeoutError:
            self._give_up(line)
            raise self._failed(line.told(None) or f"no answer within {self._timeout_s:g} s.") from None
        line.trouble = None

    async def close(self) -> None:
        """Let go of the brokers."""
        line, self._line = self._line, None
        if line is not None:
            line.end()
            await asyncio.to_thread(line.thread.join, self._connect_s)

    async def _produce(self, producer: Producer, events: Sequence[EventView]) -> Failure | None:
        """Hand events in and wait for the answers; the first that is an error."""
        from confluent_kafka import KafkaException

        batch = _Batch(asyncio.get_running_loop(), len(events))
        for event in events:
            try:
                producer.produce(
                    self._topic,
                    encoded(event),
                    event.run_id.encode(),
                    headers=_headers(event),
                    on_delivery=batch.report,
                )
            except KafkaException as error:
                batch.answer(error.args[0])
            except (BufferError, RuntimeError) as error:
                # There is no room for it, or another delivery has given the producer up.
                batch.answer(error)
        return await batch.answered

    def _ready(self) -> _Line:
        from confluent_kafka import KafkaException

        if self._line is not None and self._line.is_dead:
            self._give_up(self._line)
        if self._line is None:
            try:
                self._line = _Line(self._config)
            except KafkaException as error:
                raise self._failed(error.args[0].str()) from error
        return self._line

    def _give_up(self, line: _Line, error: Failure | None = None) -> None:
        """Begin anew, unless a message was too large: what is on its way and what is known of topics is thrown away."""
        if _is_too_large(error):
            return
        if self._line is line:
            self._line = None
        line.end()

    def _limits(self) -> dict[str, Any]:
        timeout_ms, connect_ms = round(self._timeout_s * 1_000), round(self._connect_s * 1_000)
        return {
            "message.timeout.ms": timeout_ms,
            "request.timeout.ms": timeout_ms,
            "socket.timeout.ms": max(timeout_ms, 1_000),
            "socket.connection.setup.timeout.ms": max(connect_ms, 1_000),
            # How long a topic that is not there may still be on its way, and how soon a broker is tried again.
            "topic.metadata.propagation.max.ms": connect_ms // 2,
            "reconnect.backoff.max.ms": 1_000,
            # Each message is waited for: there is nothing to gain by collecting more.
            "linger.ms": 0,
            # As the clients of other languages do it: the events of a run are in one partition whoever writes.
            "partitioner": "murmur2_random",
        }


class _Line:
    """A producer with the thread that hears for it; what the brokers last complained of is kept for people."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        from confluent_kafka import Producer

        self.trouble: str | None = None
        self.is_dead = False
        self.producer = Producer({**config, "error_cb": self._complain}, logger=SILENT)
        self._is_over = threading.Event()
        self.thread = threading.Thread(target=self._hear, name="stepfast-kafka", daemon=True)
        self.thread.start()

    def end(self) -> None:
        self._is_over.set()

    def told(self, error: Failure | None) -> str:
        """What went wrong, and what may be behind it."""
        what = "" if error is None else str(error) if isinstance(error, Exception) else error.str()
        return ": ".join(each for each in (what, self.trouble) if each)

    def _hear(self) -> None:
        while not self._is_over.is_set():
            self._poll(POLL_S)
        self.producer.purge()
        self._poll(0)
        self.producer.close()

    def _poll(self, patience_s: float) -> None:
        from confluent_kafka import KafkaException

        try:
            self.producer.poll(patience_s)
        except KafkaException as error:
            # It is beyond help; each of its messages hears so too.
            self.is_dead = True
            self._complain(error.args[0])
            self._is_over.wait(patience_s)

    def _complain(self, error: KafkaError) -> None:
        self.trouble = error.str()


class _Batch:
    """Messages that are under way; answered when each of them is, with the first error."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._open = count
        self._error: Failure | None = None
        self.answered: asyncio.Future[Failure | None] = loop.create_future()

    def report(self, error: KafkaError | None, message: Message) -> None:
        self.answer(error)

    def answer(self, error: Failure | None) -> None:
        with self._lock:
            self._open -= 1
            self._error = self._error or error
            is_over = self._open == 0
        if is_over and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        if not self.answered.done():
            self.answered.set_result(self._error)


def _is_too_large(error: Failure | None) -> bool:
    from confluent_kafka import KafkaError as Errors

    return isinstance(error, Errors) and error.code() == Errors.MSG_SIZE_TOO_LARGE


def _headers(event: EventView) -> list[tuple[str, str | bytes | None]]:
    return [
        ("content-type", MEDIA_TYPE.encode()),
        *((f"ce_{key}", value.encode()) for key, value in attributes(event).items()),
    ]


def _checked_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(config or {})
    # What the order and the safety of events rest on is not for sale.
    for key in _promises(""):
        if key in given:
            raise Invalid(f"config of a sink for Kafka has {key}, which the sink sets itself. Leave it out.")
    return given


def _access(user: str | None, password: str | None, mechanism: str, tls: bool) -> dict[str, Any]:
    secured = "SSL" if tls else "PLAINTEXT"
    if user is None and password is None:
        return {"security.protocol": secured}
    if user is None or password is None:
        raise Invalid("A sink for Kafka has a user or a password and not the other. Give both, or neither.")
    names = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    return {"security.protocol": f"SASL_{secured}", **names}


def _promises(where: str) -> dict[str, Any]:
    return {"bootstrap.servers": where, "acks": "all", "enable.idempotence": True}
