"""The sinks of an app: where the events of all runs go, how far each sink has got, and what it did not take."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from stepfast.base import AppBase
from stepfast.kernel.assets import LineageFilter, LineageView
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.ids import RANDOM_BITS, RunId, new_id
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.sink_facts import Informed
from stepfast.kernel.sinks import HeldBack, Sink, SinkLetterView, SinkRemoval, SinkView, Subscription
from stepfast.kernel.texts import MAX_NOTE, check_optional_text, check_text
from stepfast.kernel.views import RunView
from stepfast.workflows.executors.allowed import Allowed

MAX_PAGE = 1_000


@runtime_checkable
class CallsOut(Protocol):
    """A sink that calls other people's servers."""

    def allow(self, allowed: Allowed) -> None:
        """What the settings of the app allow to be called."""
        ...


class _Facts:
    """What sinks of an app may ask about its runs."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def run(self, tenant: str, run_id: RunId) -> RunView | None:
        return await self._app._open_parts().store.run(tenant, run_id)

    async def lineage(self, tenant: str, run_id: RunId, generation: int, limit: int) -> list[LineageView]:
        where = LineageFilter(tenant, run_id, limit=limit, generation=generation)
        return await self._app._open_parts().store.lineage(where)


def add_sinks(sinks: Sinks, urls: Iterable[str], place: str) -> None:
    """Publish to the sinks at URLs that were given outside of code; an error says in which place."""
    for url in urls:
        try:
            sinks.add(url)
        except Invalid as error:
            raise Invalid(f"{place} does not fit. {error}") from error


class Sinks:
    """The sinks on an app's store. Workers of every process that has a sink publish to it, one of them at a time."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    def add(self, sink: Sink | str, *, from_start: bool = False) -> None:
        """Publish to a sink, or the one at a URL, what is written from its first time on, or, `from_start`, all."""
        if isinstance(sink, str):
            # Most apps have none.
            from stepfast.sinks.urls import sink_at

            sink = sink_at(sink)
        known = self._app._subscriptions
        if any(each.sink.name == sink.name for each in known):
            raise Invalid(f"Two sinks of this app are named {sink.name!r}. How far each has got is kept by its name.")
        if isinstance(sink, Informed):
            sink.inform(_Facts(self._app))
        if isinstance(sink, CallsOut):
            sink.allow(self._app._allowed)
        known.append(Subscription(sink, from_start))

    async def list(self) -> list[SinkView]:
        """Every sink that has ever been published to on this store, by name."""
        return await self._app._open_parts().store.sinks()

    async def get(self, name: str) -> SinkView:
        """One of them."""
        for view in await self.list():
            if view.name == name:
                return view
        raise NotFound(f"Nothing was ever published to a sink named {name!r}. See `stepfast sinks list`.")

    async def letters(
        self, name: str, *, is_open: bool = True, after: int = 0, limit: int = 100
    ) -> Sequence[SinkLetterView]:
        """Events that a sink did not take, by position; without `is_open`, also those that were delivered after all."""
        name, limit = check_text("The sink's name", name), check_whole("limit", limit, 1, MAX_PAGE)
        behind = check_whole("after", after, 0)
        return await self._app._open_parts().store.sink_letters(name, is_open, behind, limit)

    async def held(self, name: str, *, limit: int = 100) -> Sequence[HeldBack]:
        """Runs whose events wait because a sink did not take one of them, those that are tried again first."""
        name, limit = check_text("The sink's name", name), check_whole("limit", limit, 1, MAX_PAGE)
        return await self._app._open_parts().store.held_back(name, limit)

    async def replay(
        self, name: str, positions: Sequence[int] | None = None, *, limit: int = MAX_PAGE, dry_run: bool = False
    ) -> int:
        """Have dead letters delivered once more, those at some positions or the first of all; how many those are."""
        name, limit = check_text("The sink's name", name), check_whole("limit", limit, 1, MAX_PAGE)
        some = None if positions is None else sorted({check_whole("A position", each, 1) for each in positions})
        await self.get(name)
        if dry_run:
            count = await self._count_open(name, some, limit)
        else:
            count = await self._app._open_parts().store.replay_letters(name, some, limit)
        if some and not count:
            raise NotFound(f"Sink {name!r} has no open dead letter there. See `stepfast sinks show {name}`.")
        return count

    async def _count_open(self, name: str, positions: Sequence[int] | None, limit: int) -> int:
        """How many of these dead letters, or of the first of all, are open."""
        if positions is None:
            return len(await self.letters(name, limit=limit))
        wanted, count, after = {*positions}, 0, min(positions, default=0) - 1
        while wanted and (page := await self.letters(name, after=after, limit=MAX_PAGE)):
            count += sum(letter.letter.position in wanted for letter in page)
            after = page[-1].letter.position
            wanted = {position for position in wanted if position > after}
        return min(count, limit)

    async def remove(self, name: str, *, reason: str | None = None, actor: str | None = None) -> None:
        """Forget a sink that nobody publishes to any more, with what it has not had; it keeps back no run from then on.

        Take it out of the apps first: where one still publishes to it, nothing is done.
        """
        await self.get(name)
        why, who = (
            None if reason is None else check_text("reason", reason, MAX_NOTE),
            check_optional_text("actor", actor),
        )
        removal_id = RunId(new_id(self._app._clock.now(), secrets.randbits(RANDOM_BITS)))
        publisher = await self._app._open_parts().store.remove_sink(SinkRemoval(removal_id, name, who, why))
        if publisher is not None:
            raise Invalid(
                f"Sink {name!r} is being published to by {publisher}. Take it out of the app, stop its workers, and "
                "try again."
            )
