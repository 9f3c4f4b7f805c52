"""A run as its events tell of it, as of one of them or of a moment."""

from __future__ import annotations

from typing import NamedTuple

from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState, StepState
from stepfast.kernel.views import Progress


class RebuiltStep(NamedTuple):
    """A step as the events up to a moment tell of it."""

    address: str
    state: StepState
    """What people see: `running` while an attempt is under way."""
    recorded: StepState | None
    """What its newest record says; None as long as it has none, for beginning alone leaves none behind."""
    attempt: int
    generation: int
    """The one in which it came to this."""
    started_at: Instant | None
    ended_at: Instant | None
    due_at: Instant | None
    """When its next attempt is due, or when its wait is over."""
    event: int
    """The number of the event that said this last."""
    superseded_by: int | None = None
    """The generation from which on it counts no more."""


class RebuiltWait(NamedTuple):
    """Something that a run waits for; without a step it is the whole run that does."""

    step: str | None
    kind: str
    name: str
    since: Instant
    due_at: Instant | None


class RebuiltItem(NamedTuple):
    """An exception item that is open: what opened it (`review`, `failed`, `blocked` or `step`), where, and when."""

    cause: str
    kind: str
    step: str | None
    generation: int
    opened_at: Instant


class Rebuilt(NamedTuple):
    """A run as its events up to a moment tell of it."""

    run_id: RunId | None
    event: int
    """The number of the last event that was looked at; 0: none."""
    at: Instant | None
    """When that was."""
    state: RunState
    possible: frozenset[RunState]
    """Every state that rows may show while the events say this: some changes of rows leave no event."""
    generation: int
    worker_id: WorkerId | None
    crashes: int
    steps: tuple[RebuiltStep, ...]
    """Those that count, in the order in which they began."""
    superseded: tuple[RebuiltStep, ...]
    waits: tuple[RebuiltWait, ...]
    reviews: tuple[str, ...]
    """The steps whose reviews are open."""
    items: tuple[RebuiltItem, ...]
    progress: Progress | None
    ended_at: Instant | None
    error: str | None
    """Type and beginning of the message of the error that ended it."""
    damaged: tuple[int, ...]
    """The numbers of events whose data is not what was written: what they said is left out."""

    def step(self, address: str) -> RebuiltStep | None:
        """One step that counts."""
        return next((step for step in self.steps if step.address == address), None)
