"""`http.call`: a request to a server, within limits, and never to an address that is not for everybody."""

from __future__ import annotations

import asyncio
import json as json_module
import re
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict
from urllib.parse import urljoin

from stepfast.kernel.errors import Invalid, StepTimeout
from stepfast.kernel.executor_errors import HttpFailed, HttpRefused
from stepfast.kernel.texts import shown
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.addresses import checked_addresses
from stepfast.workflows.executors.builtin.bounds import bound_problems, refuse, timeout_problems, timeout_s
from stepfast.workflows.executors.builtin.wire import Answer, Request, exchange, parse_url

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
MAX_REDIRECTS = 20
TOLD_CHARACTERS = 1_000
TOO_MANY_REQUESTS = 429
REDIRECTS = frozenset({301, 302, 303, 307, 308})
# By these a client that is sent elsewhere asks again with what it has sent before.
SAME_AGAIN = frozenset({307, 308})
# All others are meant for one server, and not for whomever it sends us to: any of them may be a key.
PUBLIC_HEADERS = frozenset({"accept", "accept-language", "content-type", "content-language", "user-agent"})
OWN_HEADERS = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True)
class HttpConfig:
    """How long a request may take, redirects and all, and how large its answer may be."""

    timeout: float | str = "30s"
    max_response_bytes: int = 1_000_000
    max_redirects: int = 5


class HttpAnswer(TypedDict):
    """What the server answered: `json` where it says that it is, else `text`."""

    status: int
    headers: dict[str, str]
    json: NotRequired[Any]
    text: NotRequired[str]


class HttpCall:
    """Call a URL, and give the status, the headers and the content of the answer."""

    name = "http.call"

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed

    async def execute(
        self,
        url: str,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        json: Any = None,
        body: str | None = None,
        config: HttpConfig = HttpConfig(),  # noqa: B008 - it is frozen
    ) -> HttpAnswer:
        """Send a request with `json` or with a text as its body.

        A status from 400 on is a failure: one that is tried again for 429 and from 500 on, and not for the others.
        """
        refuse(self.validate_config(config))
        request, limit_s = _request(url, method, headers or {}, json, body), timeout_s(config.timeout)
        try:
            async with asyncio.timeout(limit_s) as timer:
                answer = await self._follow(request, config)
        except TimeoutError:
            if not timer.expired():
                raise
            host = request.target.host
            raise StepTimeout(f"The request to {host} was not answered within {limit_s:g} s.") from None
        return _checked(request, answer)

    def validate_config(self, config: HttpConfig) -> list[str]:
        """What no type can say of the limits."""
        return [
            *timeout_problems(config.timeout),
            *bound_problems("max_response_bytes", config.max_response_bytes, 0, MAX_RESPONSE_BYTES),
            *bound_problems("max_redirects", config.max_redirects, 0, MAX_REDIRECTS),
        ]

    async def _follow(self, request: Request, config: HttpConfig) -> Answer:
        """The answer of the server that the request is led to; each on the way is checked like the first."""
        for _ in range(config.max_redirects + 1):
            addresses = await checked_addresses(request.target.host, request.target.port, self._allowed)
            answer = await exchange(request, addresses, config.max_response_bytes)
            if answer.status not in REDIRECTS or "location" not in answer.headers or not config.max_redirects:
                return answer
            request = _redirected(request, answer)
        raise HttpRefused(
            f"The request was sent on more than {config.max_redirects} times, last to {request.target.host}."
        )


def _request(url: str, method: str, headers: dict[str, str], json: Any, body: str | None) -> Request:
    if not _TOKEN.fullmatch(method):
        raise Invalid(f"{shown(method)} is no method of HTTP.")
    if json is not None and body is not None:
        raise Invalid("json and body are both given: send one of them.")
    _check_headers(headers)
    sent = dict(headers)
    if json is not None:
        names = {name.lower() for name in sent}
        sent |= {} if "content-type" in names else {"Content-Type": "application/json"}
        return Request(method.upper(), parse_url(url), sent, json_module.dumps(json, allow_nan=False).encode())
    return Request(method.upper(), parse_url(url), sent, None if body is None else body.encode())


def _check_headers(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in OWN_HEADERS:
            raise Invalid(
                f"The header {shown(name)} cannot be sent: it is no name, or it is set by the executor itself."
            )
        if not all(" " <= character <= "ÿ" or character == "\t" for character in value):
            raise Invalid(f"The value of header {name} has characters that no header can have.")


def _redirected(request: Request, answer: Answer) -> Request:
    """The request that a server asks for instead."""
    target = request.target
    base = f"{target.scheme}://{target.host_header}{target.path}"
    try:
        there = parse_url(urljoin(base, answer.headers["location"]))
    except (Invalid, ValueError) as error:
        raise HttpRefused(f"{target.host} sends the request on to nowhere: {error}", answer.status) from error
    headers = request.headers
    if there.origin != target.origin:
        headers = {name: value for name, value in headers.items() if name.lower() in PUBLIC_HEADERS}
    if answer.status in SAME_AGAIN or request.method in ("GET", "HEAD"):
        return request._replace(target=there, headers=headers)
    plain = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    return Request("GET", there, plain, None)


def _checked(request: Request, answer: Answer) -> HttpAnswer:
    if answer.status < 400:
        return _as_value(answer)
    content = answer.body.decode("utf-8", "replace").strip()[:TOLD_CHARACTERS]
    # Without the query, where keys may stand: errors are stored, and read by many.
    place = f"{request.target.host}{request.target.path.partition('?')[0]}"
    told = f"{request.method} {place} was answered with {answer.status}: {content}"
    if answer.status == TOO_MANY_REQUESTS or answer.status >= 500:
        raise HttpFailed(told.rstrip(": "), answer.status)
    raise HttpRefused(told.rstrip(": "), answer.status)


def _as_value(answer: Answer) -> HttpAnswer:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            found = json_module.loads(answer.body, parse_constant=_refuse_constant)
            return HttpAnswer(status=answer.status, headers=answer.headers, json=found)
        except (ValueError, RecursionError):
            # It says that it is JSON, and is not: whoever asked sees what it is.
            pass
    return HttpAnswer(status=answer.status, headers=answer.headers, text=answer.body.decode("utf-8", "replace"))


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
