"""Rows of sinks, in the column order of their statements, as the kernel's values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import HeldBack, SinkLetter, SinkLetterView, SinkView
from stepfast.kernel.views import EventView
from stepfast.stores import rows

Row = Sequence[Any]
T = TypeVar("T")

_LETTER = len(SinkLetter._fields)


def held_of(row: Row) -> HeldBack:
    """A row of `list_held`."""
    run_id, *rest = row
    return HeldBack(RunId(str(run_id)), *rest)


def letter_of(row: Row) -> SinkLetter:
    """The first columns of any statement that reads dead letters of sinks."""
    position, run_id, *rest = row[:_LETTER]
    return SinkLetter(position, RunId(str(run_id)), *rest)


def letter_view(sink: str, row: Row) -> SinkLetterView:
    """A row of `list_sink_letters`."""
    return SinkLetterView(sink, letter_of(row), *row[_LETTER:])


def due_letter(row: Row) -> tuple[SinkLetter, EventView]:
    """A row of `due_letters`."""
    return letter_of(row), rows.event_view(row[_LETTER:])


def sink_view(row: Row) -> SinkView:
    """A row of `list_sinks`."""
    return SinkView(*row)


class SinkReads:
    """What every store reads of sinks, by the statements that all share."""

    @abstractmethod
    async def _ask(self, name: str, parameters: dict[str, Any], view: Callable[[Row], T]) -> list[T]:
        """The rows of a shared statement, each as its view."""

    @abstractmethod
    async def now(self) -> Instant:
        """The moment by the store's clock."""

    async def held_back(self, name: str, limit: int) -> list[HeldBack]:
        """The runs that wait, those that are due first."""
        return await self._ask("list_held", {"sink": name, "limit": limit}, held_of)

    async def events_between(self, run_id: RunId, first_seq: int, upto: int, limit: int) -> list[EventView]:
        """The events of a run from a number on, up to a position."""
        given = {"run_id": run_id, "first_seq": first_seq, "upto": upto, "limit": limit}
        return await self._ask("events_between", given, rows.event_view)

    async def sinks(self) -> list[SinkView]:
        """Every sink that has ever been published to."""
        return await self._ask("list_sinks", {"now": await self.now()}, sink_view)

    async def sink_letters(self, name: str, is_open: bool, after: int, limit: int) -> list[SinkLetterView]:
        """The dead letters of a sink behind a position."""
        given = {"sink": name, "open": 1 if is_open else None, "after": after, "limit": limit}
        return await self._ask("list_sink_letters", given, partial(letter_view, name))

    async def due_letters(self, name: str, limit: int) -> list[tuple[SinkLetter, EventView]]:
        """Dead letters that somebody wants to be delivered once more, with their events."""
        return await self._ask("due_letters", {"sink": name, "limit": limit}, due_letter)
