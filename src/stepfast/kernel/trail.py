"""The trail: the events of all runs in the order of their positions, read no further than nothing can come any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.seals import Leaf, Seal
from stepfast.kernel.views import EventView

# Positions begin at 1; what somebody put in front of that is in no seal, and among the events of a run all the same.
LOWEST, HIGHEST = -(2**63), 2**63 - 1


class Doubt(NamedTuple):
    """Positions that are missing below others: still being written by one of these writers, or rolled back.

    A writer takes a position after it has begun to write, so that whoever wrote below `last` was among those who were
    writing when it was read. Once they have all ended, what is still missing never comes.
    """

    last: int
    writers: frozenset[str]


class TrailPage(NamedTuple):
    """Events behind a position, in order; below `reached` nothing can come any more."""

    events: list[EventView]
    reached: int
    doubt: Doubt | None = None
    """What keeps the next page from beginning; it is handed back with the question for it."""


class Settled(NamedTuple):
    """How many of the positions that were read count, and the one below which nothing can come any more."""

    events: int
    reached: int


def settle(after: int, positions: Sequence[int], sure_to: int, is_last: bool) -> Settled:
    """Which of the positions read behind `after` can be gone by.

    What is missing up to `sure_to` was rolled back; `is_last` says that there were no more positions than these.
    """
    count, reached = 0, after
    for position in positions:
        if position > reached + 1 and position > sure_to + 1:
            break
        count, reached = count + 1, position
    if is_last and count == len(positions):
        reached = max(reached, sure_to)
    return Settled(count, reached)


class Gap(NamedTuple):
    """Events of a run that must have been there: others were numbered behind them, or their run tells of the last."""

    run_id: RunId
    first: int
    seq: int
    """The last of them."""


class EventFilter(NamedTuple):
    """Which events of the trail a list holds, newest first; `before` is the position that a page ended with."""

    tenant: str | None = None
    run_id: RunId | None = None
    types: tuple[str, ...] = ()
    """Any of these; none means all."""
    step: str | None = None
    """An address."""
    step_name: str | None = None
    actor: str | None = None
    correlation_id: str | None = None
    since: Instant | None = None
    until: Instant | None = None
    before: int | None = None
    limit: int = 100


class TrailRows(Protocol):
    """What a store does for the trail and its seals."""

    async def trail(self, after: int, limit: int, doubt: Doubt | None = None) -> TrailPage:
        """Events behind a position; with the doubt of the page before, if there was one."""
        ...

    async def sealed_events(self, after: int, last: int, limit: int) -> list[EventView]:
        """The events that stand between two positions now, in order."""
        ...

    async def find_events(self, where: EventFilter) -> list[EventView]:
        """A page of events, newest first."""
        ...

    async def gaps(self, after: int, limit: int) -> list[Gap]:
        """Runs whose numbers have a gap: among their leaves, behind a position, or where their start or end was."""
        ...

    async def count_behind(self, after: int) -> int:
        """How many events stand behind a position."""
        ...

    async def last_seal(self) -> Seal | None:
        """The newest seal."""
        ...

    async def seals(self, after: int, limit: int) -> list[Seal]:
        """Seals with higher numbers, in order."""
        ...

    async def leaves(self, number: int) -> list[Leaf]:
        """The leaves of a seal, in their order."""
        ...

    async def put_seal(self, seal: Seal, leaves: Sequence[Leaf]) -> bool:
        """Store a seal with its leaves; False when one of its number is there already."""
        ...
