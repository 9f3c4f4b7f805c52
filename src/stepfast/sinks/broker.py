"""What sinks on message brokers have in common: a client that is there or not, time limits, errors without secrets."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterable, Sequence
from functools import lru_cache
from urllib.parse import quote, unquote, urlsplit

from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, SinkFailed
from stepfast.kernel.ids import RunId
from stepfast.kernel.views import EventView
from stepfast.sinks.filtered import FilteredSink

# The engine gives a delivery ten seconds; whoever stops before that can still say what was wrong.
TIMEOUT, CONNECT_TIMEOUT = "8s", "4s"
MAX_TOKEN = 200


class BrokerSink(FilteredSink):
    """A sink whose events go to a message broker."""

    broker = "The broker"
    package = ""
    extra = ""

    def __init__(
        self,
        name: str,
        where: str,
        *,
        types: Iterable[str] | None,
        tenants: Iterable[str] | None,
        timeout: Duration,
        connect_timeout: Duration,
        secrets: Iterable[str | None] = (),
    ) -> None:
        super().__init__(name, types=types, tenants=tenants)
        if importlib.util.find_spec(self.package) is None:
            raise Invalid(
                f"Sink {name!r} goes to {self.broker} and needs the package {self.package}: "
                f"pip install 'stepfast[{self.extra}]'."
            )
        self._where = where
        self._timeout_s = span_ms(timeout, "timeout") / 1_000
        self._connect_s = span_ms(connect_timeout, "connect_timeout") / 1_000
        self._secrets = sorted({secret for secret in secrets if secret}, key=len, reverse=True)

    def _failed(self, why: object) -> SinkFailed:
        """The error for whatever went wrong, in which no secret stands."""
        told = str(why) or type(why).__name__
        for secret in self._secrets:
            told = told.replace(secret, "***")
        return SinkFailed(f"{self.broker} at {self._where} did not take the events: {told}")

    def _late(self) -> SinkFailed:
        return self._failed(f"no answer within {self._timeout_s:g} s.")


def waves(events: Sequence[EventView]) -> list[list[EventView]]:
    """Events in groups that can be under way at once: no two of a run in one, and those of a run in order."""
    groups: list[list[EventView]] = []
    depths: dict[RunId, int] = {}
    for event in events:
        depth = depths.get(event.run_id, 0)
        depths[event.run_id] = depth + 1
        if depth == len(groups):
            groups.append([])
        groups[depth].append(event)
    return groups


@lru_cache(maxsize=1_024)
def token(text: str) -> str:
    """A tenant or a type as one part of a subject or a key: nothing in it has a meaning there, and no two are alike."""
    # What concerns no tenant has none, and a subject no empty parts.
    safe = quote(text, safe="").replace(".", "%2E") or "%"
    if len(safe) <= MAX_TOKEN:
        return safe
    return f"{safe[: MAX_TOKEN // 2]}~{hashlib.sha256(text.encode()).hexdigest()}"


def place_of(url: str, schemes: Iterable[str], example: str) -> tuple[str, list[str]]:
    """Where a URL leads, without who goes there, and the secrets in it; one that is wrong is not repeated."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except (ValueError, AttributeError):
        raise unreadable(schemes, example) from None
    if parts.scheme not in schemes or not (host or parts.path):
        raise unreadable(schemes, example)
    # A user alone is a token for NATS.
    given = [parts.password] if parts.password else [parts.username] if parts.username else []
    where = (host or parts.path) + (f":{port}" if port else "")
    return where, [form for secret in given if secret for form in (secret, unquote(secret))]


def unreadable(schemes: Iterable[str], example: str) -> Invalid:
    """The error for a URL, which does not repeat it: it may hold a password."""
    return Invalid(
        f"The URL of a sink cannot be read. It begins with {' or '.join(f'{each}://' for each in schemes)}, as in "
        f"{example}; special characters in a password are written as %XX."
    )
