"""What a run's code coming to an end, a step's outcome, or a stop of its worker means for the rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from stepfast.kernel.decisions import (
    CallId,
    Continue,
    DeadLetter,
    Decision,
    HandBack,
    HeldRun,
    Message,
    NewRun,
    Outcome,
    Park,
    Record,
    Wait,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.event_data import RECORDED, due_in, signal_data
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.plan_rules import completed_type
from stepfast.kernel.reviews import ItemKind, NewReview, ReviewId
from stepfast.kernel.states import PENDING_WAITS, RunState, StepState, WaitKind, check_move

SHORT_MESSAGE = 200
# A pause before the next attempt that is shorter is cheaper to sit out than to park for.
RELEASING_MS = 1_000


class Failed(NamedTuple):
    """How a run's code failed: the stored error, its type and message, and the step that it came from, if any."""

    error: str
    error_type: str
    message: str
    step: str | None = None


def started_step(call: CallId, attempt: int, now: Instant) -> Event:
    """The rider that shows a step while it runs."""
    return Event(EventType.STEP_STARTED, now, call.address, attempt)


def begin_step(run: HeldRun, record: Record) -> Decision:
    """A step's first attempt begins, and when it did is kept: the time for all its attempts counts from there."""
    event = started_step(record.call, record.attempt, record.started_at)._replace(data=RECORDED)
    return Decision(run.fence, run.tenant, run.generation, records=(record,), events=(event,))


def record_step(run: HeldRun, record: Record, closed: Sequence[int] = ()) -> Decision:
    """A step has its result, or has failed for good; a backoff that came before is over."""
    event_type = completed_type(record) if record.state is StepState.COMPLETED else EventType.STEP_FAILED
    event = Event(event_type, record.ended_at, record.call.address, record.attempt)
    return Decision(run.fence, run.tenant, run.generation, records=(record,), events=(event,), closed=closed)


def schedule_retry(run: HeldRun, record: Record, delay_ms: int, closed: Sequence[int] = ()) -> Decision:
    """A step's attempt failed and another follows at `record.due_at`; the run may park till then."""
    data = json.dumps({"due_at": record.due_at})
    events = (
        Event(EventType.STEP_FAILED, record.ended_at, record.call.address, record.attempt),
        Event(EventType.RETRY_SCHEDULED, record.ended_at, record.call.address, record.attempt, data=data),
    )
    decision = Decision(run.fence, run.tenant, run.generation, records=(record,), events=events, closed=closed)
    if delay_ms >= RELEASING_MS:
        decision.opened = (Wait(0, WaitKind.BACKOFF, record.call.name, record.call, delay_ms),)
    return decision


def complete(run: HeldRun, value: str, now: Instant) -> Decision:
    """The code of a run returned."""
    check_move(run.run_id, RunState.RUNNING, "complete")
    outcome = Outcome(RunState.COMPLETED, value, None, now, run.joins)
    return Decision(run.fence, run.tenant, run.generation, events=(Event(EventType.COMPLETED, now),), outcome=outcome)


def continue_as(run: HeldRun, text: str, now: Instant) -> Decision:
    """The code of a run starts over with new input, as the next generation of the same run."""
    check_move(run.run_id, RunState.RUNNING, "continue_as")
    events = (Event(EventType.CONTINUED, now),)
    release = Continue(run.version, run.code, text, definition=run.definition)
    return Decision(run.fence, run.tenant, run.generation, events=events, release=release)


def fail(run: HeldRun, failure: Failed, now: Instant) -> Decision:
    """The code of a run raised; a run that no other run awaits becomes a dead letter in the same commit."""
    check_move(run.run_id, RunState.RUNNING, "fail")
    error, error_type, message, step = failure
    events, is_letter = failing(run.joins is None or run.leave, error_type, message, now)
    outcome = Outcome(RunState.FAILED, None, error, now, run.joins)
    decision = Decision(run.fence, run.tenant, run.generation, events=events, outcome=outcome)
    if is_letter:
        decision.dead_letter = DeadLetter(run.workflow, run.version, error_type, message[:SHORT_MESSAGE], step)
    return decision


def failing(is_own: bool, error_type: str, message: str, now: Instant) -> tuple[tuple[Event, ...], bool]:
    """The events of a run that fails for good, and whether it becomes a dead letter: one that is its own does.

    A child that may outlive its parent is: whether anybody still hears of its failure, nobody can tell when it fails.
    """
    data = json.dumps({"error_type": error_type, "message": message[:SHORT_MESSAGE]})
    failed = Event(EventType.FAILED, now, data=data)
    if not is_own:
        return (failed,), False
    opened = Event(EventType.EXCEPTION_OPENED, now, data=_kind(ItemKind.FAILED))
    # One commit writes them all, so no crash can leave them in part or out of order.
    return (opened, Event(EventType.DLQ_PENDING, now), Event(EventType.DLQ_RECORDED, now), failed), True


def open_wait(run: HeldRun, record: Record, wait: Wait, children: Sequence[NewRun] = ()) -> Decision:
    """The code begins to wait for something; the children that it waits for are started in the same commit."""
    data = json.dumps({"kind": wait.kind, "name": wait.name} | due_in(wait))
    event = Event(EventType.STEP_WAITING, record.started_at, record.call.address, data=data)
    return Decision(
        run.fence, run.tenant, run.generation, records=(record,), events=(event,), opened=(wait,), children=children
    )


def open_review(run: HeldRun, record: Record, wait: Wait, review: NewReview) -> Decision:
    """The code begins to wait for a person; the question and its exception item are in the same commit."""
    asked = {"title": review.title, "digest": review.digest, "kind": review.kind, **review.owner._asdict()}
    data = json.dumps(asked | due_in(wait))
    events = (
        Event(EventType.REVIEW_REQUESTED, record.started_at, record.call.address, data=data),
        Event(EventType.EXCEPTION_OPENED, record.started_at, record.call.address, data=_kind(review.kind)),
    )
    decision = Decision(run.fence, run.tenant, run.generation, records=(record,), events=events)
    decision.opened, decision.reviews = (wait,), (review,)
    return decision


def _kind(kind: ItemKind) -> str:
    return json.dumps({"kind": kind})


def start_more(run: HeldRun, call: CallId, children: Sequence[NewRun], started: int, now: Instant) -> Decision:
    """More children of a group that is open already; `started` is how many it has with them."""
    data = json.dumps({"kind": WaitKind.CHILDREN, "name": children[0].code, "started": started})
    event = Event(EventType.STEP_WAITING, now, call.address, data=data)
    return Decision(run.fence, run.tenant, run.generation, events=(event,), children=children)


def start_child(run: HeldRun, record: Record, wait: Wait, child: NewRun) -> Decision:
    """The code starts a child without waiting for it; the group that it will be joined by is open from here on."""
    decision = record_step(run, record)
    told = json.dumps({"kind": wait.kind, "name": wait.name, "run_id": child.run_id})
    decision.events = [event._replace(data=told) for event in decision.events]
    decision.opened, decision.children = (wait,), (child,)
    return decision


def end_wait(run: HeldRun, record: Record, closed: Sequence[int], taken: Message | None = None) -> Decision:
    """What the code waited for has come, or its time is over."""
    decision = record_step(run, record, closed)
    if taken is not None:
        decision.taken = (taken.n,)
    return decision


def take(run: HeldRun, message: Message) -> Decision:
    """The code has been given a signal: it is used up, and told of if nobody has done so yet."""
    events = () if message.told else (signalled(message),)
    return Decision(run.fence, run.tenant, run.generation, events=events, taken=(message.n,))


def signalled(message: Message) -> Event:
    """A message that came while the run was held, told by its holder."""
    data = signal_data(message.name, message.n, message.reason, message.cause)
    return Event(EventType.SIGNALLED, message.at, actor=message.actor, data=data)


def call_off(run: HeldRun, record: Record, closed: Sequence[int] = (), review: ReviewId | None = None) -> Decision:
    """The code no longer wants what it began: it is not done again, and the run must not be woken for it."""
    data = None if review is None else json.dumps({"review_id": str(review)})
    event = Event(EventType.STEP_CANCELLED, record.ended_at, record.call.address, record.attempt, data=data)
    return Decision(run.fence, run.tenant, run.generation, records=(record,), events=(event,), closed=closed)


def park(run: HeldRun, now: Instant, kinds: Collection[WaitKind] = (), due_at: Instant | None = None) -> Decision:
    """Every branch of the run waits: it holds nothing more, unless something has come meanwhile."""
    is_put_off = bool(kinds) and PENDING_WAITS.issuperset(kinds)
    check_move(run.run_id, RunState.RUNNING, "back_off" if is_put_off else "wait")
    event = Event(EventType.WAITING, now, data=json.dumps({"kind": WaitKind.BACKOFF}) if is_put_off else None)
    return Decision(run.fence, run.tenant, run.generation, events=(event,), release=Park(run.wakes, due_at))


def emit(run: HeldRun, record: Record, event: str, data: str) -> Decision:
    """The workflow tells something of its own."""
    told = Event(event, record.ended_at, record.call.address, data=data)
    return Decision(run.fence, run.tenant, run.generation, records=(record,), events=(told,))


def progress(call: CallId | None, now: Instant, data: str) -> Event:
    """How far a step, or the whole run, has got."""
    return Event(EventType.STEP_PROGRESS, now, call.address if call else None, data=data)


def flush_riders(run: HeldRun) -> Decision:
    """Nothing but what goes along with every commit of the run."""
    return Decision(run.fence, run.tenant, run.generation)


CODE_WAIT_ID = -1
HAND_BACK_WAIT_ID = 0


def wait_for_code(run: HeldRun, reason: str, now: Instant) -> Decision:
    """The records do not fit the code: the run waits, whole, until a worker with other code announces itself."""
    check_move(run.run_id, RunState.RUNNING, "wait")
    wait = Wait(CODE_WAIT_ID, WaitKind.CODE, run.code, CallId("", run.code, 1))
    events = (
        Event(EventType.EXCEPTION_OPENED, now, data=_kind(ItemKind.BLOCKED)),
        Event(EventType.WAITING, now, data=json.dumps({"kind": WaitKind.CODE, "reason": reason})),
    )
    return Decision(run.fence, run.tenant, run.generation, events=events, opened=(wait,), release=Park(run.wakes))


def hold_back(run: HeldRun, told: Sequence[Message], now: Instant) -> Decision:
    """A person holds the run, and its steps under way are recorded: it goes back, and nobody takes it till resumed."""
    decision = _told(run, told)
    handed_back = Event(EventType.HANDED_BACK, now, data=json.dumps({"reason": "paused"}))
    decision.events = (handed_back, *decision.events)
    decision.release = HandBack()
    return decision


def tell_commands(run: HeldRun, told: Sequence[Message], now: Instant) -> Decision:
    """Commands that came while the run was held, and that hold it no more, told by its holder."""
    decision = _told(run, told)
    holding = [message.kind for message in told if message.kind in HOLDING]
    if holding and holding[-1] == EventType.PAUSED:
        # Its holder was lost before it could tell of the pause; the end of the pause is in the history already.
        data = json.dumps({"reason": "the pause was over before it was told"})
        decision.events = (*decision.events, Event(EventType.RESUMED, now, data=data))
    return decision


def _told(run: HeldRun, told: Sequence[Message]) -> Decision:
    return Decision(
        *(run.fence, run.tenant, run.generation),
        events=tuple(owed_event(each) for each in told),
        taken=tuple(each.n for each in told),
    )


def owed_event(message: Message) -> Event:
    """What the holder of a run was left to tell."""
    return Event(EventType(message.kind), message.at, message.name or None, actor=message.actor, data=message.value)


HOLDING = (EventType.PAUSED.value, EventType.RESUMED.value)
COMMAND_KINDS = frozenset(
    {
        *HOLDING,
        EventType.REVIEW_ANSWERED.value,
        EventType.REVIEW_DECIDED.value,
        EventType.REVIEW_EXPIRED.value,
        EventType.REVIEW_ESCALATED.value,
        EventType.REVIEW_ASSIGNED.value,
        EventType.REVIEW_COMMENTED.value,
        EventType.TOKEN_ISSUED.value,
        EventType.RESUME_SUBMITTED.value,
        EventType.CALLBACK_SUBMITTED.value,
        EventType.STEP_PROGRESS.value,
        EventType.EXCEPTION_ASSIGNED.value,
        EventType.EXCEPTION_COMMENTED.value,
        EventType.EXCEPTION_RESOLVED.value,
        EventType.ANNOTATED.value,
    }
)
"""The messages that are nothing but events which the holder of a run owes."""


def try_again(run: HeldRun, failure: Failed, superseded: Sequence[CallId], delay_ms: int, now: Instant) -> Decision:
    """The code of a run raised, and its own policy gives it another try, without the failures that ended this one."""
    check_move(run.run_id, RunState.RUNNING, "back_off")
    data = {"due_at": now + delay_ms, "error_type": failure.error_type, "message": failure.message[:SHORT_MESSAGE]}
    data["steps"] = [call.address for call in superseded]
    event = Event(EventType.RETRY_SCHEDULED, now, attempt=run.tries + 1, data=json.dumps(data))
    state, calls = RunState.FAILED, tuple(superseded)
    release = Continue(run.version, run.code, run.input, "retry", state, failure.error, calls, delay_ms, run.definition)
    return Decision(run.fence, run.tenant, run.generation, events=(event,), release=release)


def hand_back(
    run: HeldRun, reason: str, now: Instant, delay_ms: int = 0, told: Mapping[str, object] | None = None
) -> Decision:
    """The holder gives the run back whole: what is recorded stays, the rest is run again by the next holder."""
    check_move(run.run_id, RunState.RUNNING, "hand_back")
    later = {"due_at": now + delay_ms} if delay_ms > 0 else {}
    event = Event(EventType.HANDED_BACK, now, data=json.dumps({"reason": reason, **later, **(told or {})}))
    return Decision(run.fence, run.tenant, run.generation, events=(event,), release=HandBack(delay_ms))
