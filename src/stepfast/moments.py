"""A run as of an earlier event or moment: what was known of it then, and what its steps had come to."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stepfast.control import is_event, rollback_command
from stepfast.kernel.commands import Rollback
from stepfast.kernel.durations import Instant, check_instant
from stepfast.kernel.errors import EventNotFound, Invalid
from stepfast.kernel.numbers import check_whole, written
from stepfast.kernel.plan_control import owner_of
from stepfast.kernel.rebuilding import Rebuilding
from stepfast.kernel.rebuilt import Rebuilt
from stepfast.kernel.reconstruction import LargeValue, plain, plain_state
from stepfast.kernel.states import RunState, StepState
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


async def last_end_by(reader: Reader, event: int | str) -> int:
    """The number of the last record of a step's end that was made by an event of the run's history."""
    number = check_whole("to", written(event) if isinstance(event, str) else event, 1, MAX_SEQ)
    rebuilding, after = Rebuilding(), 0
    await reader.run()
    async for page in reader.pages(last=number):
        for told in page:
            rebuilding.add(told)
        after = page[-1].seq
    if after < number:
        raise no_event(reader.run_id, number, after)
    return max(_made(rebuilding, await reader.store.steps(reader.run_id)).values(), default=0)


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
        return rollback_command(to, await last_end_by(reader, to))
    if str(to) not in STATES or await _has_step(reader, str(to)):
        return rollback_command(to, 0)
    event = await event_in_state(reader, RunState(str(to)))
    return Rollback(seq=0 if event is None else await last_end_by(reader, event), event=event, state=str(to))


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
