"""The app: the one place where workflows, engine, store and worker are wired together."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from stepfast.engine.clock import SystemClock
from stepfast.engine.committer import Committer
from stepfast.engine.hints import ENDED, Hints, ready
from stepfast.engine.results import Results
from stepfast.engine.starting import Starter
from stepfast.kernel.decisions import HeldRun, NewRun, Started
from stepfast.kernel.durations import Duration, Instant, span_ms
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RANDOM_BITS, RunId, WorkerId, new_id, parse_run_id
from stepfast.kernel.ports import Clock, Store
from stepfast.kernel.states import RunState
from stepfast.kernel.texts import check_optional_text, check_text
from stepfast.kernel.views import OutcomeView, RunFilter, RunView
from stepfast.runs import Run
from stepfast.stores.urls import store_for
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.worker import Worker
from stepfast.workflows.codec import digest
from stepfast.workflows.functions import AnyWorkflow, AsyncWorkflow, SyncWorkflow, Workflow
from stepfast.workflows.registry import Registry

T = TypeVar("T")

DEFAULT_DATABASE = "sqlite:///.stepfast/stepfast.db"
FIRST_TOKEN = 1
EVENTS_AT_BIRTH = 2


class Stepfast:
    """A store, the workflows that run on it, and, unless told otherwise, a worker in this process."""

    def __init__(
        self,
        database: str | None = None,
        *,
        workflows: Iterable[AnyWorkflow] | None = None,
        worker: bool | WorkerSettings = True,
        clock: Clock | None = None,
    ) -> None:
        self.database = database or os.environ.get("STEPFAST_DATABASE_URL") or DEFAULT_DATABASE
        self._registry = Registry(None if workflows is None else [definition_of(given) for given in workflows])
        self._settings = WorkerSettings() if worker is True else worker
        self._clock: Clock = clock or SystemClock()
        self._store: Store | None = None
        self._parts: _Parts | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store, and start the worker if there is to be one."""
        if self._parts is not None:
            raise StepfastError("This app is open already. Use it, or close it first.")
        self._registry.codes()
        store = store_for(self.database, self._clock)
        await store.open()
        parts = _Parts(store, self._registry, self._clock, self._settings or None)
        try:
            await parts.open()
        except BaseException:
            await store.close()
            raise
        self._parts = parts

    async def close(self) -> None:
        """Stop the worker, save what is under way, and let go of the store."""
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.close()

    @overload
    async def start(self, workflow: AsyncWorkflow[..., T], /, *args: Any, **options: Any) -> Run[T]: ...

    @overload
    async def start(self, workflow: SyncWorkflow[..., T], /, *args: Any, **options: Any) -> Run[T]: ...

    @overload
    async def start(self, workflow: str | Workflow, /, *args: Any, **options: Any) -> Run[Any]: ...

    async def start(
        self,
        workflow: AnyWorkflow | str,
        /,
        *args: Any,
        tenant: str = "default",
        key: str | None = None,
        queue: str | None = None,
        priority: int = 0,
        delay: Duration | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        thread_id: str | None = None,
        subject: str | None = None,
        correlation_id: str | None = None,
        actor: str | None = None,
        **kwargs: Any,
    ) -> Run[Any]:
        """Store a run and return at once; it is on disk when this returns."""
        parts = self._open_parts()
        definition = self._definition(workflow)
        arguments = definition.arguments
        text, _ = arguments.restore(arguments.bind(args, kwargs))
        run = NewRun(
            run_id=RunId(new_id(self._clock.now(), secrets.randbits(RANDOM_BITS))),
            tenant=check_text("tenant", tenant),
            workflow=definition.name,
            version=definition.version,
            kind="workflow",
            queue=check_text("queue", queue or definition.queue),
            code=definition.code,
            priority=_check_priority(priority or definition.priority),
            input=text,
            digest=digest(f"{definition.name}:{text}"),
            key=check_optional_text("key", key),
            delay_ms=0 if delay is None else span_ms(delay, "delay"),
            actor=check_optional_text("actor", actor),
            correlation_id=check_optional_text("correlation_id", correlation_id),
            thread_id=check_optional_text("thread_id", thread_id),
            subject=check_optional_text("subject", subject),
            tags=tuple(sorted({check_text("tag", tag) for tag in tags or ()})),
            metadata=_metadata_text(metadata),
        )
        return await parts.start(run, definition)

    def get(self, run_id: str) -> Run[Any]:
        """The handle of a run; whether it exists shows when it is asked something."""
        return self._open_parts().handle(parse_run_id(run_id), known_here=False)

    async def runs(
        self,
        workflow: str | None = None,
        *,
        version: int | None = None,
        state: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        actor: str | None = None,
        correlation_id: str | None = None,
        subject: str | None = None,
        thread_id: str | None = None,
        tag: str | None = None,
        queued_after: int | None = None,
        updated_after: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> list[RunView]:
        """A page of runs, newest first; the id of the last one is the cursor of the next page."""
        where = RunFilter(
            tenant=tenant,
            workflow=workflow,
            version=version,
            state=None if state is None else _state(state),
            queue=queue,
            actor=actor,
            correlation_id=correlation_id,
            subject=subject,
            thread_id=thread_id,
            tag=tag,
            queued_after=None if queued_after is None else Instant(queued_after),
            updated_after=None if updated_after is None else Instant(updated_after),
            before=None if cursor is None else parse_run_id(cursor),
            limit=limit,
        )
        return await self._open_parts().store.runs(where)

    def _definition(self, workflow: AnyWorkflow | str) -> Workflow:
        if isinstance(workflow, str):
            return self._registry.newest(workflow)
        definition = definition_of(workflow)
        self._registry.add(definition)
        return definition

    def _open_parts(self) -> _Parts:
        if self._parts is None:
            raise StepfastError("The app is not open. Use it inside `async with app:`.")
        return self._parts


class _Parts:
    """What an open app consists of."""

    def __init__(self, store: Store, registry: Registry, clock: Clock, settings: WorkerSettings | None) -> None:
        self.store = store
        self._registry = registry
        self._committer = Committer(store)
        self._results = Results(store)
        self._starter = Starter(store, self._holder_for)
        self._hints = Hints(store)
        self._worker: Worker | None = None
        if settings is not None:
            self._worker = Worker(store, registry, self._committer, clock, settings, self._ended)

    async def open(self) -> None:
        self._committer.start()
        self._starter.open()
        self._hints.on_ended = self._results.look_now
        self._hints.on_ready = self._work_is_ready
        await self._hints.open()
        if self._worker is not None:
            await self._worker.start()

    async def close(self) -> None:
        await self._starter.close()
        if self._worker is not None:
            await self._worker.stop()
        await self._committer.close()
        await self._results.close()
        await self._hints.close()
        await self.store.close()

    async def start(self, run: NewRun, definition: Workflow) -> Run[Any]:
        handle = self.handle(run.run_id, known_here=True)
        started = await self._starter.start(run)
        if not started.fresh:
            return self.handle(started.run_id, known_here=False)
        handle._code = definition.code
        if started.token is None:
            self._work_is_ready(run.queue)
            self._hints.send(ready(run.queue))
        elif self._worker is not None:
            self._worker.adopt(_held_from_birth(run, started, self._worker.worker_id))
        return handle

    def handle(self, run_id: RunId, known_here: bool) -> Run[Any]:
        return Run(run_id, self.store, self._results, self._registry, known_here)

    def _holder_for(self, queue: str, number: int) -> WorkerId | None:
        worker = self._worker
        return worker.worker_id if worker is not None and worker.has_room_for(queue, number) else None

    def _work_is_ready(self, queue: str) -> None:
        if self._worker is not None and self._worker.serves(queue):
            self._worker.wake()

    def _ended(self, outcome: OutcomeView) -> None:
        self._results.note(outcome)
        self._hints.send(ENDED)


def _held_from_birth(run: NewRun, started: Started, worker_id: WorkerId) -> HeldRun:
    """A run born leased, as a claim would have handed it out."""
    return HeldRun(
        run_id=run.run_id,
        tenant=run.tenant,
        workflow=run.workflow,
        version=run.version,
        kind=run.kind,
        queue=run.queue,
        generation=1,
        token=started.token or FIRST_TOKEN,
        worker_id=worker_id,
        input=run.input,
        wakes=0,
        hold=False,
        claims=1,
        crashes=0,
        last_seq=0,
        last_event=EVENTS_AT_BIRTH,
        queued_at=started.queued_at,
        actor=run.actor,
        correlation_id=run.correlation_id,
        causation_id=run.causation_id,
        thread_id=run.thread_id,
        subject=run.subject,
        metadata=run.metadata,
    )


def run_on_default_app(workflow: Workflow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Open the default app, run one workflow, wait for its result, close."""

    async def run() -> Any:
        async with Stepfast() as app:
            return await (await app.start(workflow, *args, **kwargs))

    return asyncio.run(run())


def definition_of(given: AnyWorkflow) -> Workflow:
    """The definition behind a decorated function."""
    if isinstance(given, Workflow):
        return given
    if isinstance(given, AsyncWorkflow | SyncWorkflow):
        return given.workflow
    raise Invalid(f"{given!r} is no workflow: mark the function with @workflow.")


def _state(text: str) -> RunState:
    try:
        return RunState(text)
    except ValueError:
        raise Invalid(f"state is {text!r}; allowed are {', '.join(RunState)}.") from None


MAX_PRIORITY = 1_000_000


def _check_priority(priority: object) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > MAX_PRIORITY:
        raise Invalid(f"priority is {priority!r}; use a whole number between -{MAX_PRIORITY:,} and {MAX_PRIORITY:,}.")
    return priority


def _metadata_text(metadata: Mapping[str, Any] | None) -> str | None:
    if metadata is None:
        return None
    try:
        return json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Invalid(f"metadata cannot be stored as JSON: {error}. Give plain values only.") from None
