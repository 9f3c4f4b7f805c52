"""How queues share what a worker may still take, so that a full one does not keep the others waiting for ever."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.exchange import QueueRoom

Order = Callable[[Sequence[QueueRoom]], list[QueueRoom]]


def at_random(rooms: Sequence[QueueRoom]) -> list[QueueRoom]:
    """The queues in any order: workers that live for a few runs would else all begin with the same one."""
    return random.sample(rooms, len(rooms))


class Shares:
    """Which queues are asked together, and for how much; one that had less than its share gets one run of the next."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._short: set[str] = set()

    def of(self, rooms: Sequence[QueueRoom], left: int) -> Iterator[list[QueueRoom]]:
        """What to ask for until something is found: of all queues at once or, where less is left, of some at a time."""
        if self._short.issuperset(room.queue for room in rooms):
            self._short.clear()
        rooms = self._order(rooms)
        full = [room for room in rooms if room.queue not in self._short]
        short = [room._replace(room=1) for room in rooms if room.queue in self._short]
        groups = [full + short] if len(rooms) <= left else [full, short]
        for group in groups:
            for first in range(0, len(group), left):
                yield share_out(group[first : first + left], left)

    def note(self, asked: Sequence[QueueRoom], runs: Sequence[HeldRun]) -> None:
        """Remember which queues had less than they were asked for."""
        found = Counter(run.queue for run in runs)
        self._short -= {room.queue for room in asked}
        self._short |= {room.queue for room in asked if found[room.queue] < room.room}


def share_out(rooms: Sequence[QueueRoom], left: int) -> list[QueueRoom]:
    """At least one run of each queue, and in all no more than is left; where one has no room, the others have more."""
    shares: list[QueueRoom] = []
    for number, room in enumerate(sorted(rooms, key=lambda room: room.room)):
        share = min(room.room, left // (len(rooms) - number))
        shares.append(room._replace(room=share))
        left -= share
    return shares
