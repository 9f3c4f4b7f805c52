"""Sinks on Redis, NATS and Kafka: what arrives there, in which order, and what is said when it does not."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import SinkFailed
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import Sink
from stepfast.kernel.views import EventView
from tests.publishing.brokers.servers import SECRET

RUNS = [f"0198a000-0000-7000-8000-00000000000{number}" for number in range(4)]


def event(position: int, run: str, seq: int, type_: str = "recorded", tenant: str = "acme", data: str = '{"n":1}'):
    moment = Instant(1_750_000_000_123)
    return EventView(position, seq, RunId(run), tenant, 1, type_, moment, "ship", 1, 2, "ann", data)


def interleaved(count: int) -> list[EventView]:
    """So many events of each run, mixed."""
    return [
        event(seq * len(RUNS) + number, run, seq) for seq in range(1, count + 1) for number, run in enumerate(RUNS, 1)
    ]


def order(arrived, run: str) -> list[int]:
    return [int(each["sequence"]) for each in arrived if each["subject"] == run]


@pytest.fixture
async def sink(broker):
    sink = broker.sink()
    yield sink
    await sink.close()


async def test_events_are_there_in_order_when_a_delivery_returns(broker, sink):
    await sink.deliver(interleaved(50))
    arrived = await broker.arrived()
    assert [order(arrived, run) for run in RUNS] == [list(range(1, 51))] * len(RUNS)


async def test_an_event_arrives_as_a_cloud_event(broker, sink):
    await sink.deliver([event(7, RUNS[0], 3)])
    (arrived,) = await broker.arrived()
    assert (arrived["specversion"], arrived["id"], arrived["type"]) == ("1.0", f"{RUNS[0]}.3", "stepfast.recorded")
    assert (arrived["subject"], arrived["time"]) == (RUNS[0], "2025-06-15T15:06:40.123+00:00")
    assert (arrived["data"]["step"], arrived["data"]["data"]) == ("ship", {"n": 1})


async def test_deliveries_at_once_do_not_hinder_each_other(broker, sink):
    await asyncio.gather(*(sink.deliver([event(n, run, n) for n in range(1, 21)]) for run in RUNS))
    arrived = await broker.arrived()
    assert [order(arrived, run) for run in RUNS] == [list(range(1, 21))] * len(RUNS)


async def test_a_broker_that_is_away_is_an_error_and_back_again_none(broker):
    sink = broker.sink(timeout="1s", connect_timeout="1s")
    await delivered(sink, [event(1, RUNS[0], 1)])
    await asyncio.to_thread(broker.stop)
    with pytest.raises(SinkFailed, match="did not take the events"):
        await sink.deliver([event(2, RUNS[0], 2)])
    await asyncio.to_thread(broker.start)
    await delivered(sink, [event(2, RUNS[0], 2)])
    await sink.close()
    assert list(dict.fromkeys(order(await broker.arrived(), RUNS[0]))) == [1, 2]


async def test_a_broker_that_hangs_is_an_error_in_time_and_none_when_it_goes_on(broker):
    sink = broker.sink(timeout="1s", connect_timeout="1s")
    await delivered(sink, [event(1, RUNS[0], 1)])
    broker.process.send_signal(signal.SIGSTOP)
    # All of its threads have stopped when the system says so.
    await asyncio.to_thread(os.waitpid, broker.process.pid, os.WUNTRACED)
    try:
        with pytest.raises(SinkFailed, match="did not take the events"):
            await sink.deliver([event(2, RUNS[0], 2), event(3, RUNS[0], 3)])
    finally:
        broker.process.send_signal(signal.SIGCONT)
    await delivered(sink, [event(2, RUNS[0], 2), event(3, RUNS[0], 3)])
    await sink.close()
    assert list(dict.fromkeys(order(await broker.arrived(), RUNS[0]))) == [1, 2, 3]


async def delivered(sink: Sink, events: list[EventView]) -> None:
    """Offer events until they are taken, as the engine does."""
    while True:
        try:
            return await sink.deliver(events)
        except SinkFailed:
            continue


async def test_a_sink_that_was_closed_opens_again(broker, sink):
    await sink.open()
    await sink.close()
    await sink.close()
    await sink.open()
    await sink.deliver([event(1, RUNS[0], 1)])
    assert order(await broker.arrived(), RUNS[0]) == [1]


async def test_tenants_and_types_of_any_name_arrive(broker, sink):
    tenants = ["a.b", "a b", "*", ">", "a\nb", "\N{PILE OF POO}" * 300, "%", ""]
    types = ["x.y", "x y", "*", ">", "x\r\nNats-Msg-Id: 1"]
    events = [event(n, RUNS[0], n, types[n % 5], tenant) for n, tenant in enumerate(tenants, 1)]
    await sink.deliver(events)
    told = [(each["tenant"], each["type"]) for each in await broker.arrived()]
    assert told == [(each.tenant, f"stepfast.{each.type}") for each in events]


async def test_redis_keeps_a_stream_for_each_tenant_if_it_is_to(redis_server):
    sink = redis_server.sink(per_tenant=True)
    await sink.deliver([event(1, RUNS[0], 1, tenant="a"), event(2, RUNS[1], 1, tenant="a:b")])
    keys = await asyncio.to_thread(redis_server._on_it, lambda client: sorted(client.keys("*")))
    await sink.close()
    assert keys == [b"stepfast:a", b"stepfast:a%3Ab"]


async def test_redis_takes_all_events_of_a_delivery_or_none(redis_server):
    sink = redis_server.picky_sink()
    with pytest.raises(SinkFailed, match="WRONGTYPE"):
        await sink.deliver([event(1, RUNS[0], 1, tenant="bitter"), event(2, RUNS[0], 2, tenant="bitter")])
    await sink.close()
    assert await redis_server.arrived() == []


async def test_redis_trims_a_stream_to_about_its_length(redis_server):
    sink = redis_server.sink(maxlen=100)
    for page in range(10):
        await sink.deliver([event(n, RUNS[0], n) for n in range(page * 100 + 1, page * 100 + 101)])
    await sink.close()
    assert len(await redis_server.arrived()) < 500


async def test_jetstream_drops_what_comes_twice(nats_server):
    sink = nats_server.sink()
    for _ in range(2):
        await sink.deliver([event(1, RUNS[0], 1), event(2, RUNS[0], 2)])
    await sink.close()
    assert order(await nats_server.arrived(), RUNS[0]) == [1, 2]


async def test_two_sinks_on_one_stream_are_two_messages(nats_server):
    for name in ("one", "two"):
        sink = nats_server.sink(name, subject=f"stepfast.{name}.{{type}}")
        await sink.deliver([event(1, RUNS[0], 1)])
        await sink.close()
    subjects = [subject for subject, _, _ in await nats_server.messages()]
    assert subjects == ["stepfast.one.recorded", "stepfast.two.recorded"]


async def test_a_subject_that_no_stream_has_is_named(nats_server):
    sink = nats_server.sink(subject="elsewhere.{type}")
    with pytest.raises(SinkFailed, match=r"no stream of JetStream has the subject elsewhere\.recorded"):
        await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()


async def test_events_that_would_go_to_another_stream_are_refused(nats_server):
    sink = nats_server.sink(stream="another")
    with pytest.raises(SinkFailed, match="expected stream"):
        await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()


async def test_a_server_of_several_that_is_there_is_enough(nats_server):
    from stepfast.sinks import NatsSink

    sink = NatsSink("place", ["nats://127.0.0.1:1", nats_server.url])
    await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()
    assert order(await nats_server.arrived(), RUNS[0]) == [1]


async def test_the_events_of_a_run_are_in_one_partition_of_kafka_with_it_as_key(kafka_server):
    sink = kafka_server.sink()
    await sink.deliver(interleaved(5))
    await sink.close()
    messages = await asyncio.to_thread(kafka_server.messages)
    places = {run: {each.partition() for each in messages if each.key() == run.encode()} for run in RUNS}
    assert [len(partitions) for partitions in places.values()] == [1] * len(RUNS)
    assert dict(messages[0].headers())["content-type"] == b"application/cloudevents+json"


NOT_ENOUGH_REPLICAS, TOO_LARGE, UNKNOWN_TOPIC, NOT_ALLOWED = 19, 10, 3, 29


async def test_a_message_that_kafka_refuses_takes_those_behind_it_along(kafka_server):
    sink = kafka_server.sink()
    kafka_server.tell("refuse", str(TOO_LARGE))
    with pytest.raises(SinkFailed, match="too large"):
        await sink.deliver([event(n, RUNS[0], n) for n in range(1, 11)])
    assert await kafka_server.arrived() == [], "No event is there before the first of its run."
    await sink.deliver([event(n, RUNS[0], n) for n in range(1, 11)])
    await sink.close()
    assert order(await kafka_server.arrived(), RUNS[0]) == list(range(1, 11))


@pytest.mark.parametrize(("code", "word"), [(UNKNOWN_TOPIC, "topic"), (NOT_ALLOWED, "authorization")])
async def test_a_topic_that_is_missing_or_closed_to_us_is_said(kafka_server, code, word):
    sink = kafka_server.sink()
    kafka_server.tell("error", str(code))
    with pytest.raises(SinkFailed, match=f"(?i){word}"):
        await sink.deliver([event(1, RUNS[0], 1)])
    kafka_server.tell("error", "0")
    await sink.deliver([event(1, RUNS[0], 1)])
    await sink.close()
    assert order(await kafka_server.arrived(), RUNS[0]) == [1]


async def test_a_wrong_password_is_said_and_not_shown(redis_server, nats_server):
    from stepfast.sinks import NatsSink, RedisSink

    wrong: list[Sink] = [
        RedisSink("place", redis_server.url.replace(SECRET, "hunter2")),
        NatsSink("place", nats_server.url.replace(SECRET, "hunter2")),
    ]
    for sink in wrong:
        with pytest.raises(SinkFailed, match=r"(?i)password|authorization") as raised:
            await sink.deliver([event(1, RUNS[0], 1)])
        await sink.close()
        assert "hunter2" not in str(raised.value)
