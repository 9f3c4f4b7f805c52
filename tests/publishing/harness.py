"""A sink in a test's hands, and what publishes to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepfast import Run
from stepfast.engine.publishing import Publisher
from stepfast.kernel.sinks import Backoff
from stepfast.kernel.views import EventView
from stepfast.testing import Engine

BACKOFF = Backoff(tries=3)


NOBODY_THERE = ConnectionError("nobody there")


class Place:
    """A sink in a test's hands."""

    name = "place"

    def __init__(self) -> None:
        self.got: list[EventView] = []
        self.deliveries = 0
        self.troubles: dict[str, Exception] = {}
        """What its calls raise, by their names."""
        self.poison: set[tuple[str, int]] = set()

    def wants(self, event: EventView) -> bool:
        return event.type != "claimed"

    async def open(self) -> None:
        self._meet_trouble("open")

    async def deliver(self, events: Sequence[EventView]) -> None:
        self.deliveries += 1
        self._meet_trouble("deliver")
        for event in events:
            if (event.run_id, event.seq) in self.poison:
                raise ValueError("too bitter")
        self.got += events

    async def close(self) -> None:
        """Nothing to let go of."""

    def _meet_trouble(self, call: str) -> None:
        if call in self.troubles:
            raise self.troubles[call]

    def of(self, run: Run[Any]) -> list[int]:
        return [event.seq for event in self.got if event.run_id == run.id]


def publisher(opened: Engine, place: Place, me: str = "first") -> Publisher:
    return Publisher(opened.app.parts.store, opened.clock, place, me, BACKOFF, from_start=True)


async def published(opened: Engine, *publishers: Publisher) -> None:
    """Publish until nothing more goes, moving the clock over what is put off."""
    for _ in range(40):
        for each in publishers:
            while await each.make_pass():
                pass
        opened.clock.advance("1m")


async def wanted(opened: Engine, run: Run[Any]) -> list[int]:
    return [event.seq for event in await opened.events(run) if event.type != "claimed"]
