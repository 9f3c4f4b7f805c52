"""What the engine needs from outside: the store, the clock, and the way from a run's code to a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from stepfast.kernel.decisions import Decision, HeldRun, History, Message, NewRun, OpenWait, Started
from stepfast.kernel.durations import Instant
from stepfast.kernel.events import Event
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState
from stepfast.kernel.views import EventView, OutcomeView, RunFilter, RunView, StepView, WorkerView


class Clock(Protocol):
    """Where a process gets its time; tests bring one that moves only when told."""

    def now(self) -> Instant:
        """The moment, in milliseconds since 1970."""
        ...

    def local(self) -> Instant:
        """The moment by this machine alone; what a store without a clock of its own goes by."""
        ...

    def follow(self, store_now: Instant) -> None:
        """Go by the store's clock, which said this just now. Called from the heartbeat's thread."""
        ...

    async def sleep(self, span_ms: int) -> None:
        """Return after the span has passed by this clock."""
        ...


class QueueRoom(NamedTuple):
    """How many runs of a queue a worker can take, and the tenant it served last."""

    queue: str
    room: int
    after: str = ""


class Claim(NamedTuple):
    """A worker asks for runs; `tenants` None is all of them.

    With `suspects` it asks for suspects alone: how many it can take of runs with 1, 2, 3, ... crashes (see
    kernel/suspects.py). Without, it gets none.
    """

    worker_id: WorkerId
    queues: Sequence[QueueRoom]
    codes: Sequence[str]
    burst: int
    tenants: Sequence[str] | None = None
    suspects: Sequence[int] | None = None


class Claimed(NamedTuple):
    """The runs a claim handed out, when the next waiting run of these queues falls due, and whether suspects wait."""

    runs: list[HeldRun]
    next_due_at: Instant | None
    suspects_wait: bool = False


class Enrolment(NamedTuple):
    """What a worker says of itself when it announces itself."""

    worker_id: WorkerId
    label: str
    host: str
    pid: int
    queues: Sequence[str]
    codes: Sequence[str]
    lease_ms: int


class Holding(NamedTuple):
    """One run that a worker holds by the store's account."""

    run_id: RunId
    token: int
    wakes: int
    hold: bool


class Beat(NamedTuple):
    """The answer to a heartbeat; `alive` False: this worker was buried and must drop all it holds."""

    now: Instant
    alive: bool
    holdings: list[Holding]


class DeadRun(NamedTuple):
    """How a run ends whose crash budget is spent: the stored failure, its type and its message."""

    error: str
    error_type: str
    message: str


class Upkeep(NamedTuple):
    """One upkeep pass; only a worker whose own heartbeats were answered in time may bury others."""

    may_bury: bool
    max_crashes: int
    limit: int
    verdict: DeadRun


class UpkeepReport(NamedTuple):
    """What a pass did: workers buried, runs given back to the line, runs failed for good."""

    buried: list[WorkerId]
    returned: list[RunId]
    failed: list[RunId]


class Delivery(NamedTuple):
    """Something brought to a run from outside; `tenant` None may reach every tenant's runs."""

    run_id: RunId
    tenant: str | None
    kind: str
    name: str
    value: str | None
    actor: str | None = None
    key: str | None = None
    digest: str = ""


class Delivered(NamedTuple):
    """What became of a delivery: the run's state before it (None: no such run), its queue, and its holder if any."""

    state: RunState | None
    queue: str = ""
    worker_id: WorkerId | None = None


class Look(NamedTuple):
    """What has come for a run since it was claimed."""

    wakes: int
    hold: bool
    waits: list[OpenWait]
    inbox: list[Message]


class Saving(Enum):
    """What became of a decision."""

    SAVED = "saved"
    LOST = "lost"
    """The fence does not hold: somebody else owns the run now."""
    WOKEN = "woken"
    """It wanted to park, but something has come since its holder last looked."""


class Woken(Exception):
    """The answer to a run that wanted to park: something has come for it since its holder last looked."""


class Store(Protocol):
    """Where everything is remembered. Every call is one transaction; it has happened whole, or not at all."""

    async def open(self) -> None:
        """Connect and check the schema."""
        ...

    async def close(self) -> None:
        """Let go of every connection, thread and file."""
        ...

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; the names of the migrations applied."""
        ...

    async def now(self) -> Instant:
        """The moment by the store's clock."""
        ...

    async def start(self, runs: Sequence[NewRun], holder: WorkerId | None) -> list[Started]:
        """Store new runs, answering each in order; with a holder, runs of queues with nothing ready are born leased.

        A run whose key its tenant has used before is not stored: the answer names the earlier run. The same key with
        another digest raises KeyReused and stores none of the batch.
        """
        ...

    async def claim(self, request: Claim) -> Claimed:
        """Lease ready runs to a worker, in turn over tenants, by place within a tenant."""
        ...

    async def histories(self, run_ids: Sequence[RunId]) -> dict[RunId, History]:
        """For each of these runs its records that are not superseded in order of `seq`, its waits and its inbox."""
        ...

    async def look(self, run_id: RunId) -> Look | None:
        """What has come for a run: read again by its holder when `wakes` has risen. None: the run has ended."""
        ...

    async def deliver(self, delivery: Delivery) -> Delivered:
        """Store something for a run, raise its `wakes`, and make it ready when it waits for just that and is not held.

        The event `signalled` is written here unless the run is leased: then its holder writes it when it takes the
        message. A run that has ended gets nothing; the answer says so. A key that its tenant has used before for the
        same delivery answers as the first time, for another raises KeyReused.
        """
        ...

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        """Save decisions in one commit, answering each in order; nothing is written of those that are not SAVED.

        `again` says that an earlier call with the same decisions broke off without an answer: what it had saved
        counts as saved. Rows that the store refuses for their data raise RowsRefused, and nothing is written.
        """
        ...

    async def enrol(self, worker: Enrolment) -> Instant:
        """Announce a worker; answers with the store's moment.

        Runs that wait for code (kind `code`) and whose code this worker has become ready: it may have what they need.
        """
        ...

    async def beat(self, worker_id: WorkerId) -> Beat:
        """Say that a worker lives, and hear what it holds. Called from a thread of its own: shares no connection."""
        ...

    async def retire(self, worker_id: WorkerId) -> list[RunId]:
        """A worker leaves: it is marked dead and all it still holds goes back to the line, with no crash counted."""
        ...

    async def give_back(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> None:
        """Give runs that this worker holds by the store's account, but knows nothing of, back to the line."""
        ...

    async def hint(self, topics: Sequence[str]) -> None:
        """Tell the other processes on this store that something of these topics has happened; may get lost."""
        ...

    async def hear(self, heard: Callable[[str], None]) -> None:
        """From now on call `heard` in this event loop with each topic that another process hints at."""
        ...

    async def upkeep(self, request: Upkeep) -> UpkeepReport:
        """Bury workers whose lease ran out, and give the runs of dead workers back to the line."""
        ...

    async def outcomes(self, run_ids: Sequence[RunId]) -> dict[RunId, OutcomeView]:
        """The newest outcome of those runs that have ended in their newest generation."""
        ...

    async def run(self, tenant: str | None, run_id: RunId) -> RunView | None:
        """One run; a tenant sees its own only, None sees all."""
        ...

    async def runs(self, where: RunFilter) -> list[RunView]:
        """A page of runs, newest first."""
        ...

    async def steps(self, run_id: RunId) -> list[StepView]:
        """Every record of a run, superseded ones too, in order."""
        ...

    async def events(self, run_id: RunId, after: int = 0, limit: int = 1000) -> list[EventView]:
        """A run's history after event number `after`."""
        ...

    async def workers(self) -> list[WorkerView]:
        """The workers that are alive, and those that died lately."""
        ...


class Recorder(Protocol):
    """How a run's code reaches the commit: each decision is answered once, after it is saved or refused."""

    def save(self, run: HeldRun, decision: Decision, answered: Callable[[BaseException | None], None]) -> None:
        """Save with the next commit; `answered` gets None, or the error that kept it from being saved."""
        ...

    def ride(self, run: HeldRun, event: Event) -> None:
        """Send an event along with the next commit of the run."""
        ...
