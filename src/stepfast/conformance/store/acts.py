"""Short ways to say what a run's holder decides, as the engine has it."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID, uuid5

from stepfast.kernel.decisions import (
    CallId,
    Continue,
    DeadLetter,
    Decision,
    HandBack,
    HeldRun,
    Joins,
    Outcome,
    Park,
    Record,
    Wait,
)
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.exchange import DeadRun
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.reviews import ANYBODY, ItemKind, NewReview, Verdict
from stepfast.kernel.rules import open_review
from stepfast.kernel.states import RunState, StepState, WaitKind
from stepfast.kernel.views import EventView

NOON = Instant(1_700_000_000_000)
LEASE_MS = 30_000
HOUR_MS = 3_600_000
ROUNDS = 10
MANY = 20
VERDICT = DeadRun('{"type": "RunCrashed"}', "RunCrashed", "E-RUN-002: it took its worker down too often.")

QUESTION = NewReview(
    wait_id=1,
    step="ask#1",
    kind=ItemKind.REVIEW_REQUIRED,
    title="May it go out?",
    shown='{"total": 12}',
    digest="d1",
    verdicts=(Verdict.CONTINUE, Verdict.REJECT, Verdict.CORRECT, Verdict.ESCALATE),
    schema=None,
    owner=ANYBODY,
    quorum=1,
    quorum_reject=1,
    expires_ms=None,
    on_expiry="fail",
    escalate_to=ANYBODY,
)

_WORKERS = UUID("6a0c1f2e-0000-4000-8000-000000000000")
_END_EVENTS = {RunState.COMPLETED: EventType.COMPLETED, RunState.CANCELLED: EventType.CANCELLED}


def worker(name: str) -> WorkerId:
    """The id of the worker that a test calls so."""
    return WorkerId(str(uuid5(_WORKERS, name)))


def told_by(event: EventView) -> Any:
    """What an event says besides its type."""
    return None if event.data is None else json.loads(event.data)


def decide(run: HeldRun, event: EventType = EventType.STEP_COMPLETED, **changes: Any) -> Decision:
    """A decision of a run's holder with one event; the holder counts on, as the engine's committer does."""
    events = changes.pop("events", (Event(event, NOON),))
    records = changes.get("records", ())
    decision = Decision(run.fence, run.tenant, run.generation, events=events, **changes)
    decision.first_seq, decision.first_event = run.last_seq + 1, run.last_event + 1
    run.last_seq += len(records)
    run.last_event += len(events)
    return decision


def record(name: str = "charge", nth: int = 0, value: str | None = "1") -> Record:
    return Record(CallId("", name, nth), "step", StepState.COMPLETED, 1, "d", "[]", value, None, NOON, NOON)


def step(run: HeldRun, name: str = "charge", value: str | None = "1") -> Decision:
    return decide(run, records=(record(name, run.last_seq, value),))


def end(run: HeldRun, state: RunState = RunState.COMPLETED) -> Decision:
    event = _END_EVENTS.get(state, EventType.FAILED)
    return decide(run, event, outcome=Outcome(state, "1", None, NOON, run.joins))


def fail(run: HeldRun, step: str | None = None, error_type: str = "ValueError") -> Decision:
    """The end of a run whose code raised: a dead letter, unless another run awaits it."""
    error = json.dumps({"type": error_type, "message": "no", "step": step})
    outcome = Outcome(RunState.FAILED, None, error, NOON, run.joins)
    if run.joins is not None:
        return decide(run, EventType.FAILED, outcome=outcome)
    kinds = (EventType.EXCEPTION_OPENED, EventType.DLQ_PENDING, EventType.DLQ_RECORDED, EventType.FAILED)
    letter = DeadLetter(run.workflow, run.version, error_type, "no", step)
    return decide(run, events=tuple(Event(kind, NOON) for kind in kinds), outcome=outcome, dead_letter=letter)


def park(run: HeldRun, *waits: Wait, wakes: int | None = None) -> Decision:
    seen = run.wakes if wakes is None else wakes
    return decide(run, EventType.WAITING, opened=waits, release=Park(seen))


def hand_back(run: HeldRun, delay_ms: int = 0) -> Decision:
    return decide(run, EventType.HANDED_BACK, release=HandBack(delay_ms))


def wait(wait_id: int = 1, kind: WaitKind = WaitKind.SIGNAL, **changes: Any) -> Wait:
    return Wait(wait_id, kind, "paid", CallId("", "receive", 0))._replace(**changes)


def asked(run: HeldRun, **changes: Any) -> Decision:
    """The opening of a review: its record, its wait, its question and its events, numbered as a committer does."""
    number = run.last_seq + 1
    call = CallId("", "ask", number)
    record = Record(call, "ask", StepState.COMPLETED, 1, "d", "[]", "null", None, NOON, NOON)
    review = QUESTION._replace(wait_id=number, step=call.address, **changes)
    opening = open_review(run, record, Wait(number, WaitKind.REVIEW, review.title, call, review.expires_ms), review)
    opening.first_seq, opening.first_event = number, run.last_event + 1
    run.last_seq, run.last_event = number, run.last_event + len(opening.events)
    return opening


def joins(parent: HeldRun, wait_id: int = 1) -> Joins:
    return Joins(parent.run_id, wait_id)


def try_again(run: HeldRun, *superseded: CallId, **changes: Any) -> Continue:
    """What the policy of a run says when it is to be tried again."""
    error = '{"type":"ValueError"}'
    return Continue(1, "order@1", run.input, "retry", RunState.FAILED, error, superseded)._replace(**changes)


def continued(run: HeldRun, release: Continue) -> Decision:
    return decide(run, EventType.RETRY_SCHEDULED if release.is_retry else EventType.CONTINUED, release=release)
