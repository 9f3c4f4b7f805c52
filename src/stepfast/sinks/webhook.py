"""A server that is called with every event: CloudEvents in signed requests, within limits."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterable, Sequence

from stepfast.kernel.errors import Invalid
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.views import EventView
from stepfast.sinks.cloudevents import BATCH_TYPE, MEDIA_TYPE, cloud_event, event_id
from stepfast.sinks.filtered import FilteredSink
from stepfast.sinks.posting import Mailbox
from stepfast.workflows.executors.allowed import Allowed

SECRET_PREFIX = "whsec_"
MIN_SECRET_BYTES = 24
MAX_SECRET_BYTES = 64


class WebhookSink(FilteredSink):
    """Posts events to a URL; `batch` of them in one request, or one in each.

    Requests are signed as the Standard Webhooks specification says. Redirects are not followed, and private addresses
    are refused unless `allowed`, or STEPFAST_HTTP_PRIVATE, has them; the one that was checked is the one called.
    """

    def __init__(
        self,
        name: str,
        url: str,
        secret: str,
        *,
        types: Iterable[str] | None = None,
        tenants: Iterable[str] | None = None,
        batch: int = 1,
        allowed: Allowed | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name, types=types, tenants=tenants)
        self._mailbox = Mailbox(url, allowed)
        self._key = key_of(secret)
        self._batch = check_whole("batch", batch, 1)
        self._now = now

    def allow(self, allowed: Allowed) -> None:
        """What the settings of the app allow to be called."""
        self._mailbox.allow(allowed)

    async def open(self) -> None:
        """See that a server is there: while none is, no event is to blame."""
        await self._mailbox.open()

    async def deliver(self, events: Sequence[EventView]) -> None:
        """Post them, one request after the other."""
        for start in range(0, len(events), self._batch):
            await self._post(events[start : start + self._batch])

    async def _post(self, events: Sequence[EventView]) -> None:
        told = [cloud_event(event) for event in events]
        body = json.dumps(told if self._batch > 1 else told[0], ensure_ascii=False).encode()
        headers = {"Content-Type": BATCH_TYPE if self._batch > 1 else MEDIA_TYPE, **self._signed(events, body)}
        await self._mailbox.post(body, headers)

    def _signed(self, events: Sequence[EventView], body: bytes) -> dict[str, str]:
        name = event_id(events[0]) if len(events) == 1 else hashlib.sha256(body).hexdigest()
        return signature(self._key, name, self._now(), body)


def signature(key: bytes, name: str, now: float, body: bytes) -> dict[str, str]:
    """The headers by which whoever has the key knows who sent a body, and when."""
    moment = str(int(now))
    mac = hmac.digest(key, f"{name}.{moment}.".encode() + body, "sha256")
    return {
        "webhook-id": name,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(mac).decode()}",
    }


def key_of(secret: str) -> bytes:
    """The bytes of a secret; whatever is wrong with it, the error does not tell what it is."""
    known: object = secret
    given = known if isinstance(known, str) else ""
    try:
        key = base64.b64decode(given.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not given.startswith(SECRET_PREFIX) or not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        raise Invalid(
            f"The secret of a webhook is {SECRET_PREFIX} and {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes as base64. "
            'Make one with: python -c "import secrets, base64; '
            "print('whsec_' + base64.b64encode(secrets.token_bytes(32)).decode())\""
        )
    return key
