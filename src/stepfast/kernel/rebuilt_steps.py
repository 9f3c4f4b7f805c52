"""The steps of a run as its events tell of them, while these are looked at one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.rebuilt import RebuiltStep
from stepfast.kernel.states import STEP_ENDED, StepState
from stepfast.kernel.views import EventView

STEP_ENDS = {
    EventType.STEP_COMPLETED: StepState.COMPLETED,
    EventType.STEP_UNDONE: StepState.COMPLETED,
    EventType.STEP_FAILED: StepState.FAILED,
    EventType.STEP_SKIPPED: StepState.SKIPPED,
    EventType.STEP_CANCELLED: StepState.CANCELLED,
}
"""How a step ended, by the event that says so."""


class Steps:
    """By address what is known of each step that counts, and those that were superseded."""

    def __init__(self) -> None:
        self._counting: dict[str, RebuiltStep] = {}
        self._superseded: list[RebuiltStep] = []
        self._under_way: dict[str, RebuiltStep | None] = {}
        """Those with an attempt that has begun, each with what was known of it before."""
        self.made: list[tuple[str, int, int, StepState]] = []
        """What was recorded so far, in order: of which step, in which generation and attempt, and what of it."""

    def counting(self) -> tuple[RebuiltStep, ...]:
        return tuple(self._counting.values())

    def superseded(self) -> tuple[RebuiltStep, ...]:
        return tuple(self._superseded)

    def started(self, event: EventView, has_record: bool) -> None:
        """An attempt begins; only of some steps that is a record too."""
        if event.step is None:
            return
        known = self._counting.get(event.step)
        recorded = StepState.RUNNING if has_record else known and known.recorded
        attempt = event.attempt or 1
        if has_record:
            self.made.append((event.step, event.generation, attempt, StepState.RUNNING))
        self._counting[event.step] = RebuiltStep(
            *(event.step, StepState.RUNNING, recorded, attempt, event.generation),
            *(event.at, None, None, event.seq),
        )
        self._under_way[event.step] = None if has_record else self._under_way.get(event.step, known)

    def recorded(
        self, event: EventView, state: StepState, due_at: Instant | None = None, address: str | None = None
    ) -> None:
        """A record says what has become of a step."""
        named = address or event.step
        if named is None:
            return
        known = self._counting.get(named)
        started_at = event.at if known is None or known.started_at is None else known.started_at
        ended_at = event.at if state in STEP_ENDED else None
        attempt = event.attempt or 1
        self._counting[named] = RebuiltStep(
            *(named, state, state, attempt, event.generation, started_at, ended_at, due_at, event.seq)
        )
        self._under_way.pop(named, None)
        self.made.append((named, event.generation, attempt, state))

    def put_off(self, event: EventView, due_at: int | None) -> None:
        """Its attempt has failed, and the next follows."""
        self.recorded(event, StepState.PENDING, None if due_at is None else Instant(due_at))

    def cut_short(self, state: StepState) -> None:
        """Whoever held the run does so no more: what was under way is as its record has it, or in this state."""
        for address, before in self._under_way.items():
            step = self._counting[address]
            is_as_before = before is not None and before.recorded is not None
            self._counting[address] = before if before and is_as_before else step._replace(state=step.recorded or state)
        self._under_way.clear()

    def supersede(self, generation: int, addresses: Iterable[str] | None) -> set[str]:
        """Steps that count no more; None is all of them. Answers with those that were known."""
        gone = set(self._counting if addresses is None else addresses) & self._counting.keys()
        for address in [address for address in self._counting if address in gone]:
            step = self._counting.pop(address)
            if step.recorded is not None:
                self._superseded.append(step._replace(superseded_by=generation))
        for address in gone:
            self._under_way.pop(address, None)
        return gone
