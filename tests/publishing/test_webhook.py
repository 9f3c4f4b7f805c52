"""The webhook sink: what it sends, how that is signed, and whom it does not trust."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from stepfast import Invalid, Stepfast
from stepfast.engine import offering
from stepfast.engine.offering import Offering
from stepfast.kernel.durations import Instant
from stepfast.kernel.executor_errors import HttpFailed, HttpRefused, NotAllowed
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import EventView
from stepfast.sinks import WebhookSink
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin import wire

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
HERE = Allowed(networks=("127.0.0.0/8",))
EVENT = EventView(
    7, 3, RunId("a-run"), "acme", 1, "completed", Instant(1_750_000_000_123), None, None, 2, "ann", '{"n":1}'
)


class Got(NamedTuple):
    """A request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes


class Server:
    """A server that answers what it is told to."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        self.port = 0
        self.stays = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        except (UnicodeDecodeError, asyncio.IncompleteReadError):
            writer.close()
            return
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        self.got.append(Got(head[0], headers, await reader.readexactly(int(headers["Content-Length"]))))
        writer.write(self.answer)
        await writer.drain()
        if self.stays:
            await reader.read()
        writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


def sink(server: Server, allowed: Allowed | None = HERE, **options) -> WebhookSink:
    return WebhookSink(
        "hook", f"http://127.0.0.1:{server.port}/in", SECRET, allowed=allowed, now=lambda: 99.5, **options
    )


async def test_an_event_is_posted_as_a_cloud_event(server):
    await sink(server).deliver([EVENT])
    (got,) = server.got
    sent = json.loads(got.body)
    assert (got.line, got.headers["Content-Type"]) == ("POST /in HTTP/1.1", "application/cloudevents+json")
    assert (sent["specversion"], sent["id"], sent["type"]) == ("1.0", "a-run.3", "stepfast.completed")
    assert (sent["subject"], sent["tenant"], sent["time"]) == ("a-run", "acme", "2025-06-15T15:06:40.123+00:00")
    assert sent["data"]["actor"] == "ann"
    assert sent["data"]["data"] == {"n": 1}


async def test_its_signature_is_that_of_standard_webhooks(server):
    await sink(server).deliver([EVENT])
    (got,) = server.got
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    expected = base64.b64encode(hmac.digest(KEY, signed, "sha256")).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert got.headers["webhook-timestamp"] == "99"


async def test_the_same_event_has_the_same_id_when_it_comes_again(server):
    hook = sink(server)
    await hook.deliver([EVENT])
    await hook.deliver([EVENT])
    assert len({got.headers["webhook-id"] for got in server.got}) == 1


async def test_several_events_go_in_one_request_where_that_is_wanted(server):
    await sink(server, batch=10).deliver([EVENT, EVENT._replace(seq=4)])
    (got,) = server.got
    assert got.headers["Content-Type"] == "application/cloudevents-batch+json"
    assert [each["id"] for each in json.loads(got.body)] == ["a-run.3", "a-run.4"]


REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/other\r\nContent-Length: 0\r\n\r\n"


async def test_a_redirect_is_not_followed(server):
    server.answer = REDIRECT
    with pytest.raises(HttpRefused, match="answered 302"):
        await sink(server).deliver([EVENT])
    assert len(server.got) == 1


async def test_an_answer_that_tells_of_a_fault_is_not_taken_for_a_delivery(server):
    server.answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    with pytest.raises(HttpFailed, match="answered 500"):
        await sink(server).deliver([EVENT])


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_an_answer_for_whatever_is_sent_tells_that_the_sink_is_away(server, status):
    server.answer = f"HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n".encode()
    offered = await Offering(sink(server)).offer([EVENT])
    assert (offered.is_away, offered.may_be_poison) == (True, False)
    assert offered.refused[0].error == f"E-SINK-002 SinkAway: 127.0.0.1 answered {status}."


async def test_an_answer_to_what_was_sent_may_be_about_it(server):
    server.answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    offered = await Offering(sink(server)).offer([EVENT])
    assert (offered.is_away, offered.may_be_poison) == (True, True)


async def test_a_private_address_is_refused_unless_it_is_allowed(server):
    with pytest.raises(NotAllowed, match="no public address"):
        await sink(server, allowed=None).deliver([EVENT])
    assert server.got == []


async def test_an_app_allows_what_its_settings_do(server, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPFAST_HTTP_PRIVATE", "127.0.0.0/8")
    hook = sink(server, allowed=None)
    Stepfast(f"sqlite:///{tmp_path}/x.db", workflows=[], sinks=[hook])
    await hook.deliver([EVENT])
    assert len(server.got) == 1


async def test_what_is_said_for_a_sink_counts_more_than_the_settings(server, monkeypatch, tmp_path):
    monkeypatch.setenv("STEPFAST_HTTP_PRIVATE", "127.0.0.0/8")
    hook = sink(server, allowed=Allowed(networks=("10.0.0.0/8",)))
    Stepfast(f"sqlite:///{tmp_path}/x.db", workflows=[], sinks=[hook])
    with pytest.raises(NotAllowed):
        await hook.deliver([EVENT])


async def test_a_server_that_is_not_there_is_a_sink_that_is_away(server):
    hook = WebhookSink("hook", "http://127.0.0.1:9/", SECRET, allowed=HERE)
    offered = await Offering(hook).offer([EVENT])
    assert (offered.is_away, offered.may_be_poison) == (True, False)


async def test_an_answer_without_end_counts_by_its_first_line(server):
    server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nand so on"
    await sink(server).deliver([EVENT])
    assert len(server.got) == 1


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nSlow: "], ids=["silent", "slow", "amid"])
async def test_a_server_that_never_comes_to_an_end_is_a_sink_that_is_away(server, answer, monkeypatch):
    monkeypatch.setattr(offering, "DELIVERY_S", 0.05)
    server.answer, server.stays = answer, True
    offered = await Offering(sink(server)).offer([EVENT])
    assert (offered.is_away, offered.refused[0].error) == (
        True,
        "E-SINK-001 TimeoutError: It did not answer within 0.05 s.",
    )


async def test_what_a_server_took_and_did_not_say_so_comes_again_under_the_same_id(server):
    hook = Offering(sink(server))
    server.answer = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    assert (await hook.offer([EVENT])).is_away
    server.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert (await hook.offer([EVENT])).taken == 1
    assert {got.headers["webhook-id"] for got in server.got} == {"a-run.3"}


async def test_a_server_that_does_not_speak_tls_is_not_given_anything(server, monkeypatch):
    monkeypatch.setattr(wire, "HANDSHAKE_S", 0.1)
    hook = WebhookSink("hook", f"https://127.0.0.1:{server.port}/in", SECRET, allowed=HERE)
    with pytest.raises(HttpFailed, match="cannot be reached"):
        await hook.deliver([EVENT])
    assert server.got == []


@pytest.mark.parametrize("secret", ["", "plain", "whsec_", "whsec_!!!", "whsec_c2hvcnQ=", "whsec_\u00e4\U0001f512"])
def test_a_secret_that_is_none_is_refused_without_being_told(secret):
    with pytest.raises(Invalid) as refused:
        WebhookSink("hook", "https://example.org/", secret)
    told = secret.removeprefix("whsec_")
    assert not told or told not in str(refused.value)


def test_events_are_chosen_by_type_and_tenant(server):
    hook = sink(server, types=["completed"], tenants=["acme"])
    assert hook.wants(EVENT)
    assert not hook.wants(EVENT._replace(type="queued"))
    assert not hook.wants(EVENT._replace(tenant="other"))


@pytest.mark.parametrize("secret", [None, b"whsec_", 7])
def test_a_secret_that_is_no_text_is_refused(secret):
    with pytest.raises(Invalid):
        WebhookSink("hook", "https://example.org/", secret)


@pytest.mark.parametrize("url", [None, b"https://example.org/", 7])
def test_an_address_that_is_no_text_is_refused(url):
    with pytest.raises(Invalid, match="no text"):
        WebhookSink("hook", url, SECRET)


@pytest.mark.parametrize("batch", [0, -1, True, 1.5])
def test_a_batch_that_would_post_nothing_is_refused(batch):
    with pytest.raises(Invalid, match="batch"):
        WebhookSink("hook", "https://example.org/", SECRET, batch=batch)


@pytest.mark.parametrize(
    ("status", "code"), [("500 Oops", "E-EXE-004"), ("302 Found", "E-EXE-005"), ("400 No", "E-EXE-005")]
)
async def test_what_a_server_answers_is_kept_with_its_code(server, status, code):
    server.answer = f"HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".encode()
    offered = await Offering(sink(server)).offer([EVENT])
    assert offered.refused[0].error.split()[0] == code


async def test_a_private_address_is_kept_with_its_code(server):
    offered = await Offering(sink(server, allowed=None)).offer([EVENT])
    assert (offered.refused[0].error.split()[0], server.got) == ("E-EXE-003", [])
