"""What the steps of plans mean for the rows: notes that need no body, and runs that end in part."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from stepfast.kernel.causes import shape_of
from stepfast.kernel.decisions import CallId, Decision, HeldRun, Outcome, Record
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepFailed
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.reviews import ItemKind
from stepfast.kernel.states import RunState, StepState, check_move
from stepfast.kernel.texts import counted

NOTED = frozenset({StepState.COMPLETED, StepState.SKIPPED})
"""What a record may say for which no body ran."""
UNDO = "undo"
"""The kind of the records of steps that take others back."""
GIVEN = "given"
"""The kind of the records of steps that a person has done, and whose output that person gave."""


BORNE = "borne"
"""The kind of the records by which a run goes on from a failure: each opens an exception item."""
MAX_TITLE = 300


class Borne(NamedTuple):
    """A failure that its run goes on from, as people are shown it."""

    step: str
    title: str
    shape: str

    @classmethod
    def of(cls, step_id: str, address: str, error_type: str, message: str) -> Borne:
        title = f"Step {step_id} failed, and its run goes on: {error_type}: {message}"
        # Apart from those of dead letters: what these are replayed by does not concern it.
        return cls(address, title[:MAX_TITLE], f"borne: {shape_of(error_type, message, step_id)}")

    @property
    def text(self) -> str:
        """As its record has it."""
        return json.dumps(self._asdict())


def bear(run: HeldRun, record: Record, borne: Borne) -> Decision:
    """The code goes on from a failure as it was told to; the item by which people see it is in the same commit."""
    data = json.dumps({"kind": ItemKind.FAILED, "borne_by": record.call.address})
    opened = Event(EventType.EXCEPTION_OPENED, record.ended_at, borne.step, data=data)
    return Decision(run.fence, run.tenant, run.generation, records=(record,), events=(opened,))


def note(run: HeldRun, record: Record, reason: str | None = None) -> Decision:
    """The code has found out by itself what becomes of a step: its value, or why it is not done."""
    if record.state is StepState.SKIPPED:
        event_type, data = EventType.STEP_SKIPPED, json.dumps({"reason": reason})
    else:
        event_type, data = completed_type(record), None
    event = Event(event_type, record.ended_at, record.call.address, record.attempt, data=data)
    return Decision(run.fence, run.tenant, run.generation, records=(record,), events=(event,))


def completed_type(record: Record) -> EventType:
    """What a step that came to a good end is told as: one that took another back, as that."""
    return EventType.STEP_UNDONE if record.kind == UNDO else EventType.STEP_COMPLETED


# The error of a run that ended in part names at most so many steps, and its message these.
MAX_BORNE = 1_000
SHOWN_BORNE = 10


def complete_partly(
    run: HeldRun, value: str, borne: Sequence[CallId], now: Instant, handlers: Sequence[CallId] = ()
) -> Decision:
    """The code of a run returned, and steps of it have failed that it was told to go on without."""
    check_move(run.run_id, RunState.RUNNING, "complete_partly")
    outcome = Outcome(RunState.PARTIAL, value, _borne_error(borne, handlers) if borne else None, now, run.joins)
    events = (Event(EventType.PARTIAL, now),)
    return Decision(run.fence, run.tenant, run.generation, events=events, outcome=outcome)


def _borne_error(borne: Sequence[CallId], handlers: Sequence[CallId]) -> str:
    """What is kept of failures that did not end a run: a retry goes by it."""
    addresses = [call.address for call in borne[:MAX_BORNE]]
    more = ", ..." if len(borne) > SHOWN_BORNE else ""
    message = f"{counted(len(borne), 'step')} failed: {', '.join(addresses[:SHOWN_BORNE])}{more}"
    failure_type = f"{StepFailed.__module__}:{StepFailed.__qualname__}"
    told = {"type": failure_type, "message": message, "code": StepFailed.code, "borne": addresses}
    return json.dumps(told | {"handlers": [call.address for call in handlers[:MAX_BORNE]]} if handlers else told)
