"""The engine's log as a sink: each event is a line of it."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.kernel.views import EventView
from stepfast.log import Log
from stepfast.sinks.filtered import FilteredSink

log = Log("events")


class LogSink(FilteredSink):
    """Writes each event to the log `stepfast.events`."""

    async def deliver(self, events: Sequence[EventView]) -> None:
        """One line for each."""
        for event in events:
            given = {name: value for name, value in event._asdict().items() if value is not None}
            log.info("event", **given)
