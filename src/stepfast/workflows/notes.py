"""What a run's code finds out by itself and keeps: a value that it computed, or that a step is not done."""

from __future__ import annotations

from typing import Any

from stepfast.kernel import plan_rules
from stepfast.kernel.decisions import Decision, HeldRun, Record
from stepfast.kernel.states import StepState
from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.once_calls import WrittenCall

_PLAIN = ValueCodec(Any, "a noted value")


class NoteCall(WrittenCall):
    """A record that is made at once, for nothing has to run: its answer is the value that was noted.

    `state` is COMPLETED with the value, or SKIPPED with the reason. The kind is no part of what replay compares: a step
    that is done after a retry, and was skipped before, is told apart by its input alone.
    """

    def __init__(
        self,
        name: str,
        state: StepState,
        value_text: str | None,
        input_text: str,
        kind: str = "set",
        reason: str | None = None,
    ) -> None:
        assert state in plan_rules.NOTED
        super().__init__(name, input_text)
        self.kind = kind
        self.state = state
        self.value_text = value_text
        self._reason = reason

    def value_of(self, text: str) -> Any:
        return _PLAIN.decode(text)

    def decided(self, run: HeldRun, record: Record) -> Decision:
        return plan_rules.note(run, record, self._reason)


class BorneCall(NoteCall):
    """The code goes on from the failure of a step, and people are to see that."""

    def __init__(self, name: str, borne: plan_rules.Borne) -> None:
        super().__init__(name, StepState.COMPLETED, borne.text, "{}", plan_rules.BORNE)
        self._borne = borne

    def decided(self, run: HeldRun, record: Record) -> Decision:
        return plan_rules.bear(run, record, self._borne)
