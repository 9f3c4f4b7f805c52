"""What the model remembers: a life for each run, with all that the tables have of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepfast.kernel.decisions import CallId, NewRun, Record, Wait
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.states import PENDING_WAITS, RunState, StepState, TaskState, WaitKind


@dataclass
class Task:
    """The hot row of an unended run."""

    run: NewRun
    place: int
    state: TaskState
    since_at: int
    code: str
    due_at: int | None = None
    deadline_at: int | None = None
    worker_id: WorkerId | None = None
    generation: int = 1
    hold: bool = False
    tries: int = 0
    token: int = 0
    claims: int = 0
    crashes: int = 0
    strikes: int = 0
    wakes: int = 0

    def give_back(self, now: int) -> None:
        self.state, self.worker_id, self.since_at = TaskState.READY, None, now

    def wake(self, now: int) -> None:
        if self.state is TaskState.WAITING and not self.hold:
            self.make_ready(now)

    def make_ready(self, now: int) -> None:
        self.state, self.due_at, self.since_at = TaskState.READY, None, now


@dataclass
class Open:
    """Something that a run waits for."""

    wait: Wait
    opened_at: int
    due_at: int | None
    got: int = 0
    failed: int = 0

    @property
    def is_over(self) -> bool:
        return self.got + self.failed >= self.wait.total

    @property
    def is_decided(self) -> bool:
        return self.got >= self.wait.need or self.failed > self.wait.spare or self.is_over


@dataclass
class Mail:
    """Something that came for a run."""

    kind: str
    name: str
    at: int
    told: bool


@dataclass
class Member:
    """A worker."""

    codes: frozenset[str]
    crew: str
    lease_ms: int
    seen_at: int
    dead_at: int | None = None


@dataclass
class End:
    """How a generation of a run ended."""

    generation: int
    state: RunState
    seq: int
    token: int
    ended_at: int
    error: str | None = None


@dataclass
class Kept:
    """A record, the token it was written under, its generation, and the one in which it counts no more."""

    record: Record
    token: int
    generation: int
    superseded_by: int | None = None


@dataclass
class Letter:
    """A dead letter, and what became of it."""

    error_type: str
    resolution: str | None = None


@dataclass
class Life:
    """All that is known of a run."""

    run: NewRun
    queued_at: int
    version: int
    code: str
    input: str
    events: list[tuple[str, int, int]] = field(default_factory=list)
    records: list[Kept] = field(default_factory=list)
    waits: dict[int, Open] = field(default_factory=dict)
    inbox: dict[int, Mail] = field(default_factory=dict)
    causes: dict[int, str] = field(default_factory=dict)
    task: Task | None = None
    ends: list[End] = field(default_factory=list)
    letters: dict[int, Letter] = field(default_factory=dict)
    last_signal: int = 0

    @property
    def generation(self) -> int:
        return self.ends[-1].generation if self.task is None else self.task.generation

    @property
    def token(self) -> int:
        return self.ends[-1].token if self.task is None else self.task.token

    @property
    def state(self) -> RunState:
        if self.task is None:
            return self.ends[-1].state
        if self.task.hold and self.task.state is not TaskState.LEASED:
            return RunState.PAUSED
        if self.task.state is TaskState.LEASED:
            return RunState.RUNNING
        if self.task.state is TaskState.READY:
            return RunState.RUNNING if self.task.claims else RunState.PENDING
        return RunState.PENDING if {w.wait.kind for w in self.waits.values()} <= PENDING_WAITS else RunState.WAITING

    @property
    def lacks_code(self) -> bool:
        return any(opened.wait.kind is WaitKind.CODE for opened in self.waits.values())

    @property
    def alarm(self) -> int | None:
        """When a run that waits is taken up, if nothing else wakes it."""
        dues = [opened.due_at for opened in self.waits.values() if opened.due_at is not None]
        return None if self.lacks_code else min(dues, default=None)

    def wake(self, now: int) -> None:
        if self.task is not None and not self.lacks_code:
            self.task.wake(now)

    @property
    def was_brought_on(self) -> bool:
        """Whether somebody has recorded the end of a step since the last death of a holder."""
        ends = (StepState.COMPLETED, StepState.FAILED)
        died = max((token for kind, token, _ in self.events if kind == EventType.REAPED), default=0)
        return any(kept.token > died and kept.record.state in ends for kept in self.records)

    def tell(self, kind: EventType | str, token: int) -> None:
        self.events.append((str(kind), token, self.generation))

    def supersede(self, calls: Sequence[CallId] | None, generation: int) -> None:
        for kept in self.records:
            if kept.superseded_by is None and (calls is None or kept.record.call in calls):
                kept.superseded_by = generation
