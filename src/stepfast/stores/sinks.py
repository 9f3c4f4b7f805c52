"""Rows of sinks, in the column order of their statements, as the kernel's values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepfast.kernel.ids import RunId
from stepfast.kernel.sinks import HeldBack, SinkLetter, SinkLetterView, SinkView
from stepfast.kernel.views import EventView
from stepfast.stores import rows

Row = Sequence[Any]

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
