"""Trouble that is not a run's own: how often in a row it has met some, and when it is tried again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from stepfast.kernel.decisions import Decision, HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnusable
from stepfast.kernel.events import EventType
from stepfast.kernel.retry import Retry
from stepfast.kernel.rules import hand_back
from stepfast.kernel.views import EventView

PATIENCE = Retry(base="5s", factor=2, cap="5m")
"""How soon a run is tried again; however often."""
LASTING = 3
"""From so many in a row on a person should see to it."""
RECENT = 100
"""How many events are looked at: those of a few claims."""

UNREADABLE = "\udcff"
"""What a store hands out in the place of an input that somebody has made unreadable: no text that was ever stored."""

# What is told of a run that came no further than before.
_IDLE = frozenset(
    {
        EventType.CLAIMED,
        EventType.STARTED,
        EventType.STEP_STARTED,
        EventType.STEP_PROGRESS,
        EventType.SIGNALLED,
        EventType.REAPED,
        EventType.PAUSED,
        EventType.RESUMED,
    }
)


class Trouble(NamedTuple):
    """Why a run was handed back, and how often in a row it was."""

    reason: str
    number: int

    @property
    def is_lasting(self) -> bool:
        return self.number >= LASTING


def unreadable(run: HeldRun) -> StoreUnusable:
    """Why a run cannot be begun whose text is none."""
    return StoreUnusable(
        f"Its rows hold text that is no UTF-8: somebody has changed them. Put a backup in their place, or cancel it "
        f"with `stepfast runs cancel {run.run_id}`."
    )


def put_off(run: HeldRun, trouble: Trouble, now: Instant, patience: Retry = PATIENCE) -> Decision:
    """The run goes back whole, for longer each time that it comes no further."""
    told = {"troubles": trouble.number} | ({"is_lasting": True} if trouble.is_lasting else {})
    return hand_back(run, trouble.reason, now, patience.delay_ms(trouble.number, run.run_id), told)


def troubles_so_far(events: Sequence[EventView]) -> int:
    """How often in a row a run was handed back for trouble, by its newest events; zero when it has come on since."""
    for event in reversed(events):
        if event.type == EventType.HANDED_BACK:
            trouble = trouble_of(event)
            if trouble is not None:
                return trouble.number
        elif event.type not in _IDLE:
            return 0
    return 0


def trouble_of(event: EventView) -> Trouble | None:
    """The trouble that a run was handed back for; None when it was for something else."""
    told = json.loads(event.data or "{}")
    return Trouble(str(told["reason"]), int(told["troubles"])) if "troubles" in told else None
