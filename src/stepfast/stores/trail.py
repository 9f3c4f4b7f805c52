"""Rows of the trail and its seals, in the column order of their statements, as the kernel's values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.seals import Leaf, Seal, SealBody
from stepfast.kernel.trail import HIGHEST, LOWEST, EventFilter, Gap
from stepfast.kernel.views import EventView
from stepfast.stores import rows

Row = Sequence[Any]
T = TypeVar("T")

LOOKED_THROUGH = 20_000
"""Positions that one statement looks through for events: no snapshot is held for as long as a trail is long."""

LATE_MS = 60_000
"""So much later than it tells an event may come to its position."""

# The statements that find them, each by other means.
GAPS = ("gaps_of_leaves", "gaps_of_events", "gaps_of_starts", "gaps_of_ends")


def seal_of(row: Row) -> Seal:
    """A row of any statement that reads seals."""
    *body, key, signature = row
    return Seal(SealBody(*body), key, signature)


def leaf_of(row: Row) -> Leaf:
    """A row of `list_leaves`."""
    run_id, *rest = row
    return Leaf(RunId(str(run_id)), *rest)


def gap_of(row: Row) -> Gap:
    """A row of any statement that finds gaps."""
    run_id, before, seq = row
    return Gap(RunId(str(run_id)), min((before or 0) + 1, seq), seq)


def listed(types: Sequence[str]) -> str:
    """Types of events as `find_events` takes them: a mark around each that none of them can have inside."""
    return f" |{' |'.join(each.replace(' ', ' .') for each in types)} |"


class TrailReads:
    """What every store reads of the trail, by the statements that all share."""

    @abstractmethod
    async def _ask(self, name: str, parameters: dict[str, Any], view: Callable[[Row], T]) -> list[T]:
        """The rows of a shared statement, each as its view."""

    async def sealed_events(self, after: int, last: int, limit: int) -> list[EventView]:
        """The events that stand between two positions now."""
        return await self._trail_events(after, last, limit)

    async def find_events(self, where: EventFilter) -> list[EventView]:
        """A page of events, newest first: of a run by its key, else back through the trail, a part at a time."""
        given = where._asdict() | {"types": listed(where.types) if where.types else None}
        # What somebody has put at the very ends cannot be asked for, and must not keep the rest from being.
        top = HIGHEST if where.before is None else where.before
        if where.run_id is not None:
            return await self._ask("find_events_of_run", given | {"after": LOWEST, "before": top}, rows.event_view)
        found: list[EventView] = []
        top = await self._top_below(top)
        while top > LOWEST + 1 and len(found) < where.limit:
            after = max(LOWEST, top - LOOKED_THROUGH - 1)
            part = {"after": after, "before": top}
            events = await self._ask("find_events", given | part | {"limit": where.limit - len(found)}, rows.event_view)
            if not events and await self._is_all_before(part, where.since):
                break
            found += events
            top = await self._top_below(after + 1)
        return found

    async def _top_below(self, position: int) -> int:
        """Below which position to go on; the lowest there is, which ends the look, where no event is further down.

        Where runs were pruned there may be millions of positions without an event.
        """
        ((highest,),) = await self._ask("highest_below", {"before": position}, tuple)
        return LOWEST if highest is None else int(highest) + 1

    async def _is_all_before(self, part: dict[str, int], since: Instant | None) -> bool:
        """Whether all of a part is so old that what lies below was not written since a moment either.

        One event with a moment of its own says nothing: somebody may have changed it, or a clock was wrong.
        """
        return since is not None and not await self._ask("any_since", part | {"since": since - LATE_MS}, tuple)

    async def gaps(self, after: int, limit: int) -> list[Gap]:
        """Runs whose numbers have a gap."""
        given = {"after": after, "limit": limit}
        found = [gap for name in GAPS for gap in await self._ask(name, given, gap_of)]
        return found[:limit]

    async def count_behind(self, after: int) -> int:
        """How many events stand behind a position."""
        ((count,),) = await self._ask("count_behind", {"after": after}, tuple)
        return int(count)

    async def last_seal(self) -> Seal | None:
        """The newest seal."""
        return next(iter(await self._ask("last_seal", {}, seal_of)), None)

    async def seals(self, after: int, limit: int) -> list[Seal]:
        """Seals with higher numbers, in order."""
        return await self._ask("list_seals", {"after": after, "limit": limit}, seal_of)

    async def leaves(self, number: int) -> list[Leaf]:
        """The leaves of a seal, in their order."""
        return await self._ask("list_leaves", {"number": number}, leaf_of)

    async def _trail_events(self, after: int, last: int | None, limit: int) -> list[EventView]:
        return await self._ask("list_trail", {"after": after, "last": last, "limit": limit}, rows.event_view)
