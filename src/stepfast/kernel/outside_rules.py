"""What it means for the rows that a step has started work outside, and is to ask after it later."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stepfast.kernel.decisions import Decision, HeldRun, OpenWait, Record, Wait
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.outside import Asking
from stepfast.kernel.states import WaitKind


def go_outside(run: HeldRun, record: Record, asking: Asking, due_in_ms: int | None, closed: Sequence[int]) -> Decision:
    """A step has started work outside: from here on nobody starts it again, and the step waits for its end."""
    asked = {"handle": asking.shown_handle, "deadline_at": record.due_at, "due_in_ms": due_in_ms}
    data = json.dumps({"kind": WaitKind.OUTSIDE} | asked)
    event = Event(EventType.STEP_WAITING, record.ended_at, record.call.address, record.attempt, data=data)
    # By its room to spare a store sees that the work is to be stopped if its run ends before it does.
    wait = Wait(0, WaitKind.OUTSIDE, asking.text, record.call, due_in_ms, spare=len(asking.stopping()), size=1)
    decision = Decision(run.fence, run.tenant, run.generation, records=(record,), events=(event,), closed=closed)
    decision.opened = (wait,)
    return decision


def quiet_claim(run: HeldRun, waits: Sequence[OpenWait], label: str, now: Instant) -> Event | None:
    """What is told of a claim with the first thing that comes of it: stores leave it out where that may be nothing.

    A day of answers that say "not yet" leaves no events behind.
    """
    if run.claims > 1 and any(wait.kind is WaitKind.OUTSIDE and wait.due_at is not None for wait in waits):
        return Event(EventType.CLAIMED, now, data=json.dumps({"worker": run.worker_id, "label": label}))
    return None


def nothing_came(run: HeldRun, waits: Sequence[Wait]) -> bool:
    """Whether nothing has come of such a claim but that its run asks again later."""
    return bool(waits) and [event.type for event in run.riders] == [EventType.CLAIMED]


def put_off(decision: Decision, waits: Sequence[Wait]) -> Decision:
    """With what is decided, waits that are to last longer are opened anew in their own place."""
    if waits:
        decision.closed = (*decision.closed, *(wait.wait_id for wait in waits))
        decision.opened = (*decision.opened, *waits)
    return decision
