"""Sinks for tests: what happened to an engine's runs, collected for assertions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepfast.app import Stepfast
from stepfast.kernel.views import EventView
from stepfast.runs import Run

PAGE = 1_000


class CollectingSink:
    """Keeps every event it is given, in order."""

    def __init__(self) -> None:
        self.events: list[EventView] = []

    def __iter__(self) -> Iterator[EventView]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def take(self, events: Sequence[EventView]) -> None:
        """Events that are in the store and were not taken before."""
        self.events += events

    def of(self, run: Run[object] | str) -> list[EventView]:
        """The events of one run."""
        run_id = run if isinstance(run, str) else run.id
        return [event for event in self.events if event.run_id == run_id]

    def types(self, run: Run[object] | str | None = None) -> list[str]:
        """What happened, by name: to one run, or to all of them."""
        return [event.type for event in (self.events if run is None else self.of(run))]

    def clear(self) -> None:
        """Forget what was collected so far."""
        self.events.clear()


class Feed:
    """Passes on what is new in the store to the sinks of an engine."""

    def __init__(self, app: Stepfast, sinks: Sequence[CollectingSink]) -> None:
        self._app = app
        self._sinks = sinks
        self._passed: dict[str, int] = {}

    async def pass_on(self) -> None:
        """Give every sink the events that it has not had, in the order in which they were written."""
        if not self._sinks:
            return
        fresh = [event for run_id in await self._run_ids() for event in await self._fresh(run_id)]
        fresh.sort(key=lambda event: event.position)
        for sink in self._sinks:
            sink.take(fresh)

    async def _run_ids(self) -> list[str]:
        found: list[str] = []
        while page := await self._app.runs(limit=PAGE, cursor=found[-1] if found else None):
            found += [view.run_id for view in page]
        return found

    async def _fresh(self, run_id: str) -> list[EventView]:
        handle, fresh = self._app.get(run_id), list[EventView]()
        while page := await handle.history(after=self._passed.get(run_id, 0), limit=PAGE):
            self._passed[run_id] = page[-1].seq
            fresh += page
        return fresh
