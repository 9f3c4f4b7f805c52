"""What it means for the rows that a step has started work outside, and is to ask after it later."""

from __future__ import annotations

import json
from collections.abc import Sequence

from stepfast.kernel.decisions import Decision, HeldRun, Record, Wait
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.outside import Asking
from stepfast.kernel.states import WaitKind


def go_outside(run: HeldRun, record: Record, asking: Asking, due_in_ms: int | None, closed: Sequence[int]) -> Decision:
    """A step has started work outside: from here on nobody starts it again, and the step waits for its end."""
    data = json.dumps({"kind": WaitKind.OUTSIDE, "handle": asking.shown_handle, "deadline_at": record.due_at})
    event = Event(EventType.STEP_WAITING, record.ended_at, record.call.address, record.attempt, data=data)
    # By its room to spare a store sees that the work is to be stopped if its run ends before it does.
    wait = Wait(0, WaitKind.OUTSIDE, asking.text, record.call, due_in_ms, spare=len(asking.stopping()), size=1)
    decision = Decision(run.fence, run.tenant, run.generation, records=(record,), events=(event,), closed=closed)
    decision.opened = (wait,)
    return decision


def put_off(decision: Decision, waits: Sequence[Wait]) -> Decision:
    """With what is decided, waits that are to last longer are opened anew in their own place."""
    if waits:
        decision.closed = (*decision.closed, *(wait.wait_id for wait in waits))
        decision.opened = (*decision.opened, *waits)
    return decision
