"""Posting to somebody's server: to an address that was checked, once, without following it elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepfast.kernel.errors import Invalid, SinkAway
from stepfast.kernel.executor_errors import HttpFailed, HttpRefused
from stepfast.workflows.executors.allowed import Allowed
from stepfast.workflows.executors.builtin.addresses import checked_addresses
from stepfast.workflows.executors.builtin.wire import Request, exchange, parse_url, reach

GOOD = range(200, 300)
# Too many requests, and what stands before a server that is not there: it is not about what was sent.
AWAY = frozenset({429, 502, 503, 504})


class Mailbox:
    """A URL that is posted to; private addresses only where an operator allows them."""

    def __init__(self, url: str, allowed: Allowed | None) -> None:
        if not isinstance(url, str):
            raise Invalid("The URL of a sink is no text: write http://host/... or https://host/...")
        self._target = parse_url(url)
        self._allowed = allowed

    def allow(self, allowed: Allowed) -> None:
        """What the settings of the app allow; what was said for this very place counts more."""
        self._allowed = self._allowed or allowed

    async def open(self) -> None:
        """See that somebody is there who can be posted to."""
        await reach(self._target, await self._addresses())

    async def post(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Send a body; it was taken when this returns."""
        # The status says it all, and the rest may be endless.
        answer = await exchange(Request("POST", self._target, dict(headers), body), await self._addresses(), None)
        if answer.status in AWAY:
            raise SinkAway(f"{self._target.host} answered {answer.status}.")
        if answer.status not in GOOD:
            what = HttpRefused if answer.status < 500 else HttpFailed
            raise what(f"{self._target.host} answered {answer.status}.")

    async def _addresses(self) -> Sequence[str]:
        return await checked_addresses(self._target.host, self._target.port, self._allowed or Allowed())
