"""Events in the form that others know: CloudEvents 1.0 as JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from stepfast.kernel.views import EventView

MEDIA_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"


def event_id(event: EventView) -> str:
    """What tells it from all others; whoever gets one twice knows it by this."""
    return f"{event.run_id}.{event.seq}"


def cloud_event(event: EventView) -> dict[str, Any]:
    """An event with all its fields."""
    given: dict[str, Any] = {
        "specversion": "1.0",
        "id": event_id(event),
        "source": "stepfast",
        "type": f"stepfast.{event.type}",
        "subject": event.run_id,
        "time": datetime.fromtimestamp(event.at / 1_000, UTC).isoformat(timespec="milliseconds"),
        "datacontenttype": "application/json",
        # What a run's events are put in order by, and whose they are.
        "sequence": f"{event.seq:010}",
        "tenant": event.tenant,
        "data": _data_of(event),
    }
    return given


def encoded(event: EventView) -> bytes:
    """The same as the text that is sent."""
    return json.dumps(cloud_event(event), ensure_ascii=False).encode()


def attributes(event: EventView) -> dict[str, str]:
    """What brokers show beside a message, so that nobody has to read it to know what it is."""
    return {
        "specversion": "1.0",
        "id": event_id(event),
        "source": "stepfast",
        "type": f"stepfast.{event.type}",
        "subject": event.run_id,
        "tenant": event.tenant,
    }


def _data_of(event: EventView) -> dict[str, Any]:
    fields = event._asdict()
    data = fields.pop("data")
    told = {name: value for name, value in fields.items() if value is not None}
    return {**told, "data": None if data is None else json.loads(data)}
