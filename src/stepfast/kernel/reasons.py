"""Why a run stands where it stands: what it waits for, and who or what can move it."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import NamedTuple

from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Look
from stepfast.kernel.ids import RunId
from stepfast.kernel.seen import Reason, Seen, fields_of, lacking, moment, takers
from stepfast.kernel.states import ENDED, RunState, WaitKind
from stepfast.kernel.texts import class_name, counted
from stepfast.kernel.views import EventView, RunView
from stepfast.kernel.wait_reasons import is_hand_back, is_put_off, is_timed, waits

# Of many steps, so many are named.
TOLD_STEPS = 5


class Why(NamedTuple):
    """Why a run is in its state; as text, one line for each reason."""

    run_id: RunId
    state: RunState
    reasons: tuple[Reason, ...]

    @property
    def lines(self) -> list[str]:
        """The state, then each reason; what people wrote may hold ends of lines of its own."""
        return [f"Run {self.run_id} is {self.state}.", *map(str, self.reasons)]

    def __str__(self) -> str:
        return "\n".join(self.lines)


def telling_events(view: RunView, look: Look | None) -> frozenset[str]:
    """The types of events that say who brought a run to where it is, or why."""
    if view.state is RunState.CANCELLED:
        return frozenset({EventType.CANCELLED})
    if view.state is RunState.PAUSED:
        return frozenset({EventType.PAUSED, EventType.ROLLED_BACK})
    if look is not None and any(wait.kind is WaitKind.CODE for wait in look.waits):
        return frozenset({EventType.WAITING})
    return frozenset()


def putting_off_events(look: Look | None) -> frozenset[str]:
    """The types of events that say why the whole run is tried again later; a person may hold it besides."""
    if look is not None and any(is_hand_back(wait) for wait in look.waits):
        return frozenset({EventType.HANDED_BACK, EventType.RETRY_SCHEDULED})
    return frozenset()


def explain(seen: Seen) -> Why:
    """Everything that a run waits for now; an ended one says how it ended."""
    return Why(seen.run.run_id, seen.run.state, tuple(_reasons(seen)))


def _reasons(seen: Seen) -> Iterator[Reason]:
    run = seen.run
    if run.state in ENDED:
        yield _end(seen)
        yield from _kept(seen)
        return
    if run.state is RunState.PAUSED:
        yield _pause(seen)
        yield from waits(seen)
    elif run.worker_id is not None:
        yield from _holder(seen)
    elif run.state is RunState.WAITING or (run.state is RunState.PENDING and is_put_off(seen)):
        yield from waits(seen)
        yield from _nobody_in_time(seen)
    else:
        yield from _line(seen)
    if seen.look is not None and seen.look.deadline_at is not None:
        yield _deadline(seen.look.deadline_at)


def _deadline(at: Instant) -> Reason:
    """What ends the run whatever else it waits for."""
    return Reason("deadline", f"Its time is over at {moment(at)}.", "If it has not ended by then, it fails.", at)


def _end(seen: Seen) -> Reason:
    run, told = seen.run, seen.told
    at = moment(run.ended_at or run.updated_at)
    if run.state is RunState.CANCELLED:
        text = f"It was cancelled{_by(told)} at {at}{_because(told)}"
        return Reason("ended", text, f"`stepfast runs rerun {run.run_id}` starts it again.")
    if run.state is RunState.FAILED:
        error = fields_of(run.error)
        kind, message = class_name(str(error.get("type", ""))), error.get("message", "")
        text = f"It failed at {at} with {kind}: {message}".rstrip(" :.") + "."
        return Reason("ended", text, f"`stepfast runs retry {run.run_id}` opens a new generation.")
    if run.state is RunState.PARTIAL:
        text = f"It ended in part at {at}: {fields_of(run.error).get('message') or 'some of its steps failed'}."
        return Reason("ended", text, f"`stepfast runs retry {run.run_id}` does these again.")
    return Reason("ended", f"It ended at {at}.", "Nothing moves it any more but a rerun or a rollback.")


def _kept(seen: Seen) -> Iterator[Reason]:
    """What a retry would not do again, so that code which fails because of it fails the same way."""
    if not seen.caught:
        return
    run_id, first, more = seen.run.run_id, seen.caught[0], len(seen.caught) - TOLD_STEPS
    named = ", ".join(seen.caught[:TOLD_STEPS]) + (f" and {more:,} more" if more > 0 else "")
    text = f"Its code had caught failures, which a retry keeps: {named}."
    again = f"`stepfast runs retry {run_id} --step {quote(first)}` does that step and all after it again"
    yield Reason("caught", text, f"{again}, `stepfast runs rerun {run_id}` everything.")


def _pause(seen: Seen) -> Reason:
    told = seen.told
    since = f" at {moment(told.at)}" if told else ""
    text = f"It was paused{_by(told)}{since}{_because(told)}"
    return Reason("paused", text, f"`stepfast runs resume {seen.run.run_id}` lets it go on.")


def _holder(seen: Seen) -> Iterator[Reason]:
    run, look = seen.run, seen.look
    holder = next((worker for worker in seen.workers if worker.worker_id == run.worker_id), None)
    if look is not None and look.hold:
        yield Reason("pausing", "A pause was asked for.", "It holds as soon as the steps under way are recorded.")
    if holder is None:
        yield Reason("leased", f"It is leased by worker {run.worker_id}.", "That worker goes on with it.")
        return
    name = f"worker {holder.worker_id} ({holder.label}, host {holder.host})"
    if holder.is_alive(seen.now):
        text = f"It is leased by {name} since {moment(run.updated_at)}."
        yield Reason("leased", text, "That worker goes on with it.")
    else:
        text = f"It is leased by {name}, which was last heard of at {moment(holder.seen_at)}."
        yield Reason("lost", text, _upkeep(seen))


def _upkeep(seen: Seen) -> str:
    if any(worker.is_alive(seen.now) for worker in seen.workers):
        return "The upkeep of any live worker gives it back to the line."
    return "No live worker is there to give it back to the line: start one with `stepfast worker`."


def _line(seen: Seen) -> Iterator[Reason]:
    run = seen.run
    if run.crashes:
        text = f"Its workers died {counted(run.crashes, 'time')} while they held it."
        yield Reason("suspect", text, "It is taken by a worker that holds few other runs, or none.")
    yield takers(seen)


def _nobody_in_time(seen: Seen) -> Iterator[Reason]:
    """What is missing for a run that time alone would move: somebody who takes it when its time has come."""
    if is_timed(seen) and (lack := lacking(seen, seen.run.workflow, seen.run.code, seen.run.queue)) is not None:
        yield lack


def _by(told: EventView | None) -> str:
    return f" by {told.actor}" if told is not None and told.actor else ""


def _because(told: EventView | None) -> str:
    reason = fields_of(told.data).get("reason") if told is not None else None
    if not reason:
        return "."
    return f": {reason}" if str(reason).endswith((".", "!", "?")) else f": {reason}."
