"""The store in a PostgreSQL database: the face that the engine sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.decisions import Decision, HeldRun, History, NewRun, Started
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused, RowsRefused, StepfastError, StoreUnavailable
from stepfast.kernel.events import EventType
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
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.items import CommentView, GroupView, ItemFilter, ItemId, ItemView
from stepfast.kernel.review_views import (
    EndlessPage,
    FiguresFilter,
    ReviewFigures,
    ReviewFilter,
    ReviewView,
    WholeReview,
)
from stepfast.kernel.reviews import ItemKind, ReviewId
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
from stepfast.stores import items, rows
from stepfast.stores.annotations import Annotations
from stepfast.stores.grants import Grant
from stepfast.stores.lives import Lives
from stepfast.stores.postgres import (
    claiming,
    commands,
    delivering,
    hints,
    reading,
    review_reads,
    rights,
    saving,
    schema,
    starting,
    workers,
)
from stepfast.stores.postgres.assets import PostgresAssets
from stepfast.stores.postgres.blobs import PostgresBlobs
from stepfast.stores.postgres.definitions import PostgresDefinitions
from stepfast.stores.postgres.driver import Connection
from stepfast.stores.postgres.hints import Ear
from stepfast.stores.postgres.lines import Address, Deadlines, Line, LinePerLoop, Pool, part
from stepfast.stores.postgres.outside import PostgresOutside
from stepfast.stores.postgres.retention import PostgresRetention
from stepfast.stores.postgres.sinks import PostgresSinks
from stepfast.stores.postgres.trail import PostgresTrail

COLD_LINES = 4
BLOB_LINES = 2

T = TypeVar("T")


class PostgresStore(
    PostgresAssets,
    PostgresDefinitions,
    PostgresOutside,
    PostgresTrail,
    PostgresSinks,
    PostgresRetention,
    Annotations,
    Lives,
):
    """Everything remembered in one database.

    `has_own_sessions` says whether each connection has a session of the server to itself; behind a pooler such as
    PgBouncer in transaction mode it has not. By default the store finds out when it opens. Behind a pooler it hears
    hints of other processes only by `direct_url`, which leads past it.
    """

    def __init__(
        self,
        url: str,
        *,
        deadlines: Deadlines | None = None,
        cold_lines: int = COLD_LINES,
        has_own_sessions: bool | None = None,
        direct_url: str | None = None,
    ) -> None:
        deadlines = deadlines or Deadlines()
        self._address = Address(url, deadlines, has_own_sessions)
        self._direct = self._address if direct_url is None else Address(direct_url, deadlines, True)
        self._commits = Line(self._address)
        self._claims = Line(self._address)
        # A heartbeat must not queue behind anything, and comes from a thread with a loop of its own.
        self._beats = LinePerLoop(self._address)
        self._cold = Pool(self._address, cold_lines)
        self._ear = Ear(self._direct)
        self._contents = Pool(self._address, BLOB_LINES)
        self._blobs = PostgresBlobs(self._contents)

    async def open(self) -> None:
        """Connect, and check the server and its schema."""
        async with self._visit() as connection:
            await schema.check_database(connection, self._address)
        self._address.is_open = True

    async def close(self) -> None:
        """Let go of every connection."""
        self._address.is_open = False
        for part_of_us in (self._ear, self._contents, self._cold, self._claims, self._commits, self._beats):
            await part_of_us.close()

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; each migration is a transaction of its own."""
        async with self._visit() as connection:
            return await schema.apply_migrations(connection, self._address.where)

    async def grant(self, grants: Sequence[Grant]) -> None:
        """Let roles use the schema without owning it, now and after later migrations."""
        async with self._visit() as connection:
            await rights.grant(connection, self._address.where, grants)

    async def _ask(self, name: str, parameters: dict[str, Any], view: Callable[[Sequence[Any]], T]) -> list[T]:
        return await reading.read(self._cold, name, parameters, view)

    async def now(self) -> Instant:
        """The moment by the clock that all rows are written by."""
        return Instant((await self._cold.fetch("select stepfast.now_ms()"))[0][0])

    async def start(self, runs: Sequence[NewRun], holder: WorkerId | None) -> list[Started]:
        """Store new runs, answering each in order."""
        if not runs:
            return []
        try:
            return await self._start(runs, holder, again=False)
        except StoreUnavailable:
            # A connection that broke does not say whether the commit took place, and who starts without a key could not
            # find out: sent once more, by the ids that the runs have, it is answered as the first time.
            return await self._start(runs, holder, again=True)

    async def _start(self, runs: Sequence[NewRun], holder: WorkerId | None, again: bool) -> list[Started]:
        statement, arguments = starting.start_call(runs, holder, again)
        return starting.started(await self._commits.fetch(statement, arguments))

    async def claim(self, request: Claim) -> Claimed:
        """Lease ready runs to a worker."""
        arguments = claiming.claim_arguments(request)
        while (claimed := claiming.claimed(await self._claims.fetch(claiming.CLAIM, arguments))) is None:
            # An answer of nothing would say that nothing is ready: the worker would rest, or be done.
            continue
        return claimed

    async def claim_run(self, worker_id: WorkerId, run_id: RunId, codes: Sequence[str]) -> HeldRun | None:
        """Lease one given run to a worker."""
        runs = await self.claim_runs(worker_id, [run_id], codes)
        return runs[0] if runs else None

    async def claim_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId], codes: Sequence[str]) -> list[HeldRun]:
        """Lease given runs to a worker."""
        return claiming.claimed_runs(await self._cold.fetch(claiming.CLAIM_RUNS, [worker_id, run_ids, codes]))

    async def family(self, run_id: RunId, limit: int = 1000) -> Family:
        """What a run and its descendants have that can be taken."""
        return await reading.get_family(self._cold, run_id, limit)

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        """Carry out commands in one transaction, answering each in order."""
        if not requests:
            return []
        try:
            return await self._cold.transact(lambda connection: commands.carry_out(connection, requests))
        except RowsRefused as refusal:
            # The culprit is found by halving: what cannot be stored must not keep the others from being carried out.
            if len(requests) == 1:
                return [refusal]
            half = len(requests) // 2
            return [*await self.change(requests[:half]), *await self.change(requests[half:])]

    async def histories(self, run_ids: Sequence[RunId]) -> dict[RunId, History]:
        """What replay goes by."""
        return await delivering.histories(self._claims.fetch, run_ids)

    async def look(self, run_id: RunId) -> Look | None:
        """What has come for a run."""
        return await delivering.look(self._cold.fetch, run_id)

    async def deliver(self, delivery: Delivery) -> Delivered:
        """Store something for a run, and wake it when it waits for just that."""
        return await delivering.deliver(self._cold.fetch, delivery)

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        """Save decisions in one commit, answering each in order."""
        if not decisions:
            return []
        statement, columns = saving.save_call(decisions, again)
        try:
            return saving.savings(await self._commits.fetch(statement, columns))
        except KeyReused as refusal:
            # A child whose key is taken is bad data of one decision, and no reason to stop the others for good.
            raise RowsRefused(str(refusal)) from refusal

    async def enrol(self, worker: Enrolment) -> Enrolled:
        """Announce a worker."""
        return workers.enrolled(await self._beats.fetch(workers.ENROL, workers.enrol_arguments(worker)))

    async def beat(self, worker_id: WorkerId) -> Beat:
        """Say that a worker lives, and hear what it holds."""
        return workers.beat_of(await self._beats.fetch(workers.BEAT, [worker_id]))

    async def retire(self, worker_id: WorkerId, turns: Turns | None = None) -> list[RunId]:
        """A worker leaves, and its runs go back to the line."""
        answer = await self._beats.fetch(workers.RETIRE, workers.retire_arguments(worker_id, turns))
        return [RunId(run_id) for run_id in answer[0][0]]

    async def give_back(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> None:
        """Give runs that a worker holds without knowing it back to the line."""
        await self._beats.fetch(workers.GIVE_BACK, [worker_id, run_ids])

    async def hint(self, topics: Sequence[str]) -> None:
        """Tell the other processes on this database that something of these topics has happened."""
        await self._cold.fetch(hints.HINT, self._ear.hint_arguments(topics))

    async def hear(self, heard: Callable[[str], None]) -> None:
        """Call `heard` with each topic that another process hints at; behind a pooler nothing can be heard."""
        if self._direct.has_own_sessions:
            await self._ear.open(heard)
        else:
            hints.tell_unheard(self._direct.where)

    async def upkeep(self, request: Upkeep) -> UpkeepReport:
        """See to workers that are gone, and to their runs."""
        return workers.upkeep_report(await self._cold.fetch(workers.UPKEEP, workers.upkeep_arguments(request)))

    async def outcomes(self, run_ids: Sequence[RunId]) -> dict[RunId, OutcomeView]:
        """How those runs ended that have ended."""
        return reading.outcomes_by_run(await self._cold.fetch(reading.OUTCOMES, [list(run_ids)]))

    async def run(self, tenant: str | None, run_id: RunId) -> RunView | None:
        """One run, if this tenant has it."""
        parameters = {"tenant": tenant, "run_id": run_id}
        found = await reading.read(self._cold, "get_run", parameters, rows.whole_run_view)
        return found[0] if found else None

    async def runs(self, where: RunFilter) -> list[RunView]:
        """A page of runs, newest first."""
        return await reading.read(self._cold, "list_runs", rows.filter_parameters(where), rows.run_view)

    async def steps(self, run_id: RunId) -> list[StepView]:
        """Every record of a run."""
        return await reading.read(self._cold, "list_steps", {"run_id": run_id}, rows.step_view)

    async def events(self, run_id: RunId, after: int = 0, limit: int = 1000) -> list[EventView]:
        """A run's history after an event."""
        parameters = {"run_id": run_id, "after": after, "limit": limit}
        return await reading.read(self._cold, "list_events", parameters, rows.event_view)

    async def dead_letters(self, where: LetterFilter) -> list[LetterView]:
        """A page of dead letters, newest run first."""
        return await reading.read(self._cold, "list_letters", rows.letter_parameters(where), rows.letter_view)

    async def exceptions(self, where: ItemFilter) -> list[ItemView]:
        """A page of exception items, newest run first."""
        return await reading.read(self._cold, "list_exceptions", items.item_parameters(where), items.item_view)

    async def exception_counts(self, where: ItemFilter) -> dict[ItemKind, int]:
        """How many exception items there are of each kind."""
        parameters = items.item_parameters(where)
        return dict(await reading.read(self._cold, "count_exceptions", parameters, items.kind_count))

    async def exception_groups(self, where: ItemFilter) -> list[GroupView]:
        """Equal open items, the largest groups first."""
        return await reading.read(self._cold, "group_exceptions", items.item_parameters(where), items.group_view)

    async def exception_comments(self, item: ItemId) -> list[CommentView]:
        """What people have said of an item."""
        parameters = items.comment_parameters(item)
        return await reading.read(self._cold, "list_item_comments", parameters, items.comment_view)

    async def reviews(self, where: ReviewFilter) -> list[ReviewView]:
        """A page of reviews, those of the newest runs first."""
        return await review_reads.list_reviews(self._cold, where)

    async def review(self, tenant: str | None, review_id: ReviewId) -> WholeReview | None:
        """One review, if this tenant has it."""
        return await review_reads.get_review(self._cold, tenant, review_id)

    async def review_figures(self, where: FiguresFilter, in_time_ms: int) -> ReviewFigures:
        """Figures over reviews."""
        return await review_reads.get_figures(self._cold, where, in_time_ms)

    async def endless_reviews(self, tenant: str | None, before: ReviewId | None, limit: int = 1_000) -> EndlessPage:
        """Of so many reviews those that have not exactly one end."""
        return await review_reads.list_endless(self._cold, tenant, before, limit)

    async def tell(self, tenant: str, event_type: EventType, actor: str | None, data: str) -> None:
        """Write an event that belongs to no run."""
        await self._cold.fetch(review_reads.TELL, [tenant, event_type.value, actor, data])

    async def queues(self) -> list[QueueView]:
        """Every queue that has open runs."""
        return await reading.read(self._cold, "list_queues", {}, rows.queue_view)

    async def backlog(self, limit: int = 1000) -> Backlog:
        """How much is ready, by queue and code."""
        return await reading.get_backlog(self._cold, limit)

    async def findings(self, limit: int = 100) -> Findings:
        """Runs that break the invariant of unended runs."""
        return await reading.find_all(self._cold, limit)

    async def workers(self) -> list[WorkerView]:
        """The workers that are alive, and those that died lately."""
        return await reading.read(self._cold, "list_workers", {}, rows.worker_view)

    async def put_blob(self, key: BlobKey, content: bytes) -> None:
        """Keep large content in the store itself."""
        await self._blobs.put(key, content)

    async def put_blob_once(self, key: BlobKey, content: bytes) -> bytes:
        """Keep the content if the key has none yet; what it has from now on."""
        return await self._blobs.put_once(key, content)

    async def get_blob(self, key: BlobKey) -> bytes | None:
        """The content, or None when there is none of that key."""
        return await self._blobs.get(key)

    async def has_blob(self, key: BlobKey) -> bool:
        """Whether there is a blob of that key."""
        return await self._blobs.has(key)

    async def delete_blob(self, key: BlobKey, put_before: Instant | None = None) -> bool:
        """Remove a blob, with `put_before` only if it was not put again since."""
        return await self._blobs.delete(key, put_before)

    async def list_blobs(self, where: BlobFilter) -> list[BlobInfo]:
        """A page of blobs."""
        return await self._blobs.list(where)

    async def mentions(self, runs: Sequence[tuple[str, RunId]]) -> set[tuple[RunId, str]]:
        """Every reference to a large value that the rows of these runs hold."""
        return await self._blobs.mentions(runs)

    @asynccontextmanager
    async def _visit(self) -> AsyncIterator[Connection]:
        """A connection for a while, apart from all lines."""
        connection = await self._address.visit()
        try:
            yield connection
        finally:
            # Shielded: a caller that is cancelled here must not leave the connection behind.
            await asyncio.shield(part(connection))
