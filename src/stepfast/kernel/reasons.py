"""Why a run stands where it stands: what it waits for, and who or what can move it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple, assert_never

from stepfast.kernel.decisions import OpenWait
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import Look
from stepfast.kernel.ids import RunId
from stepfast.kernel.outside import Asking
from stepfast.kernel.reviews import ANYBODY, Owner, ReviewId
from stepfast.kernel.rules import HAND_BACK_WAIT_ID
from stepfast.kernel.states import ENDED, PENDING_WAITS, RunState, WaitKind
from stepfast.kernel.texts import class_name, counted
from stepfast.kernel.troubles import trouble_of
from stepfast.kernel.views import EventView, RunView, WorkerView


class Reason(NamedTuple):
    """One thing that a run waits for, in a sentence, and in another who or what can move it."""

    kind: str
    text: str
    moved_by: str
    due_at: Instant | None = None

    def __str__(self) -> str:
        return f"{self.text} {self.moved_by}".rstrip()


class Why(NamedTuple):
    """Why a run is in its state; as text, one line for each reason."""

    run_id: RunId
    state: RunState
    reasons: tuple[Reason, ...]

    def __str__(self) -> str:
        return "\n".join([f"Run {self.run_id} is {self.state}.", *map(str, self.reasons)])


class Seen(NamedTuple):
    """All that the answer rests on, as read from the store."""

    run: RunView
    look: Look | None
    workers: Sequence[WorkerView]
    told: EventView | None
    """The newest event of a type that `telling_events` names."""
    now: Instant
    owners: Mapping[int, Owner] = MappingProxyType({})
    """Who is asked by the reviews that are open, by the number of their wait."""


def telling_events(view: RunView, look: Look | None) -> frozenset[str]:
    """The types of events that say who brought a run to where it is, or why."""
    if view.state is RunState.CANCELLED:
        return frozenset({EventType.CANCELLED})
    if view.state is RunState.PAUSED:
        return frozenset({EventType.PAUSED, EventType.ROLLED_BACK})
    if look is not None and any(wait.kind is WaitKind.CODE for wait in look.waits):
        return frozenset({EventType.WAITING})
    if look is not None and any(_is_hand_back(wait) for wait in look.waits):
        return frozenset({EventType.HANDED_BACK})
    return frozenset()


def explain(seen: Seen) -> Why:
    """Everything that a run waits for now; an ended one says how it ended."""
    return Why(seen.run.run_id, seen.run.state, tuple(_reasons(seen)))


def _reasons(seen: Seen) -> Iterator[Reason]:
    run = seen.run
    if run.state in ENDED:
        yield _end(seen)
    elif run.state is RunState.PAUSED:
        yield _pause(seen)
        yield from _waits(seen)
    elif run.worker_id is not None:
        yield from _holder(seen)
    elif run.state is RunState.WAITING or _is_put_off(seen):
        yield from _waits(seen)
    else:
        yield from _line(seen)


def _end(seen: Seen) -> Reason:
    run, told = seen.run, seen.told
    at = _moment(run.ended_at or run.updated_at)
    if run.state is RunState.CANCELLED:
        text = f"It was cancelled{_by(told)} at {at}{_because(told)}"
        return Reason("ended", text, f"`stepfast runs rerun {run.run_id}` starts it again.")
    if run.state is RunState.FAILED:
        error = _json(run.error)
        kind, message = class_name(str(error.get("type", ""))), error.get("message", "")
        text = f"It failed at {at} with {kind}: {message}".rstrip(" :.") + "."
        return Reason("ended", text, f"`stepfast runs retry {run.run_id}` opens a new generation.")
    if run.state is RunState.PARTIAL:
        text = f"It ended in part at {at}: {_json(run.error).get('message') or 'some of its steps failed'}."
        return Reason("ended", text, f"`stepfast runs retry {run.run_id}` does these again.")
    return Reason("ended", f"It ended at {at}.", "Nothing moves it any more but a rerun.")


def _pause(seen: Seen) -> Reason:
    told = seen.told
    since = f" at {_moment(told.at)}" if told else ""
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
        text = f"It is leased by {name} since {_moment(run.updated_at)}."
        yield Reason("leased", text, "That worker goes on with it.")
    else:
        text = f"It is leased by {name}, which was last heard of at {_moment(holder.seen_at)}."
        yield Reason("lost", text, _upkeep(seen))


def _upkeep(seen: Seen) -> str:
    if any(worker.is_alive(seen.now) for worker in seen.workers):
        return "The upkeep of any live worker gives it back to the line."
    return "No live worker is there to give it back to the line: start one with `stepfast worker`."


def _is_put_off(seen: Seen) -> bool:
    return any(wait.kind in PENDING_WAITS and _is_ahead(wait, seen.now) for wait in _open_waits(seen))


def _waits(seen: Seen) -> Iterator[Reason]:
    for wait in _open_waits(seen):
        yield _wait(wait, seen)


def _open_waits(seen: Seen) -> Sequence[OpenWait]:
    return seen.look.waits if seen.look is not None else ()


def _wait(wait: OpenWait, seen: Seen) -> Reason:
    run_id, until = seen.run.run_id, _until(wait)
    match wait.kind:
        case WaitKind.DELAY:
            text, mover = f"It is put off{until}.", "Time moves it."
        case WaitKind.BACKOFF:
            text, mover = _backoff(wait, seen)
        case WaitKind.TIME:
            text, mover = f"It sleeps{until}.", "Time moves it."
        case WaitKind.SIGNAL:
            text = f"It waits for signal {wait.name!r}{until}."
            mover = f"`stepfast runs signal {run_id} {wait.name}` sends it."
        case WaitKind.REVIEW:
            text, mover = _review(wait, seen)
        case WaitKind.CHILDREN:
            text, mover = f"It waits for {_children(wait)}{until}.", _movers_of_children(wait, seen)
        case WaitKind.OUTSIDE:
            text, mover = _outside(wait)
        case WaitKind.CODE:
            text, mover = _code_wait(wait, seen)
        case _:
            assert_never(wait.kind)
    if wait.due_at is not None and not _is_ahead(wait, seen.now):
        mover = f"Its time has come: {_takers(seen).moved_by}"
    return Reason(wait.kind, text, mover, wait.due_at)


def _review(wait: OpenWait, seen: Seen) -> tuple[str, str]:
    review_id = ReviewId(seen.run.run_id, wait.wait_id)
    assignee, role = seen.owners.get(wait.wait_id, ANYBODY)
    asked = f", for {assignee}" if assignee else f", for role {role}" if role else ""
    until = f",{_until(wait)}" if asked and wait.due_at is not None else _until(wait)
    text = f"It waits for review {wait.name!r} ({review_id}){asked}{until}."
    return text, f"`stepfast reviews decide {review_id}` answers it."


def waits_for_people(look: Look | None) -> bool:
    """Whether a run waits for an answer, so that one must ask who is to give it."""
    return look is not None and any(wait.kind is WaitKind.REVIEW for wait in look.waits)


def _children(wait: OpenWait) -> str:
    still_open = wait.total - wait.got - wait.failed
    failed = f" ({wait.failed} failed)" if wait.failed else ""
    return f"{still_open} of {wait.total} children of {wait.name}{failed}"


def _movers_of_children(wait: OpenWait, seen: Seen) -> str:
    # Only an executor's name stands there without a version; of a workflow each child tells by itself.
    live = [worker for worker in seen.workers if worker.is_alive(seen.now)]
    is_missing = live and not any(wait.name in worker.codes for worker in live)
    if "@" in wait.name or not is_missing:
        return "Their ends move it."
    return f"Their ends move it, and no live worker has executor {wait.name}: start one whose app has it."


def _backoff(wait: OpenWait, seen: Seen) -> tuple[str, str]:
    trouble = trouble_of(seen.told) if seen.told and _is_hand_back(wait) else None
    if trouble is None:
        return f"It is backing off{_until(wait)}.", "Time moves it."
    times = "once" if trouble.number == 1 else f"{trouble.number} times in a row"
    at = "" if wait.due_at is None else f" at {_moment(wait.due_at)}"
    text = f"It was handed back {times} and is tried again{at}: {trouble.reason}"
    return text, "Put that right, and time moves it."


def _outside(wait: OpenWait) -> tuple[str, str]:
    asking = Asking.read(wait.name)
    text = f"Step {asking.step} waits for outside work (handle {asking.shown_handle})"
    if not asking.polled:
        return f"{text}{_until(wait)}.", "Its call back moves it."
    again = "" if wait.due_at is None else f", asked again at {_moment(wait.due_at)}"
    last = f" The last question failed: {asking.error.rstrip('.')}." if asking.error else ""
    return f"{text}{again}.{last}", "An answer, or its call back, moves it."


def _is_hand_back(wait: OpenWait) -> bool:
    """Whether it is a wait of the whole run; the backoff of a step has the number of its record."""
    return wait.kind is WaitKind.BACKOFF and wait.wait_id == HAND_BACK_WAIT_ID


def _code_wait(wait: OpenWait, seen: Seen) -> tuple[str, str]:
    reason = _json(seen.told.data).get("reason") if seen.told else None
    lacks = f"It waits for code of {wait.name} that fits: {reason}"
    text = lacks if reason else f"Its records do not fit the code of {wait.name}."
    return text, "A worker with other code that announces itself moves it."


def _line(seen: Seen) -> Iterator[Reason]:
    run = seen.run
    if run.crashes:
        text = f"Its workers died {run.crashes} times while they held it."
        yield Reason("suspect", text, "It is taken by a worker that holds few other runs, or none.")
    yield _takers(seen)


def _takers(seen: Seen) -> Reason:
    """Who can take the run out of the line, or what is missing for that."""
    run, code = seen.run, seen.run.code
    live = [worker for worker in seen.workers if worker.is_alive(seen.now)]
    knowing = [worker for worker in live if code in worker.codes]
    serving = [worker for worker in knowing if run.queue in worker.queues]
    if not live:
        return Reason("worker", "No worker is alive.", "Start one with `stepfast worker`.")
    # A step that is a run of its own has the name of its executor for its code.
    what = f"executor {code}" if code == run.workflow else code
    problem = next((worker.lacks[code] for worker in live if code in worker.lacks), None)
    if not knowing and problem is not None:
        text = f"No live worker can execute {what}: {problem}".rstrip(".") + "."
        return Reason("code", text, "Start one that has what is missing.")
    if not knowing:
        return Reason("code", f"No live worker has {what}.", "Start one whose app has it.")
    if not serving:
        text = f"No live worker that has {what} serves queue {run.queue}."
        return Reason("queue", text, f"Start one with `stepfast worker --queues {run.queue}`.")
    workers = counted(len(serving), "worker serves", "workers serve")
    text = f"It is queued in {run.queue} since {_moment(run.updated_at)}; {workers} it."
    return Reason("line", text, "The next of them with a free slot takes it.")


def _is_ahead(wait: OpenWait, now: Instant) -> bool:
    return wait.due_at is not None and wait.due_at > now


def _until(wait: OpenWait) -> str:
    return "" if wait.due_at is None else f" until {_moment(wait.due_at)}"


def _by(told: EventView | None) -> str:
    return f" by {told.actor}" if told is not None and told.actor else ""


def _because(told: EventView | None) -> str:
    reason = _json(told.data).get("reason") if told is not None else None
    if not reason:
        return "."
    return f": {reason}" if str(reason).endswith((".", "!", "?")) else f": {reason}."


def _json(text: str | None) -> dict[str, Any]:
    told = json.loads(text) if text else {}
    return told if isinstance(told, dict) else {}


def _moment(at: Instant) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC")
