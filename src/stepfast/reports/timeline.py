"""What happened, one line for each event, with the gaps in which nothing did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepfast.kernel.reconstruction import Reconstruction
from stepfast.kernel.texts import counted
from stepfast.kernel.views import EventView
from stepfast.reports.blocks import Block, Paragraph, Section, Table, Words
from stepfast.reports.texts import Times, span
from stepfast.reports.words import doer, sentence

# Of a longer history the beginning and the end are shown.
MAX_FIRST, MAX_LAST = 250, 250
# A pause that is worth a line of its own.
GAP_MS = 60_000


def timeline(found: Reconstruction, times: Times) -> Section:
    """The whole history."""
    events = found.events
    blocks: list[Block] = [Paragraph(_about(events))]
    if len(events) <= MAX_FIRST + MAX_LAST:
        blocks.append(_table("What happened", events, times))
        return Section("Timeline", blocks)
    left_out = len(events) - MAX_FIRST - MAX_LAST
    blocks += [
        _table("What happened first", events[:MAX_FIRST], times),
        Paragraph(f"{counted(left_out, 'event')} more in between; the JSON form of the reconstruction has them all."),
        _table("What happened last", events[-MAX_LAST:], times),
    ]
    return Section("Timeline", blocks)


def _about(events: Sequence[EventView]) -> str:
    if not events:
        return "There are no events of this run any more."
    count = counted(len(events), "event")
    missing = _missing(events)
    whole = "Their numbers have no gap." if not missing else f"{counted(missing, 'number')} among them are missing."
    return f"{count} in {span(events[-1].at - events[0].at)}. {whole}"


def _missing(events: Sequence[EventView]) -> int:
    return events[-1].seq - len(events)


def _table(about: str, events: Sequence[EventView], times: Times) -> Table:
    return Table(about, ("No.", "When", "What", "Who"), list(_rows(events, times)))


def _rows(events: Sequence[EventView], times: Times) -> Iterator[tuple[Words, ...]]:
    before: EventView | None = None
    for event in events:
        if before is not None:
            yield from _between(before, event)
        yield str(event.seq), times.moment(event.at), sentence(event, times), doer(event)
        before = event


def _between(before: EventView, event: EventView) -> Iterator[tuple[Words, ...]]:
    missing = event.seq - before.seq - 1
    if missing > 0:
        yield "", "", f"{counted(missing, 'event')} are missing here.", ""
    if event.generation > before.generation:
        yield "", "", f"Generation {event.generation} begins.", ""
    if event.at - before.at >= GAP_MS:
        yield "", "", f"Nothing for {span(event.at - before.at)}.", ""
