"""A run as of an earlier event or moment: what was known of it then, and what its steps had come to."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stepfast.control import is_event
from stepfast.kernel.commands import Rollback
from stepfast.kernel.durations import Instant, check_instant
from stepfast.kernel.errors import EventNotFound, Invalid
from stepfast.kernel.generations import epoch_of
from stepfast.kernel.numbers import check_whole, written
from stepfast.kernel.plan_control import owner_of
from stepfast.kernel.rebuilding import Rebuilding
from stepfast.kernel.rebuilt import Rebuilt
from stepfast.kernel.reconstruction import LargeValue, plain, plain_state
from stepfast.kernel.states import RunState, StepState
from stepfast.kernel.texts import check_text
from stepfast.kernel.views import EventView, StepView
from stepfast.reconstructing import Reader, Resolving

MAX_SEQ = 2**31 - 1
STATES = frozenset(RunState)

Mark = tuple[str, int, int, StepState]


class Moment(NamedTuple):
    """A run as of one of its events."""

    state: Rebuilt
    records: tuple[StepView, ...]
    """What its steps had come to by then, the newest record of each that counted, with its value."""
    last_event: int
    """How many events the run has by now."""
    large: tuple[LargeValue, ...] = ()
    """Values that were too large to be read along."""

    def plain(self) -> dict[str, Any]:
        """All of it as JSON has it; the names are those of the fields."""
        found = {name: plain(value) for name, value in self._asdict().items()}
        return found | {"state": plain_state(self.state)}


async def moment_at(reader: Reader, event: int | None, time: datetime | None) -> Moment:
    """The run as of an event, by its number, or as of a moment."""
    if (event is None) == (time is None):
        raise Invalid("Say as of when, by one of the two: event=, the number of an event, or time=, a datetime.")
    number = None if event is None else check_whole("event", event, 1, MAX_SEQ)
    until = None if time is None else check_instant("time", time)
    walk = await _walk(reader, number, until)
    if number is not None and walk.last < number:
        raise no_event(reader.run_id, number, walk.last)
    if until is not None and not walk.seen:
        raise EventNotFound(
            f"Run {reader.run_id} has no event at or before {time}: it was stored at {_shown(walk.first_at)}."
        )
    return await _moment(reader, walk, until)


async def _moment(reader: Reader, walk: Walk, until: Instant | None) -> Moment:
    run = await reader.run()
    resolving = Resolving(reader)
    records = await resolving.steps(run.tenant, _records_of(walk, await reader.store.steps(reader.run_id)))
    return Moment(walk.rebuilding.rebuilt(until), tuple(records), walk.last, tuple(resolving.large))


class Walk:
    """The events of a run that have been looked at, up to a number or a moment; and how many there are."""

    def __init__(self) -> None:
        self.rebuilding = Rebuilding()
        self.seen = 0
        self.last = 0
        self._is_over = False
        self.first_at = Instant(0)

    def add(self, page: Sequence[EventView], number: int | None, until: Instant | None) -> None:
        for event in page:
            self.first_at = self.first_at or event.at
            self.last = event.seq
            # What a worker tells of later has an earlier moment than what stands before it: a state is of a beginning.
            is_within = (number is None or event.seq <= number) and (until is None or event.at <= until)
            self._is_over = self._is_over or not is_within
            if not self._is_over:
                self.rebuilding.add(event)
                self.seen += 1


async def _walk(reader: Reader, number: int | None, until: Instant | None) -> Walk:
    await reader.run()
    walk = Walk()
    async for page in reader.pages():
        walk.add(page, number, until)
    return walk


def _records_of(walk: Walk, steps: Sequence[StepView]) -> list[StepView]:
    """Of each step that counted the record that was its newest."""
    made = _made(walk.rebuilding, steps)
    by_seq = {step.seq: step for step in steps}
    addresses = [step.address for step in walk.rebuilding.rebuilt().steps]
    return [by_seq[made[address]] for address in addresses if address in made]


def _made(rebuilding: Rebuilding, steps: Sequence[StepView]) -> dict[str, int]:
    """The number of the newest record of each step, by what the events looked at so far say was recorded."""
    numbers: defaultdict[Mark, deque[int]] = defaultdict(deque)
    for each in steps:
        numbers[each.call.address, each.generation, each.attempt, each.state].append(each.seq)
    found: dict[str, int] = {}
    # A step that was taken back has come to the same end more than once: each has its own event.
    for mark in rebuilding.recorded:
        if numbers[mark]:
            found[mark[0]] = numbers[mark].popleft()
    return found


async def _back_to(reader: Reader, event: int, state: RunState | None = None) -> Rollback:
    """The command that takes a run back to one of its events."""
    life, rebuilding, after = (await reader.run()).generation, Rebuilding(), 0
    async for page in reader.pages(last=event):
        for told in page:
            rebuilding.add(told)
        after = page[-1].seq
    if after < event:
        raise no_event(reader.run_id, event, after)
    last = max(_made(rebuilding, await reader.store.steps(reader.run_id)).values(), default=0)
    beyond = await _beyond(reader, event, rebuilding.generation)
    return Rollback(seq=last, event=event, state=state, life=life, beyond=beyond)


async def _beyond(reader: Reader, event: int, generation: int) -> str | None:
    """Why nothing leads back to an event of that life; None: something may."""
    lives = await reader.store.generations(reader.run_id)
    epoch = epoch_of(lives)
    if generation >= epoch:
        return None
    cause = next(life.cause for life in lives if life.generation == epoch)
    instead = (
        f"Run all of it again with `stepfast runs rerun {reader.run_id}`."
        if cause == "rerun"
        else "To run it with what it was given before, start another run."
    )
    first = await _first_of(reader, epoch)
    return (
        f"Run {reader.run_id} began anew with event {first} ({cause}), with nothing of what came before, so it cannot "
        f"be rolled back to event {event}. {first} is the earliest that it can be rolled back to. {instead}"
    )


async def _first_of(reader: Reader, generation: int) -> int | None:
    """The number of the event with which a life began."""
    rebuilding = Rebuilding()
    async for page in reader.pages():
        for told in page:
            rebuilding.add(told)
            if rebuilding.generation >= generation:
                return told.seq
    return None


async def event_in_state(reader: Reader, state: RunState) -> int | None:
    """The number of the newest event, before the run came to its present state, at which it was in this one."""
    rebuilding, found, here, before = Rebuilding(), None, 0, RunState.PENDING
    async for page in reader.pages():
        for told in page:
            rebuilding.add(told)
            if rebuilding.state is not before and before is state:
                found = here
            here, before = told.seq, rebuilding.state
    return found


async def rollback_to(reader: Reader, to: str | int) -> Rollback:
    """The command that takes a run back to an event by its number, to a step's end, or to where it was in a state."""
    if is_event(to):
        return await _back_to(reader, check_whole("to", written(to) if isinstance(to, str) else to, 1, MAX_SEQ))
    named = check_text("to", str(to))
    if named not in STATES or await _has_step(reader, named):
        return Rollback(named)
    state = RunState(named)
    event = await event_in_state(reader, state)
    return Rollback(state=state) if event is None else await _back_to(reader, event, state)


async def _has_step(reader: Reader, name: str) -> bool:
    """Whether a step has that name, so that nothing else can be meant."""
    await reader.run()
    calls = [step.call for step in await reader.store.steps(reader.run_id)]
    return any(name in (call.address, call.name, owner_of(call)) for call in calls)


def no_event(run_id: str, number: int, last: int) -> EventNotFound:
    """The run's history is shorter than that."""
    return EventNotFound(
        f"Run {run_id} has no event {number}: there are {last}. `stepfast runs events {run_id}` lists them."
    )


def _shown(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(" ", "milliseconds")
