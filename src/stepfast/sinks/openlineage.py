"""Catalogues that understand OpenLineage: each run tells them what it has read and written."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from stepfast.kernel.errors import Invalid, NotFound, WrongCall
from stepfast.kernel.events import EventType
from stepfast.kernel.sink_facts import RunFacts
from stepfast.kernel.texts import check_text
from stepfast.kernel.views import EventView
from stepfast.sinks.filtered import FilteredSink
from stepfast.sinks.openlineage_events import TOLD, JsonObject, Telling, run_events
from stepfast.sinks.posting import Mailbox
from stepfast.sinks.webhook import key_of, signature
from stepfast.workflows.executors.allowed import Allowed

MAX_ROWS = 10_000
"""What is told of one run; of more the first, and that there is more."""


class OpenLineageSink(FilteredSink):
    """Tells a server, or a function, of runs and their assets in the words of OpenLineage.

    A run is told of when it starts and when it ends, each generation as a run of its own, and so is each of its steps
    that has read or written assets. As with webhooks, redirects are not followed and private addresses are refused
    unless `allowed` has them. What errors say is left out unless `with_messages`.
    """

    def __init__(
        self,
        name: str,
        url: str | None = None,
        *,
        send: Callable[[JsonObject], Any] | None = None,
        namespace: str = "stepfast",
        api_key: str | None = None,
        secret: str | None = None,
        with_messages: bool = False,
        tenants: Iterable[str] | None = None,
        allowed: Allowed | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(name, types=TOLD, tenants=tenants)
        if (url is None) == (send is None):
            raise Invalid(f"Sink {name!r} needs either the URL of a server or a function to send by.")
        self._send = send
        self._mailbox = None if url is None else Mailbox(url, allowed)
        self._namespace = check_text("The namespace", namespace)
        self._headers = {} if api_key is None else {"Authorization": f"Bearer {_checked_key(api_key)}"}
        self._key = None if secret is None else key_of(secret)
        self._with_messages = with_messages
        self._now = now
        self._facts: RunFacts | None = None

    def __repr__(self) -> str:
        return f"<OpenLineage sink {self.name!r}>"

    def inform(self, facts: RunFacts) -> None:
        """Whom to ask about runs; the app to which the sink is added says it."""
        self._facts = facts

    def allow(self, allowed: Allowed) -> None:
        """What the settings of the app allow to be called."""
        if self._mailbox is not None:
            self._mailbox.allow(allowed)

    async def open(self) -> None:
        """See that a server is there: while none is, no event is to blame."""
        if self._mailbox is not None:
            await self._mailbox.open()

    async def deliver(self, events: Sequence[EventView]) -> None:
        """Tell of each, one after the other."""
        for event in events:
            for told in await self._told(event):
                await self._pass_on(told)

    async def _told(self, event: EventView) -> list[JsonObject]:
        if self._facts is None:
            raise WrongCall(f"Sink {self.name!r} is of no app; add it with `app.sinks.add(...)`.")
        run = await self._facts.run(event.tenant, event.run_id)
        if run is None:
            raise NotFound(f"Run {event.run_id} is gone, so nothing can be told of it any more.")
        parent = None if run.parent_id is None else await self._facts.run(event.tenant, run.parent_id)
        told = Telling(self._namespace, run, parent, event, with_messages=self._with_messages)
        if event.type == EventType.STARTED:
            return run_events(told)
        rows = await self._facts.lineage(event.tenant, event.run_id, event.generation, MAX_ROWS + 1)
        return run_events(told._replace(rows=rows[:MAX_ROWS], is_cut=len(rows) > MAX_ROWS))

    async def _pass_on(self, told: JsonObject) -> None:
        if self._send is None:
            await self._post(told)
            return
        answer = self._send(told)
        if inspect.isawaitable(answer):
            await answer

    async def _post(self, told: JsonObject) -> None:
        assert self._mailbox is not None
        body = json.dumps(told, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json", **self._headers, **self._signed(told, body)}
        await self._mailbox.post(body, headers)

    def _signed(self, told: JsonObject, body: bytes) -> dict[str, str]:
        if self._key is None:
            return {}
        name = uuid5(NAMESPACE_URL, f"{told['run']['runId']} {told['eventType']} {told['eventTime']}")
        return signature(self._key, str(name), self._now(), body)


def _checked_key(api_key: str) -> str:
    """A key that can stand in a header; an error does not tell what it is."""
    if not api_key or not api_key.isascii() or not api_key.isprintable():
        raise Invalid("The API key of a sink has characters that no header can have, or none at all.")
    return api_key
