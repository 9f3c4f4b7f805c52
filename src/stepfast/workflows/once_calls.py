"""Calls that are done once and then over: they wait for nobody, and their first record is their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

from stepfast.kernel.decisions import Decision, HeldRun, Record
from stepfast.kernel.states import StepState
from stepfast.workflows.calls import Asked


class OnceCall:
    """What all of them have in common; the answer is None, unless one says otherwise."""

    kind: str

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.input = self.counted = text

    def counted_of(self, stored: str) -> str:
        return stored

    def value_of(self, text: str) -> Any:
        return None

    def recalled(self, asked: Asked, record: Record) -> None:
        """It was done, and that is all."""

    def wait_id(self, record: Record | None) -> int | None:
        return None

    def call_off(self, asked: Asked) -> None:
        """It is on its way and stays."""

    def abandon(self, asked: Asked, record: Record) -> None:
        """It has no record that is not its end."""

    def drop(self) -> None:
        """Nothing runs that could be stopped."""


class ConcludingCall(OnceCall):
    """One that says no more than what a call before it has come to: it belongs to the moment when that ended.

    So it is begun although something else is late, and nothing more is decided until the code has heard of it.
    """

    def begin(self, asked: Asked, record: Record | None) -> None:
        asked.context.mailbox.unheard = asked.call


class WrittenCall(OnceCall, ABC):
    """One for which nothing has to run: all there is to it is written together with its record."""

    state = StepState.COMPLETED
    value_text: str | None = None

    def begin(self, asked: Asked, record: Record | None) -> None:
        context = asked.context
        context.busy.add(asked.call)
        written = asked.new_record(self.state, 1, context.host.clock.now(), value=self.value_text)
        value = self.value_of(self.value_text or "null")
        ended = partial(context.ended, asked, written.ended_at, value, None)
        context.save(self.decided(context.run, written), ended)

    @abstractmethod
    def decided(self, run: HeldRun, record: Record) -> Decision:
        """What is written."""
