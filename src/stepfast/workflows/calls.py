"""Durable calls: what all of them have in common, whatever they do."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from stepfast.kernel import rules
from stepfast.kernel.decisions import CallId, Decision, HeldRun, Record
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.states import StepState
from stepfast.workflows import failures
from stepfast.workflows.branches import Branch, ThreadAnswer
from stepfast.workflows.codec import digest
from stepfast.workflows.loop import CallAnswer

if TYPE_CHECKING:
    from stepfast.workflows.context import RunContext

Answer = CallAnswer | ThreadAnswer
GIVES_VALUE = frozenset({StepState.COMPLETED, StepState.SKIPPED})


class Operation(Protocol):
    """What a durable call does: a step, a sleep, a wait for a message, a child run."""

    name: str
    kind: str
    input: str
    counted: str

    def counted_of(self, stored: str) -> str:
        """The part of a stored input that must equal `counted`."""
        ...

    def value_of(self, text: str) -> Any:
        """A recorded value, restored."""
        ...

    def recalled(self, asked: Asked, record: Record) -> None:
        """Its result is about to be handed out from its record."""
        ...

    def wait_id(self, record: Record | None) -> int | None:
        """The wait that it goes on with when it begins, if it does nothing else than wait."""
        ...

    def begin(self, asked: Asked, record: Record | None) -> None:
        """Do it; `record` is what is known of it so far, if it has begun before and not ended."""
        ...

    def call_off(self, asked: Asked) -> None:
        """The code no longer wants it."""
        ...

    def abandon(self, asked: Asked, record: Record) -> None:
        """The code called it off before it was taken up again, or handed out; `record` is what is known of it."""
        ...

    def drop(self) -> None:
        """The run is let go of here: stop doing it, and leave everything as it is stored."""
        ...


class Asked:
    """A durable call that the code waits for."""

    __slots__ = ("answer", "branch", "call", "context", "digest", "forgone", "operation", "variables")

    def __init__(self, context: RunContext, branch: Branch, operation: Operation, answer: Answer) -> None:
        self.context = context
        self.branch = branch
        self.operation = operation
        self.answer = answer
        self.call: CallId = branch.next_call(operation.name)
        self.digest = digest(operation.counted)
        self.variables = contextvars.copy_context()
        self.forgone: Callable[[HeldRun, Record], Decision] = rules.call_off
        """What is saved when the code has called it off before it began."""
        error = sys.exception()
        if error is not None or branch.handles:
            handled = failures.handled_calls(error, branch.handles)
            if handled:
                context.note_handler(self.call, handled)

    @property
    def seed(self) -> str:
        """What the jitter of its pauses is made of: the same on replay, and another for each call of each run.

        Equal calls that an outage has failed together must not come back together.
        """
        return f"{self.context.run.run_id}:{self.call.address}"

    def call_off(self) -> None:
        """The code no longer wants it."""
        self.context.call_off(self)

    def same_input(self, stored: str) -> bool:
        """Whether an input that was stored earlier equals this call's, read through today's types."""
        return self.operation.counted_of(stored) == self.operation.counted

    def result_of(self, record: Record) -> tuple[Any, BaseException | None]:
        """What a record holds: a value, or an error."""
        if record.state in GIVES_VALUE:
            return self.operation.value_of(record.value or "null"), None
        if record.error is None:
            return None, StepfastError(f"Step {self.call.address} was recorded as {record.state}.")
        return None, failures.revive(failures.from_text(record.error))

    def new_record(
        self, state: StepState, attempt: int, started_at: Any, value: str | None = None, error: str | None = None
    ) -> Record:
        """A record of this call as of now."""
        operation, now = self.operation, self.context.host.clock.now()
        return Record(
            self.call, operation.kind, state, attempt, self.digest, operation.input, value, error, started_at, now
        )
