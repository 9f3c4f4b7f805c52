"""Sinks: where events go, how far each has got, and what becomes of events that it does not take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.texts import storable
from stepfast.kernel.views import EventView


class Sink(Protocol):
    """A place that events are delivered to, at least once, those of a run in order."""

    name: str

    def wants(self, event: EventView) -> bool:
        """Whether it is to have an event at all."""
        ...

    async def open(self) -> None:
        """Connect; called before the first delivery, and again after a delivery has failed."""
        ...

    async def deliver(self, events: Sequence[EventView]) -> None:
        """Take these events, all of them; when this returns they are safe there. An error says that they may not be."""
        ...

    async def close(self) -> None:
        """Let go of everything."""
        ...


class Subscription(NamedTuple):
    """A sink, and whether it gets all that there is when it is new."""

    sink: Sink
    from_start: bool = False


class TakenSink(NamedTuple):
    """A sink as its publisher has it: nobody else publishes to it until the lease is over.

    Everything at or below `cursor` was delivered, is held with its run, or is a dead letter.
    """

    name: str
    token: int
    cursor: int
    tries: int
    """How often in a row nothing at all could be delivered."""
    due_at: Instant
    """When to try again."""
    replays: bool = False
    """Whether somebody wants dead letters to be delivered once more."""


class HeldBack(NamedTuple):
    """A run whose events wait from one on, because that one could not be delivered."""

    run_id: RunId
    seq: int
    tries: int
    due_at: Instant
    error: str


class SinkLetter(NamedTuple):
    """An event that a sink did not take, however often it was offered."""

    position: int
    run_id: RunId
    seq: int
    tenant: str
    type: str
    tries: int
    error: str


class SinkLetterView(NamedTuple):
    """A dead letter of a sink, and what was done about it."""

    sink: str
    letter: SinkLetter
    recorded_at: Instant
    replay_at: Instant | None
    resolved_at: Instant | None


class SinkStep(NamedTuple):
    """What a publisher has done, to be stored in one commit."""

    cursor: int
    tries: int = 0
    due_at: Instant = Instant(0)
    error: str | None = None
    held: tuple[HeldBack, ...] = ()
    freed: tuple[RunId, ...] = ()
    letters: tuple[SinkLetter, ...] = ()
    resolved: tuple[int, ...] = ()
    """The positions of letters that were delivered after all."""


class SinkRemoval(NamedTuple):
    """A sink that is to be forgotten, with all that it has not had."""

    removal_id: RunId
    """What its event is under."""
    name: str
    actor: str | None = None
    reason: str | None = None

    def told(self, cursor: int, letters: int) -> str:
        """What its event says: how far it had got, and how many dead letters went with it."""
        facts: dict[str, Any] = {"sink": self.name, "cursor": cursor, "dead_letters": letters}
        return json.dumps(facts if self.reason is None else {**facts, "reason": self.reason})


class SinkView(NamedTuple):
    """A sink as people see it."""

    name: str
    cursor: int
    behind: int
    """How many events stand behind its cursor."""
    held: int
    letters: int
    tries: int
    due_at: Instant
    error: str | None
    publisher: str | None


class Backoff(NamedTuple):
    """How soon a sink is tried again, and how often an event is offered before it becomes a dead letter."""

    tries: int = 10
    base_ms: int = 1_000
    cap_ms: int = 300_000

    def pause_ms(self, tries: int) -> int:
        """The pause after so many tries in a row."""
        return min(self.base_ms << min(max(tries - 1, 0), 30), self.cap_ms)


class Refusal(NamedTuple):
    """An event that was offered and not taken."""

    event: EventView
    error: str


def after_outage(
    taken: TakenSink, refused: Refusal, now: Instant, backoff: Backoff, may_be_poison: bool = True
) -> SinkStep:
    """Nothing could be delivered: the sink is away, and waits.

    If it is so again and again, it may be that there is nothing but this one event that it cannot take.
    """
    tries = taken.tries + 1
    if tries < backoff.tries or not may_be_poison:
        return SinkStep(taken.cursor, tries, Instant(now + backoff.pause_ms(tries)), refused.error)
    letter = letter_of(refused, tries)
    return SinkStep(refused.event.position, 0, now, refused.error, letters=(letter,))


def hold_back(refused: Iterable[Refusal], now: Instant, backoff: Backoff) -> tuple[HeldBack, ...]:
    """Others were delivered and these were not: their runs wait, and nobody else does."""
    due_at = Instant(now + backoff.pause_ms(1))
    return tuple(HeldBack(each.event.run_id, each.event.seq, 1, due_at, each.error) for each in refused)


def hold_on(held: HeldBack, refused: Refusal, now: Instant, backoff: Backoff) -> SinkLetter | HeldBack:
    """A run was tried again in vain: it waits longer, or its event becomes a dead letter."""
    tries = held.tries + 1 if refused.event.seq == held.seq else 1
    if tries >= backoff.tries:
        return letter_of(refused, tries)
    return HeldBack(held.run_id, refused.event.seq, tries, Instant(now + backoff.pause_ms(tries)), refused.error)


def wait_out(held: HeldBack, refused: Refusal, now: Instant, backoff: Backoff, times: int = 1) -> HeldBack:
    """A run was tried again while the sink was away, for the nth time: it waits longer, and its event is not blamed."""
    tries = max(held.tries, 1) if refused.event.seq == held.seq else 1
    return HeldBack(
        held.run_id, refused.event.seq, tries, Instant(now + backoff.pause_ms(tries + times - 1)), refused.error
    )


def letter_of(refused: Refusal, tries: int) -> SinkLetter:
    """The dead letter of an event."""
    event = refused.event
    # What somebody has put into an event by other means must not keep its sink for ever.
    names = storable(event.tenant), storable(event.type)
    return SinkLetter(event.position, event.run_id, event.seq, *names, tries, refused.error)


class SinkRows(Protocol):
    """What a store does for sinks."""

    async def take_sink(self, name: str, publisher: str, lease_ms: int, from_start: bool) -> TakenSink | None:
        """Lease a sink, made on the way if it is new; None while another publisher has it.

        A new one gets what is written from now on, or all there is.
        """
        ...

    async def advance_sink(self, taken: TakenSink, step: SinkStep, lease_ms: int) -> bool:
        """Store what was done; False when another publisher has taken the sink meanwhile, and nothing is stored."""
        ...

    async def release_sink(self, taken: TakenSink) -> None:
        """Let another publisher take the sink at once."""
        ...

    async def held_back(self, name: str, limit: int) -> list[HeldBack]:
        """The runs that wait, those that are due first."""
        ...

    async def events_between(self, run_id: RunId, first_seq: int, upto: int, limit: int) -> list[EventView]:
        """The events of a run from a number on, up to a position."""
        ...

    async def sinks(self) -> list[SinkView]:
        """Every sink that has ever been published to."""
        ...

    async def sink_letters(self, name: str, is_open: bool, after: int, limit: int) -> list[SinkLetterView]:
        """The dead letters of a sink behind a position."""
        ...

    async def due_letters(self, name: str, limit: int) -> list[tuple[SinkLetter, EventView]]:
        """Dead letters that somebody wants to be delivered once more, with their events."""
        ...

    async def remove_sink(self, removal: SinkRemoval) -> str | None:
        """Forget a sink, with its event; the publisher that has it, if one has, and then nothing has changed."""
        ...

    async def replay_letters(self, name: str, positions: Sequence[int] | None, limit: int) -> int:
        """Have dead letters delivered once more, some or all; how many those are."""
        ...
