"""What an event belongs to and what brought it about, as whoever reads it is shown.

Only the first event of a run has a column for its cause filled in. The others are shown what follows from their run and
from what they say, so that no commit writes a column more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from stepfast.kernel.decisions import NewRun
from stepfast.kernel.events import Event

if TYPE_CHECKING:
    from stepfast.kernel.views import EventView

CAUSE = "causation_id"
CORRELATION = "correlation_id"


def correlation_of(run_id: str, correlation_id: str | None) -> str:
    """What a run and its events belong to: as its starter said, or else the run itself."""
    return correlation_id or run_id


def told_correlation(queued: EventView) -> str:
    """What the first event of a run says that the run belongs to."""
    return correlation_of(queued.run_id, _named_in(CORRELATION, queued.data))


def queued_cause(run: NewRun) -> str | None:
    """What the first event of a run keeps as its cause: as the starter said, or the key of the start."""
    return run.key if run.causation_id is None else run.causation_id


def causation_of(run_id: str, stored: str | None, data: str | None) -> str:
    """What brought an event about: as its run's starter said, the key of the command it tells of, or else its run."""
    return stored or _named_in(CAUSE, data) or run_id


def _named_in(name: str, data: str | None) -> str | None:
    if not isinstance(data, str) or f'"{name}"' not in data:
        return None
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        # Whatever somebody has put there by other means, the rest of the event can be read.
        return None
    named = told.get(name) if isinstance(told, dict) else None
    return named if isinstance(named, str) else None


def shown(event: EventView, correlation_id: str | None = None) -> EventView:
    """An event as people and sinks get it; `correlation_id` is its run's, where the event was read without it."""
    return event._replace(
        causation_id=causation_of(event.run_id, event.causation_id, event.data),
        correlation_id=correlation_of(event.run_id, event.correlation_id or correlation_id),
    )


def stored(event: EventView) -> EventView:
    """The event that was stored, of one that is shown and had no cause of its own; any other is left as it is."""
    without = event._replace(causation_id=None)
    return without if causation_of(event.run_id, None, event.data) == event.causation_id else event


def caused_by(key: str, events: Iterable[Event]) -> tuple[Event, ...]:
    """The events of a command, which name it by its key."""
    return tuple(event._replace(data=_with_cause(key, event.data)) for event in events)


def _with_cause(key: str, data: str | None) -> str:
    return json.dumps({**json.loads(data or "{}"), CAUSE: key})
