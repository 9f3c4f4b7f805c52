"""The store in one SQLite file: the face that the engine sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.decisions import Decision, HeldRun, History, NewRun, Started
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
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
from stepfast.stores.annotations import Annotations
from stepfast.stores.lives import Lives
from stepfast.stores.sqlite import (
    changing,
    claiming,
    delivering,
    exceptions,
    migrate,
    reading,
    reviews,
    saving,
    starting,
    upkeep,
    workers,
)
from stepfast.stores.sqlite.assets import SqliteAssets
from stepfast.stores.sqlite.blobs import SqliteBlobs, list_mentions
from stepfast.stores.sqlite.connection import Reader, Writer
from stepfast.stores.sqlite.definitions import SqliteDefinitions
from stepfast.stores.sqlite.file_system import prepare_folder
from stepfast.stores.sqlite.foreign import refuse_foreign
from stepfast.stores.sqlite.hints import Hints
from stepfast.stores.sqlite.outside import SqliteOutside
from stepfast.stores.sqlite.problems import explained
from stepfast.stores.sqlite.retention import SqliteRetention
from stepfast.stores.sqlite.sinks import SqliteSinks
from stepfast.stores.sqlite.trail import SqliteTrail
from stepfast.stores.sqlite.upkeep import Sight, keep, look

PATIENCE_MS = 5_000

T = TypeVar("T")


class SqliteStore(
    SqliteAssets, SqliteDefinitions, SqliteOutside, SqliteTrail, SqliteSinks, SqliteRetention, Annotations, Lives
):
    """Everything remembered in one file; `patience_ms` is how long a call waits for another process to finish."""

    def __init__(self, path: Path, clock: Callable[[], int], patience_ms: int = PATIENCE_MS) -> None:
        self._path = path
        self._clock = clock
        self._writer = Writer(path, clock, patience_ms, "writer")
        # A heartbeat must not queue behind commits, nor a replay behind somebody's long list.
        self._beats = Writer(path, clock, patience_ms, "beats")
        self._replays = Reader(path, clock, patience_ms, "replays")
        self._views = Reader(path, clock, patience_ms, "views")
        self._hints = Hints(path)
        self._blobs = SqliteBlobs(self._writer, self._replays)

    async def open(self) -> None:
        """Make the file where there is none, bring its schema up to date and connect."""
        try:
            await self.migrate()
            for part in (self._beats, self._replays, self._views):
                await part.connect()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Let go of every connection, thread and file."""
        self._hints.close()
        for part in (self._views, self._replays, self._beats, self._writer):
            await part.close()

    async def migrate(self) -> list[str]:
        """Bring the schema up to date; each migration is a transaction of its own."""
        with explained(self._path):
            prepare_folder(self._path)
            refuse_foreign(self._path)
        await self._writer.connect()
        applied = []
        while name := await self._writer.run(partial(migrate.apply_next, path=self._path)):
            applied.append(name)
        return applied

    async def _ask(self, name: str, parameters: dict[str, Any], view: Callable[[Sequence[Any]], T]) -> list[T]:
        return await self._views.run(partial(reading.read, name=name, bindings=parameters, view=view))

    async def now(self) -> Instant:
        """The moment by the clock that all rows are written by."""
        return Instant(self._clock())

    async def start(self, runs: Sequence[NewRun], holder: WorkerId | None) -> list[Started]:
        """Store new runs, answering each in order."""
        return await self._writer.run(partial(starting.start, runs=runs, holder=holder))

    async def claim(self, request: Claim) -> Claimed:
        """Lease ready runs to a worker."""
        work, then = partial(claiming.claim, request=request), partial(claiming.claimed, request=request)
        look = partial(claiming.look, request=request)
        while (claimed := await self._writer.run_unless(look, work, then)) is None:
            # An answer of nothing would say that nothing is ready: the worker would rest, or be done.
            continue
        return claimed

    async def claim_run(self, worker_id: WorkerId, run_id: RunId, codes: Sequence[str]) -> HeldRun | None:
        """Lease one given run to a worker."""
        runs = await self.claim_runs(worker_id, [run_id], codes)
        return runs[0] if runs else None

    async def claim_runs(self, worker_id: WorkerId, run_ids: Sequence[RunId], codes: Sequence[str]) -> list[HeldRun]:
        """Lease given runs to a worker."""
        work = partial(claiming.claim_runs, worker_id=worker_id, run_ids=run_ids, codes=codes)
        return await self._writer.run_then(work, partial(claiming.held_runs, worker_id=worker_id))

    async def family(self, run_id: RunId, limit: int = 1000) -> Family:
        """What a run and its descendants have that can be taken."""
        return await self._views.run(partial(reading.get_family, run_id=run_id, limit=limit))

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        """Carry out commands, answering each in order."""
        return await self._writer.run(partial(changing.change, requests=requests))

    async def save(self, decisions: Sequence[Decision], again: bool = False) -> list[Saving]:
        """Save decisions in one commit, answering each in order."""
        prepared = [saving.prepare(decision) for decision in decisions]
        return await self._writer.run(partial(saving.save, prepared=prepared, again=again))

    async def enrol(self, worker: Enrolment) -> Enrolled:
        """Announce a worker."""
        return await self._writer.run(partial(workers.enrol, worker=worker))

    async def beat(self, worker_id: WorkerId) -> Beat:
        """Say that a worker lives, and hear what it holds."""
        heard: Beat | None = await self._beats.run_single(partial(workers.beat, worker_id=worker_id))
        if heard is None:
            return await self._beats.look(partial(workers.unheard, worker_id=worker_id))
        return heard

    async def retire(self, worker_id: WorkerId, turns: Turns | None = None) -> list[RunId]:
        """A worker leaves, and its runs go back to the line."""
        return await self._writer.run(partial(workers.retire, worker_id=worker_id, turns=turns))

    async def give_back(self, worker_id: WorkerId, run_ids: Sequence[RunId]) -> None:
        """Give runs of a worker back to the line."""
        await self._writer.run(partial(workers.give_back, worker_id=worker_id, run_ids=run_ids))

    async def hint(self, topics: Sequence[str]) -> None:
        """Tell the other processes on this file."""
        self._hints.send(topics)

    async def hear(self, heard: Callable[[str], None]) -> None:
        """Listen to the other processes on this file."""
        self._hints.hear(heard)

    async def upkeep(self, request: Upkeep) -> UpkeepReport:
        """See to workers that are gone, and to their runs."""
        sight = await self._look_after(request.worker_id)
        if not sight.has_work:
            return sight.report
        report: UpkeepReport = await self._writer.run(partial(upkeep.upkeep, request=request))
        return report._replace(kept=report.kept or sight.kept)

    async def _look_after(self, worker_id: WorkerId | None) -> Sight:
        """Look whether there is anything to do, and keep the lease of whoever asks."""
        kept: Sight | None = None
        if worker_id is not None:
            kept = await self._writer.run_single(partial(keep, worker_id=worker_id))
        return await self._writer.look(look) if kept is None else kept

    async def histories(self, run_ids: Sequence[RunId]) -> dict[RunId, History]:
        """What replay goes by."""
        return await self._replays.run(partial(reading.get_histories, run_ids=run_ids))

    async def look(self, run_id: RunId) -> Look | None:
        """What has come for a run."""
        return await self._replays.run(partial(reading.look, run_id=run_id))

    async def deliver(self, delivery: Delivery) -> Delivered:
        """Store something for a run, and wake it when it waits for just that."""
        return await self._writer.run(partial(delivering.deliver, delivery=delivery))

    async def outcomes(self, run_ids: Sequence[RunId]) -> dict[RunId, OutcomeView]:
        """How those runs ended that have ended."""
        return await self._replays.run(partial(reading.get_outcomes, run_ids=run_ids))

    async def run(self, tenant: str | None, run_id: RunId) -> RunView | None:
        """One run, if this tenant has it."""
        return await self._views.run(partial(reading.get_run, tenant=tenant, run_id=run_id))

    async def runs(self, where: RunFilter) -> list[RunView]:
        """A page of runs, newest first."""
        return await self._views.run(partial(reading.list_runs, where=where))

    async def steps(self, run_id: RunId) -> list[StepView]:
        """Every record of a run."""
        return await self._views.run(partial(reading.list_steps, run_id=run_id))

    async def events(self, run_id: RunId, after: int = 0, limit: int = 1000) -> list[EventView]:
        """A run's history after an event."""
        return await self._views.run(partial(reading.list_events, run_id=run_id, after=after, limit=limit))

    async def dead_letters(self, where: LetterFilter) -> list[LetterView]:
        """A page of dead letters, newest run first."""
        return await self._views.run(partial(reading.list_letters, where=where))

    async def exceptions(self, where: ItemFilter) -> list[ItemView]:
        """A page of exception items, newest run first."""
        return await self._views.run(partial(exceptions.list_items, where=where))

    async def exception_counts(self, where: ItemFilter) -> dict[ItemKind, int]:
        """How many exception items there are of each kind."""
        return await self._views.run(partial(exceptions.count_items, where=where))

    async def exception_groups(self, where: ItemFilter) -> list[GroupView]:
        """Equal open items, the largest groups first."""
        return await self._views.run(partial(exceptions.group_items, where=where))

    async def exception_comments(self, item: ItemId) -> list[CommentView]:
        """What people have said of an item."""
        return await self._views.run(partial(exceptions.list_comments, item=item))

    async def reviews(self, where: ReviewFilter) -> list[ReviewView]:
        """A page of reviews, those of the newest runs first."""
        return await self._views.run(partial(reviews.list_reviews, where=where))

    async def review(self, tenant: str | None, review_id: ReviewId) -> WholeReview | None:
        """One review, if this tenant has it."""
        return await self._views.run(partial(reviews.get_review, tenant=tenant, review_id=review_id))

    async def review_figures(self, where: FiguresFilter, in_time_ms: int) -> ReviewFigures:
        """Figures over reviews."""
        return await self._views.run(partial(reviews.get_figures, where=where, in_time_ms=in_time_ms))

    async def endless_reviews(self, tenant: str | None, before: ReviewId | None, limit: int = 1_000) -> EndlessPage:
        """Of so many reviews those that have not exactly one end."""
        work = partial(reviews.list_endless, tenant=tenant, before=before, limit=limit)
        return await self._views.run(work)

    async def tell(self, tenant: str, event_type: EventType, actor: str | None, data: str) -> None:
        """Write an event that belongs to no run."""
        await self._writer.run(partial(reviews.tell, tenant=tenant, event_type=event_type, actor=actor, data=data))

    async def queues(self) -> list[QueueView]:
        """Every queue that has open runs."""
        return await self._views.run(reading.list_queues)

    async def backlog(self, limit: int = 1000) -> Backlog:
        """How much is ready, by queue and code."""
        return await self._views.run(partial(reading.get_backlog, limit=limit))

    async def findings(self, limit: int = 100) -> Findings:
        """Runs that break the invariant of unended runs."""
        return await self._views.run(partial(reading.find_all, limit=limit))

    async def workers(self) -> list[WorkerView]:
        """The workers that are alive, and those that died lately."""
        return await self._views.run(reading.list_workers)

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
        return await self._views.run(partial(list_mentions, runs=runs))
