"""What the engine needs from outside: the store, the clock, and the way from a run's code to a commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stepfast.kernel.annotations import AnnotationReads
from stepfast.kernel.asset_ports import AssetRows
from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.decisions import Decision, HeldRun, History, NewRun, Started
from stepfast.kernel.definitions import DefinitionStore
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.events import Event
from stepfast.kernel.exchange import (
    Beat,
    Claim,
    Claimed,
    Delivered,
    Delivery,
    Enrolled,
    Enrolment,
    Look,
    Saving,
    Turns,
    Upkeep,
    UpkeepReport,
)
from stepfast.kernel.generations import LifeRows
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.item_ports import ItemReads
from stepfast.kernel.outside_ports import OutsideRows
from stepfast.kernel.retention import RetentionRows
from stepfast.kernel.review_views import ReviewReads
from stepfast.kernel.sinks import SinkRows
from stepfast.kernel.texts import shown
from stepfast.kernel.trail import TrailRows
from stepfast.kernel.views import (
    Backlog,
    EventView,
    Family,
    Findings,
    LetterFilter,
    LetterView,
    OutcomeView,
    QueueView,
    RunFilter,
    RunView,
    StepView,
    WorkerView,
)


class Clock(Protocol):
    """Where a process gets its time; tests bring one that moves only when told."""

    def now(self) -> Instant:
        """The moment, in milliseconds since 1970."""
        ...

    def local(self) -> Instant:
        """The moment by this machine alone; what a store without a clock of its own goes by."""
        ...

    def follow(self, store_now: Instant, asked_at: Instant) -> None:
        """Go by the store's clock, which said this when asked at a moment of `local`. Called from any thread."""
        ...

    async def sleep(self, span_ms: int) -> None:
        """Return after the span has passed by this clock, or before where the clock was set: look at `now` again."""
        ...


def check_port(option: str, given: object, port: type) -> None:
    """Refuse what somebody brings for a port and that lacks calls of it, before the first call finds out."""
    calls = [name for name in vars(port) if not name.startswith("_")]
    missing = [name for name in calls if not callable(getattr(given, name, None))]
    if missing:
        raise Invalid(
            f"{option} is {shown(given)}, which has no {', '.join(missing)}. "
            f"A {port.__name__} has {', '.join(calls)}: see docs/reference/ports.md."
        )


class Store(
    ReviewReads,
    ItemReads,
    AssetRows,
    DefinitionStore,
    OutsideRows,
    TrailRows,
    SinkRows,
    RetentionRows,
    AnnotationReads,
    LifeRows,
    Protocol,
):
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

    async def claim_run(self, worker_id: WorkerId, run_id: RunId, codes: Sequence[str]) -> HeldRun | None:
        """Lease one given run, if it is ready or due, not held, and of code this worker has."""
        ...

    async def claim_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId], codes: Sequence[str]) -> list[HeldRun]:
        """The same for several, each on its own; those that cannot be taken now are left out."""
        ...

    async def family(self, run_id: RunId, limit: int = 1000) -> Family:
        """What can be taken of a run and its open descendants, by place; nothing once it has ended."""
        ...

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        """Carry out commands in one transaction, answering each in order.

        Each run is locked, loaded, judged by `control.decide`, and the change written with its events. A command that
        is refused is answered with its error and changes nothing; the others stand. A key that its tenant has used
        before for the same command of the same run answers as the first time, for another it is refused.
        """
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
        same delivery answers as the first time, even if the run has ended since; for another it raises KeyReused.
        """
        ...

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        """Save decisions in one commit, answering each in order; nothing is written of those that are not SAVED.

        `again` says that an earlier call with the same decisions broke off without an answer: what it had saved
        counts as saved. Rows that the store refuses for their data raise RowsRefused, and nothing is written.
        """
        ...

    async def enrol(self, worker: Enrolment) -> Enrolled:
        """Announce a worker; answers with the store's moment and whose turn it is.

        In each of its queues that is after the tenant that the last of its crew who left has named, or, where there was
        none, the last of any; a queue of which nobody has named one is left out. A store may forget one after a month.
        Runs that wait for code (kind `code`) and whose code this worker has become ready: it may have what they need.
        """
        ...

    async def beat(self, worker_id: WorkerId) -> Beat:
        """Say that a worker lives, and hear what it holds. Called from a thread of its own: shares no connection."""
        ...

    async def retire(self, worker_id: WorkerId, turns: Turns | None = None) -> list[RunId]:
        """A worker leaves: it is marked dead and all it still holds goes back to the line, with no crash counted.

        `turns` says where those that come after it are to go on. Runs that wait for code which it has, and others that
        live have too, become ready: what did not fit here may fit there.
        """
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
        """Bury workers whose lease ran out, and give the runs of dead workers back to the line.

        Runs that wait for code which one that is buried has, and others that live have too, become ready.
        """
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

    async def dead_letters(self, where: LetterFilter) -> list[LetterView]:
        """A page of dead letters, newest run first."""
        ...

    async def queues(self) -> list[QueueView]:
        """Every queue that has open runs."""
        ...

    async def backlog(self, limit: int = 1000) -> Backlog:
        """How many runs are ready, by queue and code, each counted up to `limit`: its cost follows that alone."""
        ...

    async def findings(self, limit: int = 100) -> Findings:
        """Runs that break the invariant: no or a second home, a holder that is gone, a wait that nothing can meet.

        And those that are handed back again and again for trouble that stays. Up to `limit` for each clause.
        """
        ...

    async def workers(self) -> list[WorkerView]:
        """The workers that are alive, and those that died lately."""
        ...

    async def put_blob(self, key: BlobKey, content: bytes) -> None:
        """Keep large content in the store itself; this, and the next but one to five, as in Blobs."""
        ...

    async def put_blob_once(self, key: BlobKey, content: bytes) -> bytes:
        """Keep the content if the key has none yet; what it has from now on, whoever put that."""
        ...

    async def get_blob(self, key: BlobKey) -> bytes | None:
        """The content, or None when there is none of that key."""
        ...

    async def has_blob(self, key: BlobKey) -> bool:
        """Whether there is a blob of that key."""
        ...

    async def delete_blob(self, key: BlobKey, put_before: Instant | None = None) -> bool:
        """Remove a blob, with `put_before` only if it was not put again since."""
        ...

    async def list_blobs(self, where: BlobFilter) -> list[BlobInfo]:
        """A page of blobs."""
        ...

    async def mentions(self, runs: Sequence[tuple[str, RunId]]) -> set[tuple[RunId, str]]:
        """Every reference to a large value that the rows of these runs, each given with its tenant, hold.

        What is superseded, delivered and not yet taken, or of an earlier generation counts too.
        """
        ...


class Recorder(Protocol):
    """How a run's code reaches the commit: each decision is answered once, after it is saved or refused."""

    def save(self, run: HeldRun, decision: Decision, answered: Callable[[BaseException | None], None]) -> None:
        """Save with the next commit; `answered` gets None, or the error that kept it from being saved."""
        ...

    def ride(self, run: HeldRun, event: Event) -> None:
        """Send an event along with the next commit of the run."""
        ...
