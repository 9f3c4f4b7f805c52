"""What is sent to a store, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from stepfast.kernel.causes import shape_of
from stepfast.kernel.decisions import HeldRun, Message, OpenWait
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState


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
    lacks: Mapping[str, str] = MappingProxyType({})
    """Codes whose definitions it knows and cannot execute, and why."""
    crew: str = ""
    """The same for workers that take the same runs: they serve tenants in one order, one after the other."""


class Enrolled(NamedTuple):
    """The answer to an enrolment: the store's moment, and who was served last in each queue before this worker."""

    now: Instant
    turns: Mapping[str, str]


class Turns(NamedTuple):
    """Where a worker that leaves has got to: the tenant it served last in each queue, for the next of its crew."""

    crew: str
    served: Mapping[str, str]


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

    @property
    def shape(self) -> str:
        """What equal failures have in common."""
        return shape_of(self.error_type, self.message)


class Upkeep(NamedTuple):
    """One upkeep pass; only a worker whose own heartbeats were answered in time may bury others."""

    may_bury: bool
    max_crashes: int
    limit: int
    verdict: DeadRun
    worker_id: WorkerId | None = None
    """Whoever makes the pass: its lease is kept by it, where its last heartbeat is a while ago."""


class UpkeepReport(NamedTuple):
    """What a pass did: workers buried, runs given back to the line, runs failed for good.

    And what is left to do by command: runs that nobody holds and whose deadline has passed, and open children of
    groups that nobody will join.
    """

    buried: list[WorkerId]
    returned: list[RunId]
    failed: list[RunId]
    overdue: list[RunId]
    unjoined: list[RunId]
    silent_at: Instant | None = None
    """When the lease of a living worker is over that has not beaten by then; None: there is no living worker."""
    definitions: int = 0
    """The number of the definition that was registered last: whoever has not seen it has something to learn."""
    silent_holds: bool = False
    """Whether a worker holds runs that nobody has buried although its lease is over: who may bury gives them back."""
    kept: bool = False
    """Whether the pass has counted as a heartbeat."""


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
    reason: str | None = None


class Delivered(NamedTuple):
    """What became of a delivery: the run's state before it (None: no such run), its queue, and its holder if any."""

    state: RunState | None
    queue: str = ""
    worker_id: WorkerId | None = None


class Look(NamedTuple):
    """What has come for a run since it was claimed; with another token than its holder's it has another owner."""

    token: int
    wakes: int
    hold: bool
    waits: list[OpenWait]
    inbox: list[Message]
    deadline_at: Instant | None = None
    """When the time of the whole run is over."""


class Saving(Enum):
    """What became of a decision."""

    SAVED = "saved"
    LOST = "lost"
    """The fence does not hold: somebody else owns the run now."""
    WOKEN = "woken"
    """It wanted to park, but something has come since its holder last looked."""


class Woken(Exception):
    """The answer to a run that wanted to park: something has come for it since its holder last looked."""
