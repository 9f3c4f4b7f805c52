"""Sinks on brokers before anything is sent: what they are given, what is refused, and that no secret is ever shown."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from stepfast import Invalid, Stepfast
from stepfast.kernel.errors import SinkFailed
from stepfast.kernel.sinks import Sink
from stepfast.sinks import KafkaSink, NatsSink, RedisSink
from stepfast.sinks.broker import token
from stepfast.sinks.urls import sink_at
from tests.executors.packages import write_package
from tests.publishing.brokers.servers import free_port
from tests.publishing.brokers.test_delivering import RUNS, event
from tests.support.workflows import say

HIDDEN = "hunter2"


@pytest.mark.parametrize(
    ("kind", "given", "extra"),
    [
        (RedisSink, ("redis://h/0",), "redis"),
        (NatsSink, ("nats://h",), "nats"),
        (KafkaSink, ("h:9092", "t"), "kafka"),
    ],
)
def test_a_client_that_is_not_installed_is_named_with_how_to_install_it(monkeypatch, kind, given, extra):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Invalid, match=rf"pip install 'stepfast\[{extra}\]'"):
        kind("place", *given)


@pytest.mark.parametrize("url", ["", "http://h", f"redis://:{HIDDEN}#@h:x", f"redis://:{HIDDEN}@h:port", "redis://"])
def test_a_url_that_cannot_be_read_is_refused_and_not_repeated(url):
    with pytest.raises(Invalid, match="begins with redis://") as raised:
        RedisSink("place", url)
    assert HIDDEN not in str(raised.value)


@pytest.mark.parametrize("subject", ["a..b", "a.*", "a.>", "a b", ".a", "{tenant}.{secret}", "{", "{0}", "{tenant.x}"])
def test_a_subject_that_no_server_would_take_is_refused(subject):
    with pytest.raises(Invalid, match="subject is"):
        NatsSink("place", "nats://h", subject=subject)


def test_no_servers_are_refused():
    with pytest.raises(Invalid, match="has no servers"):
        NatsSink("place", [])


@pytest.mark.parametrize("key", ["acks", "enable.idempotence", "bootstrap.servers"])
def test_what_the_order_of_events_rests_on_cannot_be_set_for_kafka(key):
    with pytest.raises(Invalid, match=f"has {key}, which the sink sets itself"):
        KafkaSink("place", "h:9092", "t", config={key: "1"})


def test_a_user_of_kafka_without_a_password_is_refused():
    with pytest.raises(Invalid, match="Give both, or neither"):
        KafkaSink("place", "h:9092", "t", user="ann")


async def test_a_setting_that_kafka_does_not_know_is_said():
    sink = KafkaSink("place", "h:9092", "t", config={"no.such": "1"})
    with pytest.raises(SinkFailed, match=r"no\.such"):
        await sink.open()


def nowhere() -> list[Sink]:
    here = f"127.0.0.1:{free_port()}"
    return [
        RedisSink("place", f"redis://ann:{HIDDEN}@{here}/0", timeout="1s", connect_timeout="1s"),
        NatsSink("place", f"nats://ann:{HIDDEN}@{here}", timeout="1s", connect_timeout="1s"),
        NatsSink("place", f"nats://{here}", token=HIDDEN, timeout="1s", connect_timeout="1s"),
        KafkaSink("place", here, "t", user="ann", password=HIDDEN, timeout="1s", connect_timeout="1s"),
        sink_at(f"kafka://ann:{HIDDEN}@{here}/t?timeout=1s&connect_timeout=1s&mechanism=PLAIN"),
        sink_at(f"nats://ann:{HIDDEN}@{here}?timeout=1s&connect_timeout=1s"),
    ]


async def test_no_error_and_no_repr_shows_a_password():
    for sink in nowhere():
        for act in (sink.open(), sink.deliver([event(1, RUNS[0], 1)])):
            with pytest.raises(SinkFailed, match=r"at 127\.0\.0\.1") as raised:
                await act
            assert HIDDEN not in f"{raised.value} {raised.value!r} {sink!r}"
        await sink.close()


def test_tokens_of_different_texts_differ_and_have_no_meaning_in_a_subject():
    texts = [
        "",
        "%",
        "a",
        "A",
        "a.b",
        "a%2Eb",
        "a b",
        "*",
        ">",
        "a\nb",
        "x" * 1_000,
        "x" * 999 + "y",
        "\N{PILE OF POO}" * 300,
    ]
    tokens = [token(text) for text in texts]
    assert len(set(tokens)) == len(texts)
    assert all(0 < len(each) < 250 and not set(each) & set(".*> \r\n") for each in tokens)


@pytest.mark.parametrize(
    ("url", "kind", "name"),
    [
        ("redis://h/0?stream=events&maxlen=10&per_tenant=true", RedisSink, "redis"),
        ("rediss://:pass@h:6380/0?name=billing&ssl_cert_reqs=none", RedisSink, "billing"),
        ("nats://a:1,b:2/?subject=x.{type}&stream=s", NatsSink, "nats"),
        ("kafka://a:1,b:2/topic?types=queued,completed&tls=true", KafkaSink, "kafka"),
    ],
)
def test_a_url_stands_for_a_sink(url, kind, name):
    sink = sink_at(url)
    assert (type(sink), sink.name) == (kind, name)


def test_the_options_in_a_url_count():
    sink = sink_at("log:?name=all&types=queued,completed&tenants=acme")
    kinds = [("queued", "acme"), ("failed", "acme"), ("queued", "bolt")]
    assert [sink.wants(event(1, RUNS[0], 1, type_, tenant)) for type_, tenant in kinds] == [True, False, False]


@pytest.mark.parametrize(
    ("url", "word"),
    [
        (f"ftp://ann:{HIDDEN}@h", "No sink is known for URLs that begin with 'ftp'"),
        (f"kafka://ann:{HIDDEN}@h:1", "has no topic"),
        (f"nats://ann:{HIDDEN}@h?colour=red", "has colour, which is none of"),
        (f"redis://ann:{HIDDEN}@h/0?maxlen=many", "it is a whole number"),
        (f"redis://ann:{HIDDEN}@h/0?per_tenant=yes", "it is true or false"),
        (f"redis://ann:{HIDDEN}@h/0?stream", "cannot be read"),
        ("", "No sink is known"),
    ],
)
def test_a_url_that_stands_for_nothing_is_refused_and_not_repeated(url, word):
    with pytest.raises(Invalid, match=word) as raised:
        sink_at(url)
    assert HIDDEN not in str(raised.value)


def test_sinks_are_set_outside_of_code(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPFAST_SINKS", f"kafka://a:1,b:2/topic,redis://:{HIDDEN}@h/0 log:?name=lines")
    app = Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say], sinks=["nats://h"])
    assert [each.sink.name for each in app._subscriptions] == ["nats", "kafka", "redis", "lines"]


def test_sinks_that_are_set_wrongly_are_refused_without_being_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("STEPFAST_SINKS", HIDDEN)
    with pytest.raises(Invalid, match="STEPFAST_SINKS is not shown here") as raised:
        Stepfast(f"sqlite:///{tmp_path}/app.db", workflows=[say])
    assert HIDDEN not in str(raised.value)


MODULE = """
from stepfast.sinks import LogSink

def make(url):
    return LogSink(url.removeprefix("lines://"))
"""


def test_a_package_brings_sinks_for_urls_of_its_own(monkeypatch, tmp_path):
    write_package(tmp_path, "acme_lines", "[stepfast.sinks]\nlines = acme_lines:make\n", acme_lines=MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert sink_at("lines://here").name == "here"


def test_a_package_that_cannot_be_imported_is_said(monkeypatch, tmp_path):
    write_package(tmp_path, "acme_torn", "[stepfast.sinks]\ntorn = acme_torn:make\n", acme_torn="import nothing_such")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(Invalid, match=r"acme_torn .* cannot be used: .*nothing_such"):
        sink_at("torn://here")
