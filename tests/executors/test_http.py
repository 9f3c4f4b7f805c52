"""`http.call`: a request to a server, within limits, and never to an address that is not for everybody."""

from __future__ import annotations

import asyncio
import json
import ssl
from pathlib import Path

import pytest

from stepfast import HttpFailed, HttpRefused, Invalid, NotAllowed, StepTimeout
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin import addresses, http, wire
from stepfast.workflows.executors.builtin.http import HttpCall, HttpConfig
from stepfast.workflows.step_calls import NEVER_RETRIED
from tests.executors.servers import Server, answer, serving

CALL = HttpCall(Allowed(networks=("127.0.0.1",)))
JSON = "application/json; charset=utf-8"


async def got(raw: bytes, method: str = "GET", **options):
    """What the executor makes of an answer."""
    async with serving({"/": raw}) as server:
        return await CALL.execute(server.url(), method, **options)


async def test_json_is_read_where_the_server_says_that_it_is():
    assert await got(answer(b'{"a": [1, null]}', Content_Type=JSON)) == {
        "status": 200,
        "headers": {"content-length": "16", "content-type": "application/json; charset=utf-8"},
        "json": {"a": [1, None]},
    }


@pytest.mark.parametrize("body", [b"{broken", b"NaN", b"[" * 100_000], ids=["broken", "a number that is none", "deep"])
async def test_json_that_is_none_is_text(body):
    assert (await got(answer(body, Content_Type=JSON)))["text"] == body.decode()


async def test_anything_else_is_text():
    assert (await got(answer("grün".encode(), Content_Type="text/plain")))["text"] == "grün"


async def test_json_is_sent_with_its_type():
    async with serving({"/it": answer()}) as server:
        await CALL.execute(server.url("/it"), "post", {"X-Key": "1"}, json={"a": 1})
    head, _, body = server.requests[0].partition("\r\n\r\n")
    lines = head.split("\r\n")
    assert (lines[0], json.loads(body)) == ("POST /it HTTP/1.1", {"a": 1})
    assert {"X-Key: 1", "Content-Type: application/json", f"Host: 127.0.0.1:{server.port}"} <= set(lines)


async def test_a_text_is_sent_as_it_is():
    async with serving({"/?q=%C3%BC": answer()}) as server:
        await CALL.execute(server.url("/?q=ü"), "PUT", body="words")
    assert server.requests[0].endswith("\r\n\r\nwords")


WIRE = {
    "parts": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n",
    "an end by closing": b"HTTP/1.0 200 OK\r\n\r\nabcde",
    "a word in between": b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + answer(b"abcde"),
    "bare line ends": b"HTTP/1.1 200\nContent-Length: 5\n\nabcde",
}


@pytest.mark.parametrize("raw", WIRE.values(), ids=WIRE)
async def test_answers_come_in_several_forms(raw):
    assert (await got(raw))["text"] == "abcde"


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_an_answer_without_content_is_not_waited_for(method, status):
    assert (await got(answer(status=status, Content_Length="5"), method))["status"] == status


async def test_headers_of_one_name_are_joined():
    raw = b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nset-cookie: b\r\nContent-Length: 0\r\n\r\n"
    assert (await got(raw))["headers"]["set-cookie"] == "a, b"


GARBAGE = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "nothing": b"",
    "half of the headers": b"HTTP/1.1 200 OK\r\nA: b",
    "half of the content": answer(b"abc", Content_Length="9"),
    "a length that is none": answer(b"abc", Content_Length="-3"),
    "a part that is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a part that is longer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n0\r\n\r\n",
    "a header without a name": b"HTTP/1.1 200 OK\r\nnothing\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching\r\n\r\n",
    "an endless line": b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000,
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"A: " * 1 + b"x\r\n" + b"B: y\r\n" * 50_000,
}


@pytest.mark.parametrize("raw", GARBAGE.values(), ids=GARBAGE)
async def test_what_is_no_answer_is_a_failure_that_may_be_tried_again(raw):
    with pytest.raises(HttpFailed) as failed:
        await got(raw)
    assert not isinstance(failed.value, NEVER_RETRIED)


LARGE = {
    "a length": answer(Content_Length="1001"),
    "parts": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n",
    "no end": b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1_001,
}


@pytest.mark.parametrize("raw", LARGE.values(), ids=LARGE)
async def test_an_answer_that_is_too_large_is_refused(raw):
    with pytest.raises(HttpRefused, match="more than 1,000 bytes"):
        await got(raw, config=HttpConfig(max_response_bytes=1_000))


@pytest.mark.parametrize(("status", "is_final"), [(400, True), (404, True), (429, False), (500, False), (503, False)])
async def test_a_bad_status_is_a_failure_and_tried_again_where_that_may_help(status, is_final):
    with pytest.raises(HttpFailed, match=f"answered with {status}: sorry") as failed:
        await got(answer(b"sorry", status))
    assert (failed.value.status, isinstance(failed.value, NEVER_RETRIED)) == (status, is_final)


async def test_a_server_that_does_not_answer_is_given_up():
    async with serving({"/": None}) as server:
        with pytest.raises(StepTimeout, match=r"within 0\.05 s"):
            await CALL.execute(server.url(), config=HttpConfig(timeout="50ms"))


async def test_a_server_that_is_not_there_may_be_tried_again():
    async with serving({}) as server:
        url = server.url()
    with pytest.raises(HttpFailed, match="cannot be reached"):
        await CALL.execute(url)


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a/b",
        "//a/b",
        "http://",
        "http://a:b/",
        "http://a b/",
        "http://u:p@a/",
        "x",
        "http://[::",
    ],
)
async def test_what_is_no_url_of_a_server_is_refused(url):
    with pytest.raises(Invalid):
        await CALL.execute(url)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "GET / HTTP/1.1\r\nX:"},
        {"headers": {"X\r\nY": "1"}},
        {"headers": {"X": "1\r\nY: 2"}},
        {"headers": {"Host": "other"}},
        {"json": 1, "body": "2"},
        {"config": HttpConfig(max_redirects=100)},
        {"config": HttpConfig(timeout=-1)},
    ],
    ids=repr,
)
async def test_what_cannot_be_sent_is_refused(options):
    with pytest.raises(Invalid):
        await CALL.execute("http://127.0.0.1:1/", **options)


async def test_a_redirect_is_followed():
    async with serving({"/": answer(status=302, Location="/there?a=1"), "/there?a=1": answer(b"here")}) as server:
        assert (await CALL.execute(server.url()))["text"] == "here"


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
async def test_a_redirect_says_whether_the_body_is_sent_again(status, method):
    async with serving({"/": answer(status=status, Location="/there"), "/there": answer()}) as server:
        await CALL.execute(server.url(), "POST", body="words")
    second = server.requests[1]
    assert (second.split()[0], "words" in second) == (method, method == "POST")


async def test_without_redirects_the_answer_is_as_it_is():
    answered = await got(answer(status=302, Location="/there"), config=HttpConfig(max_redirects=0))
    assert (answered["status"], answered["headers"]["location"]) == (302, "/there")


async def test_redirects_in_a_circle_come_to_an_end():
    async with serving({"/": answer(status=302, Location="/")}) as server:
        with pytest.raises(HttpRefused, match="more than 3 times"):
            await CALL.execute(server.url(), config=HttpConfig(max_redirects=3))
    assert len(server.requests) == 4


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://[::", "http://u:p@127.0.0.1/"])
async def test_a_redirect_to_nowhere_is_refused(location):
    with pytest.raises(HttpRefused, match="to nowhere"):
        await got(answer(status=302, Location=location))


async def test_what_is_meant_for_one_server_is_not_sent_to_another():
    async with serving({"/": answer()}) as other, serving({"/": answer(status=307, Location=other.url())}) as server:
        keys = {"Authorization": "secret", "Cookie": "secret", "X-Api-Key": "secret"}
        await CALL.execute(server.url(), headers={**keys, "Accept": "text/plain"})
    assert ("secret" in server.requests[0], "secret" in other.requests[0]) == (True, False)
    assert "Accept: text/plain" in other.requests[0]


async def test_what_is_sent_on_within_one_server_keeps_its_headers():
    async with serving({"/": answer(status=302, Location="/there"), "/there": answer()}) as server:
        await CALL.execute(server.url(), headers={"X-Api-Key": "secret"})
    assert "X-Api-Key: secret" in server.requests[1]


async def test_an_error_does_not_tell_the_query_of_a_url():
    async with serving({"/list?key=secret": answer(status=404)}) as server:
        with pytest.raises(HttpRefused, match=r"/list was answered with 404") as refused:
            await CALL.execute(server.url("/list?key=secret"))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["ftp://u:secret@host/?key=secret", "http://host /?key=secret", "http://[::/?key=secret"]
)
async def test_a_url_that_is_refused_is_told_without_what_may_be_a_key(url):
    with pytest.raises(Invalid) as refused:
        await CALL.execute(url)
    assert "secret" not in str(refused.value)


async def test_by_default_no_private_address_is_called():
    async with serving({"/": answer()}) as server:
        with pytest.raises(NotAllowed, match="STEPFAST_HTTP_PRIVATE"):
            await HttpCall(Allowed()).execute(server.url())
    assert server.requests == []


async def test_a_name_is_judged_by_what_it_stands_for(monkeypatch):
    async with serving({"/": answer()}) as server:
        names = Names([server.address])
        monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", names)
        with pytest.raises(NotAllowed, match="STEPFAST_HTTP_PRIVATE"):
            await HttpCall(Allowed()).execute(f"http://shop.test:{server.port}/")


async def test_a_name_that_stands_for_nothing_may_be_tried_again(monkeypatch):
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", Names([]))
    with pytest.raises(HttpFailed, match="cannot be resolved"):
        await CALL.execute("http://shop.test/")


class Names:
    """A name server that answers differently each time, and in the end always the same."""

    def __init__(self, answers: list[str]) -> None:
        self._answers = answers
        self.asked = 0

    async def __call__(self, host, port, **options):
        if not self._answers:
            raise OSError("no such name")
        address = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        return [(2, 1, 6, "", (address, port))]


# A certificate for shop.test that nobody but these tests trusts, and its key.
CERTIFICATE = Path(__file__).with_name("shop_test.pem")


async def secure_call(monkeypatch, host: str) -> str:
    """What a server that is shop.test answers over TLS, when it is called by some name."""
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", Names(["127.0.0.1"]))
    secure = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    secure.load_cert_chain(CERTIFICATE)
    async with serving({"/": answer(b"safe")}, secure=secure) as server:
        return (await CALL.execute(f"https://{host}:{server.port}/"))["text"]


@pytest.fixture
def trusting(monkeypatch):
    """As if the certificate came from somebody whom everybody trusts."""
    context = ssl.create_default_context(cafile=str(CERTIFICATE))
    monkeypatch.setattr(wire, "_context", lambda: context)


async def test_a_server_is_known_by_its_name_though_it_is_called_by_its_address(monkeypatch, trusting):
    assert await secure_call(monkeypatch, "shop.test") == "safe"


async def test_a_server_with_the_certificate_of_another_is_not_spoken_to(monkeypatch, trusting):
    with pytest.raises(HttpFailed, match="certificate"):
        await secure_call(monkeypatch, "other.test")


async def test_a_certificate_that_nobody_trusts_is_refused(monkeypatch):
    with pytest.raises(HttpFailed, match="certificate"):
        await secure_call(monkeypatch, "shop.test")


SECRET = "127.0.0.2"


async def redirected_to_secret() -> tuple[Server, NotAllowed | None]:
    """An allowed server that sends the request on to one that is not."""
    async with (
        serving({"/": answer(b"secret")}, SECRET) as secret,
        serving({"/": answer(status=302, Location=secret.url())}) as server,
    ):
        try:
            await CALL.execute(server.url())
        except NotAllowed as error:
            return secret, error
    return secret, None


async def test_each_redirect_is_checked_like_the_first_address():
    secret, error = await redirected_to_secret()
    assert (error is not None, secret.requests) == (True, [])


async def test_without_the_check_a_redirect_would_reach_the_secret(monkeypatch):
    monkeypatch.setattr(addresses, "may_be_called", lambda address, allowed: True)
    secret, error = await redirected_to_secret()
    assert (error, len(secret.requests)) == (None, 1)


async def rebound() -> str:
    """A name that stands for an allowed address when it is checked, and for another afterwards."""
    async with serving({"/": answer(b"open")}) as server, serving({"/": answer(b"secret")}, SECRET, server.port):
        return (await CALL.execute(f"http://shop.test:{server.port}/"))["text"]


async def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    names = Names(["127.0.0.1", SECRET])
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", lambda loop, *args, **options: names(*args, **options))
    assert (await rebound(), names.asked) == ("open", 1)


async def test_asked_again_the_name_would_lead_to_the_secret(monkeypatch):
    names = Names(["127.0.0.1", SECRET])
    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", lambda loop, *args, **options: names(*args, **options))
    checked = addresses.checked_addresses

    async def by_name(host, port, allowed):
        await checked(host, port, allowed)
        return [host]

    monkeypatch.setattr(http, "checked_addresses", by_name)
    assert await rebound() == "secret"
