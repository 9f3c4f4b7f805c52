"""Decisions as data: the rows and events that one change of a run consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stepfast.kernel.causes import shape_of
from stepfast.kernel.definitions import code_of
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.reviews import NewReview
from stepfast.kernel.states import RunState, StepState, WaitKind


class Fence(NamedTuple):
    """Who may write: the token that was handed out and its holder; None is a command that has locked an idle run."""

    run_id: RunId
    token: int
    worker_id: WorkerId | None


class CallId(NamedTuple):
    """Where in its run a durable call stands: branch, name, and which call of that name in that branch."""

    path: str
    name: str
    nth: int

    @property
    def address(self) -> str:
        """The form that events, logs and people use."""
        return f"{self.path}/{self.name}#{self.nth}" if self.path else f"{self.name}#{self.nth}"


class Record(NamedTuple):
    """What is stored of a durable call; of several for one call the newest counts, older ones are its history."""

    call: CallId
    kind: str
    state: StepState
    attempt: int
    digest: str
    input: str
    value: str | None
    error: str | None
    started_at: Instant
    ended_at: Instant
    due_at: Instant | None = None
    seq: int = 0


class Wait(NamedTuple):
    """One thing an unended run begins to wait for; `need` and `spare` decide a join of children in the store.

    `wait_id` is the number of the record that opened it. While the decision has no numbers yet it counts from the
    decision's first record; the committer moves it with the numbers. Negative ids are not moved.
    """

    wait_id: int
    kind: WaitKind
    name: str
    call: CallId
    due_in_ms: int | None = None
    need: int = 1
    spare: int = 0
    size: int | None = None
    """How many children there are, where that is not what `need` and `spare` add up to."""
    is_numbered: bool = False
    """Whether `wait_id` is that of an earlier record already: it is put off, and opened anew in its place."""

    @property
    def total(self) -> int:
        """How many children there are; when all have ended, the join is decided whatever is needed."""
        return self.need + self.spare if self.size is None else self.size


class OpenWait(NamedTuple):
    """One thing that an unended run waits for, as the store has it."""

    wait_id: int
    kind: WaitKind
    name: str
    due_at: Instant | None
    need: int
    spare: int
    total: int
    got: int
    failed: int

    @property
    def is_joined(self) -> bool:
        """Whether a join is decided: enough children came to a good end, no longer can, or all have ended."""
        return self.got >= self.need or self.failed > self.spare or self.got + self.failed >= self.total


class Message(NamedTuple):
    """Something delivered to a run and not yet taken: `told` once its event is written, sent with the key `cause`."""

    n: int
    kind: str
    name: str
    value: str | None
    actor: str | None
    at: Instant
    told: bool
    reason: str | None = None
    cause: str | None = None


class History(NamedTuple):
    """All that a run's code goes on from: its records, what it waits for, and what has come for it."""

    records: list[Record]
    waits: list[OpenWait]
    inbox: list[Message]


NOTHING_YET = History([], [], [])
"""What a run goes on from that nobody has begun."""


class Joins(NamedTuple):
    """The group of its parent that an ending child counts toward."""

    parent_id: RunId
    wait_id: int


class Outcome(NamedTuple):
    """The end of one generation of a run."""

    state: RunState
    value: str | None
    error: str | None
    ended_at: Instant
    joins: Joins | None = None


class DeadLetter(NamedTuple):
    """A run out of attempts that no other run awaits."""

    workflow: str
    version: int
    error_type: str
    message: str
    step: str | None

    @property
    def shape(self) -> str:
        """What equal failures have in common."""
        return shape_of(self.error_type, self.message, self.step)


class Park(NamedTuple):
    """Let the run wait, unless something came since the holder last looked (`wakes` has risen)."""

    wakes: int
    due_at: Instant | None = None


class HandBack(NamedTuple):
    """Give the run back to the line."""

    delay_ms: int = 0


class Continue(NamedTuple):
    """End this generation and open the next; messages that nobody took go along.

    `superseded` are the calls whose records count no more (None: all). One that is tried again counts its tries on.
    """

    version: int
    code: str
    input: str
    cause: str = "continue_as"
    state: RunState = RunState.COMPLETED
    error: str | None = None
    superseded: tuple[CallId, ...] | None = None
    delay_ms: int = 0
    definition: str | None = None

    @property
    def is_retry(self) -> bool:
        return self.cause == "retry"


class NewRun(NamedTuple):
    """A run to be started; moments are set by the store's clock."""

    run_id: RunId
    tenant: str
    workflow: str
    version: int
    kind: str
    queue: str
    code: str
    priority: int
    input: str
    digest: str
    key: str | None = None
    delay_ms: int = 0
    timeout_ms: int | None = None
    joins: Joins | None = None
    leave: bool = False
    lane: str | None = None
    actor: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    thread_id: str | None = None
    subject: str | None = None
    tags: tuple[str, ...] = ()
    metadata: str | None = None
    definition: str | None = None
    """The digest of the definition that it is pinned to; None for functions."""


class Started(NamedTuple):
    """The answer to a start: the run of this key may be an earlier one; `token` is set when it was born leased."""

    run_id: RunId
    fresh: bool
    token: int | None
    queued_at: Instant


@dataclass(slots=True)
class Decision:
    """All that one change writes; it is saved whole, or, when the fence does not hold, not at all."""

    fence: Fence
    tenant: str
    generation: int
    records: Sequence[Record] = ()
    events: Sequence[Event] = ()
    outcome: Outcome | None = None
    dead_letter: DeadLetter | None = None
    release: Park | HandBack | Continue | None = None
    opened: Sequence[Wait] = ()
    closed: Sequence[int] = ()
    taken: Sequence[int] = ()
    children: Sequence[NewRun] = ()
    reviews: Sequence[NewReview] = ()  # opened with the waits that bear their numbers
    first_seq: int = 0
    first_event: int = 0


@dataclass(slots=True, eq=False)
class HeldRun:
    """A run as its holder knows it: what the claim handed out, and the numbers the holder counts on from."""

    run_id: RunId
    tenant: str
    workflow: str
    version: int
    kind: str
    queue: str
    generation: int
    token: int
    worker_id: WorkerId
    input: str
    wakes: int
    hold: bool
    claims: int
    crashes: int
    last_seq: int
    last_event: int
    queued_at: Instant
    deadline_at: Instant | None = None
    tries: int = 0
    """How often the whole run was tried again by its own policy."""
    joins: Joins | None = None
    actor: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    thread_id: str | None = None
    subject: str | None = None
    metadata: str | None = None
    leave: bool = False  # it may outlive the run that started it
    kept_seq: int = 0
    """The number of the last record that an earlier generation has made."""
    definition: str | None = None
    epoch: int = 1
    """The newest generation that began anew: those behind it go on with what it has made."""
    begun: bool = False
    """Whether its history tells that its code has begun in this generation; an earlier claim alone does not say so."""
    riders: list[Event] = field(default_factory=list)
    fence: Fence = field(init=False)  # a run that is held anew is another HeldRun

    def __post_init__(self) -> None:
        self.fence = Fence(self.run_id, self.token, self.worker_id)

    @property
    def code(self) -> str:
        """What it is executed with: a workflow, or a step on its own."""
        return self.workflow if self.kind == "step" else code_of(self.workflow, self.version, self.definition)
