"""What a run's code finds out by itself and keeps: a value that it computed, or that a step is not done."""

from __future__ import annotations

from functools import partial
from typing import Any

from stepfast.kernel import plan_rules
from stepfast.kernel.decisions import Decision, HeldRun, Record
from stepfast.kernel.states import StepState
from stepfast.workflows.calls import Asked
from stepfast.workflows.codec import ValueCodec

_PLAIN = ValueCodec(Any, "a noted value")


class NoteCall:
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
        self.name = name
        self.kind = kind
        self.input = self.counted = input_text
        self._state = state
        self._value_text = value_text
        self._reason = reason

    def counted_of(self, stored: str) -> str:
        return stored

    def value_of(self, text: str) -> Any:
        return _PLAIN.decode(text)

    def recalled(self, asked: Asked, record: Record) -> None:
        """It was noted, and that is all."""

    def begin(self, asked: Asked, record: Record | None) -> None:
        context = asked.context
        context.busy.add(asked.call)
        noted = asked.new_record(self._state, 1, context.host.clock.now(), value=self._value_text)
        decision = self._decided(context.run, noted)
        value = self.value_of(self._value_text or "null")
        context.save(decision, partial(context.ended, asked, noted.ended_at, value, None))

    def _decided(self, run: HeldRun, noted: Record) -> Decision:
        return plan_rules.note(run, noted, self._reason)

    def call_off(self, asked: Asked) -> None:
        """It is on its way and stays."""

    def abandon(self, asked: Asked, record: Record) -> None:
        """It has no record that is not its end."""

    def drop(self) -> None:
        """Nothing runs that could be stopped."""


class BorneCall(NoteCall):
    """The code goes on from the failure of a step, and people are to see that."""

    def __init__(self, name: str, borne: plan_rules.Borne) -> None:
        super().__init__(name, StepState.COMPLETED, borne.text, "{}", plan_rules.BORNE)
        self._borne = borne

    def _decided(self, run: HeldRun, noted: Record) -> Decision:
        return plan_rules.bear(run, noted, self._borne)
