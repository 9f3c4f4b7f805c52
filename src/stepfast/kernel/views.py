"""What is read back from the store: runs, steps, events and workers as people see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from stepfast.kernel.decisions import CallId
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState, StepState


class OutcomeView(NamedTuple):
    """How a generation of a run ended."""

    run_id: RunId
    generation: int
    state: RunState
    value: str | None
    error: str | None
    ended_at: Instant


class Progress(NamedTuple):
    """How far a run said that it has got."""

    done: float
    total: float | None = None
    note: str | None = None


class RunView(NamedTuple):
    """A run with the state that people see; `progress` is what it said last, and is not read for lists."""

    run_id: RunId
    tenant: str
    workflow: str
    version: int
    kind: str
    state: RunState
    generation: int
    queue: str
    priority: int
    queued_at: Instant
    updated_at: Instant
    ended_at: Instant | None
    worker_id: WorkerId | None
    token: int
    crashes: int
    claims: int
    parent_id: RunId | None
    key: str | None
    actor: str | None
    correlation_id: str | None
    causation_id: str | None
    thread_id: str | None
    subject: str | None
    metadata: str | None
    input: str
    value: str | None
    error: str | None
    code: str = ""
    """What a worker must have to execute it."""
    definition: str | None = None
    """The digest of the definition that it is pinned to; None for functions."""
    progress: Progress | None = None
    tags: tuple[str, ...] = ()


class RunFilter(NamedTuple):
    """Which runs a list holds; `before` is the run id that the page before ended with."""

    tenant: str | None = None
    workflow: str | None = None
    version: int | None = None
    state: RunState | None = None
    queue: str | None = None
    actor: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    thread_id: str | None = None
    tag: str | None = None
    queued_after: Instant | None = None
    updated_after: Instant | None = None
    before: RunId | None = None
    limit: int = 100


class StepView(NamedTuple):
    """One record of a run's step."""

    seq: int
    call: CallId
    kind: str
    state: StepState
    attempt: int
    generation: int
    superseded_by: int | None
    input: str
    value: str | None
    error: str | None
    started_at: Instant
    ended_at: Instant
    due_at: Instant | None


class LetterView(NamedTuple):
    """A dead letter: a run out of attempts that no other run awaits."""

    run_id: RunId
    generation: int
    tenant: str
    workflow: str
    version: int
    step: str | None
    error_type: str
    message: str
    recorded_at: Instant
    resolved_at: Instant | None
    resolution: str | None
    actor: str | None
    error: str | None = None
    """JSON, as a run has it: with traceback and causes. It is not read for lists."""


class LetterFilter(NamedTuple):
    """Which dead letters a list holds; those that somebody has seen to are left out unless `resolved`."""

    tenant: str | None = None
    workflow: str | None = None
    step: str | None = None
    error_type: str | None = None
    run_id: RunId | None = None
    shape: str | None = None
    recorded_after: Instant | None = None
    before: RunId | None = None
    resolved: bool = False
    limit: int = 100
    step_name: str | None = None
    """Every call of a step of this name, where `step` is one address."""


class QueueView(NamedTuple):
    """How many open runs a queue has, by what they do; `oldest_at` is when the first of the ready became so."""

    queue: str
    ready: int
    running: int
    waiting: int
    paused: int
    suspects: int
    oldest_at: Instant | None


LASTING_TROUBLE = "lasting_trouble"
"""The clause of a finding that is trouble around a run, and no fault of the engine or its rows."""

WAIT_LONG_DUE = "wait_long_due"
"""The clause of a run that is due and not taken up: a fault only where a worker that serves it has room."""


class Member(NamedTuple):
    """A run that somebody may take right now, in which queue and of which code; `crashes` make it a suspect."""

    run_id: RunId
    queue: str
    code: str
    crashes: int


class Family(NamedTuple):
    """Of a run and all that it has started: what may be taken, and when the next of them falls due."""

    ready: list[Member]
    next_due_at: Instant | None


class LineView(NamedTuple):
    """How many runs of one code are ready in one queue, counted up to a limit."""

    queue: str
    code: str
    ready: int


class Backlog(NamedTuple):
    """What stands in line, by queue and code; how many suspects do, up to the same limit; whether any run is open."""

    lines: list[LineView]
    suspects: int
    has_open: bool


class Finding(NamedTuple):
    """A run that cannot go on: which clause of the invariant of unended runs it breaks, and what was found.

    One that is handed back again and again for trouble which does not pass is told of too.
    """

    clause: str
    run_id: RunId
    tenant: str
    detail: str


class Findings(list[Finding]):
    """What was found; `is_whole` is False when there are more runs than were looked at."""

    def __init__(self, found: Iterable[Finding] = (), is_whole: bool = True) -> None:
        super().__init__(found)
        self.is_whole = is_whole


class EventView(NamedTuple):
    """One event of a run's history."""

    position: int
    seq: int
    run_id: RunId
    tenant: str
    generation: int
    type: str
    at: Instant
    step: str | None
    attempt: int | None
    token: int
    actor: str | None
    data: str | None
    causation_id: str | None = None
    """What brought it about; as it is stored, that of the first event alone (`origins.shown` has it for all)."""
    correlation_id: str | None = None
    """What its run belongs to; as it is stored, a matter of the run."""


class WorkerView(NamedTuple):
    """A worker as it announced itself, and when it was last heard of."""

    worker_id: WorkerId
    label: str
    host: str
    pid: int
    queues: tuple[str, ...]
    codes: tuple[str, ...]
    lease_ms: int
    started_at: Instant
    seen_at: Instant
    dead_at: Instant | None
    lacks: Mapping[str, str] = MappingProxyType({})
    """Codes whose definitions it knows and cannot execute, and why."""

    def is_alive(self, now: Instant) -> bool:
        """Whether it has neither left nor been silent for longer than its lease."""
        return self.dead_at is None and now - self.seen_at <= self.lease_ms
