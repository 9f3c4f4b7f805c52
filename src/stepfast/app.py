"""The app: the one place where workflows, engine, store and worker are wired together."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from stepfast.engine.clock import SystemClock
from stepfast.kernel.decisions import NewRun
from stepfast.kernel.durations import Duration, Instant, span_ms
from stepfast.kernel.errors import Invalid, StepfastError
from stepfast.kernel.ids import RANDOM_BITS, RunId, WorkerId, new_id, parse_run_id
from stepfast.kernel.ports import Clock
from stepfast.kernel.states import RunState
from stepfast.kernel.views import RunFilter, RunView, WorkerView
from stepfast.log import Log
from stepfast.parts import Parts
from stepfast.runs import Run
from stepfast.settings import Found, read_settings, warn_of_unknown
from stepfast.starts import Start, StartAnswer, new_run, pages
from stepfast.stores.urls import store_for, without_password
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.worker import Worker, WorkerStats
from stepfast.workflows.functions import AnyWorkflow, AsyncWorkflow, SyncWorkflow, Workflow
from stepfast.workflows.registry import Registry

T = TypeVar("T")

log = Log("app")


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
        given = {} if database is None else {"STEPFAST_DATABASE_URL": Found(database, "database")}
        settings = read_settings(given)
        warn_of_unknown(settings)
        self.database = settings.database
        self._direct_url = settings.database_direct
        self._registry = Registry(None if workflows is None else [definition_of(given) for given in workflows])
        self._settings = worker if isinstance(worker, WorkerSettings) else settings.worker
        self._has_worker = worker is not False
        self._clock: Clock = clock or SystemClock()
        self.workers = Workers(self)
        self._parts: Parts | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store, and start the worker if there is to be one."""
        parts = await self._open_store()
        if self._has_worker:
            try:
                await parts.add_worker(self._settings)
            except BaseException:
                await self.close()
                raise

    async def _open_store(self) -> Parts:
        if self._parts is not None:
            raise StepfastError("This app is open already. Use it, or close it first.")
        self._registry.codes()
        store = store_for(self.database, self._clock, self._direct_url)
        await store.open()
        self._parts = parts = Parts(store, self._registry, self._clock)
        try:
            await parts.open()
        except BaseException:
            await self.close()
            raise
        return parts

    async def close(self) -> None:
        """Stop the worker, save what is under way, and let go of the store."""
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.close()

    def worker(
        self,
        *,
        queues: Iterable[str] | None = None,
        concurrency: int | None = None,
        tenants: Iterable[str] | None = None,
        lease: Duration | None = None,
        poll: Duration | None = None,
        grace: Duration | None = None,
        label: str | None = None,
        max_runs: int | None = None,
    ) -> AppWorker:
        """A worker on this app's store, to be started and stopped by hand; what is not given is as in the settings."""
        given: dict[str, Any] = {
            "queues": None if queues is None else tuple(queues),
            "concurrency": concurrency,
            "tenants": None if tenants is None else tuple(tenants),
            "poll_ms": None if poll is None else span_ms(poll, "poll"),
            "grace_ms": None if grace is None else span_ms(grace, "grace"),
            "label": label,
            "max_runs": max_runs,
        }
        settings = self._settings if lease is None else self._settings.with_lease(span_ms(lease, "lease"))
        return AppWorker(self, replace(settings, **{name: value for name, value in given.items() if value is not None}))

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
        run = new_run(
            definition,
            self._new_run_id(),
            args,
            tenant=tenant,
            key=key,
            queue=queue,
            priority=priority,
            delay=delay,
            tags=tags,
            metadata=metadata,
            thread_id=thread_id,
            subject=subject,
            correlation_id=correlation_id,
            actor=actor,
            **kwargs,
        )
        return await parts.start(run, definition)

    async def start_many(self, requests: Iterable[Start]) -> list[StartAnswer]:
        """Store any number of runs, a thousand to a commit, and say of each, in order, what became of it.

        A request that does not fit is refused with its error as the answer, and the others are stored all the same.
        """
        parts = self._open_parts()
        answers: list[StartAnswer] = []
        for page in pages(self._run_or_refusal(request) for request in requests):
            answers += await parts.start_page(page)
        return answers

    def _run_or_refusal(self, request: Start) -> NewRun | StepfastError:
        try:
            return new_run(self._definition(request.workflow), self._new_run_id(), request.args, **request.options)
        except StepfastError as error:
            return error

    def _new_run_id(self) -> RunId:
        return RunId(new_id(self._clock.now(), secrets.randbits(RANDOM_BITS)))

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

    async def retire_worker(self, worker_id: str) -> None:
        """Give back what a worker holds that cannot do it by itself; works from any thread and event loop."""
        store = store_for(self.database, self._clock, self._direct_url)
        await store.open()
        try:
            await store.retire(WorkerId(worker_id))
        finally:
            await store.close()

    def codes(self) -> list[str]:
        """The workflows that this app knows, as `name@version`."""
        return self._registry.codes()

    def _definition(self, workflow: AnyWorkflow | str) -> Workflow:
        if isinstance(workflow, str):
            return self._registry.newest(workflow)
        definition = definition_of(workflow)
        self._registry.add(definition)
        return definition

    def _open_parts(self) -> Parts:
        if self._parts is None:
            raise StepfastError("The app is not open. Use it inside `async with app:`.")
        return self._parts


class AppWorker:
    """A worker of an app, from `start` to `stop`; it opens the app for itself if nobody else has."""

    def __init__(self, app: Stepfast, settings: WorkerSettings) -> None:
        self._app = app
        self._settings = settings
        self._worker: Worker | None = None
        self._opened_the_app = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def worker_id(self) -> str:
        """Its id, once it has been started; empty before."""
        return "" if self._worker is None else self._worker.worker_id

    @property
    def grace_ms(self) -> int:
        """How long steps under way may take to finish when it stops."""
        return self._settings.grace_ms

    @property
    def drained(self) -> asyncio.Event:
        """Set while nothing is held and the last claim found nothing."""
        return self._started().drained

    @property
    def spent(self) -> asyncio.Event:
        """Set when the worker has taken as many runs as it may in its life."""
        return self._started().spent

    async def start(self) -> None:
        """Announce the worker and begin to claim."""
        if self._worker is not None:
            raise StepfastError("This worker was started before. Make another one with `app.worker(...)`.")
        app = self._app
        self._opened_the_app = app._parts is None
        parts = app._parts or await app._open_store()
        try:
            self._worker = await parts.add_worker(self._settings)
        except BaseException:
            if self._opened_the_app:
                await app.close()
            raise
        served = self._worker.settings
        log.info(
            "worker_started",
            worker_id=self._worker.worker_id,
            database=without_password(app.database),
            queues=served.queues,
            codes=app.codes(),
            concurrency=served.slots,
        )

    async def stop(self, grace: Duration | None = None) -> None:
        """Claim no more, let steps under way finish within the grace time, hand back the rest, and leave."""
        worker, parts = self._started(), self._app._parts
        if parts is None:
            return
        log.info("worker_stopping", worker_id=worker.worker_id, running=worker.stats().running)
        await parts.remove_worker(worker, None if grace is None else span_ms(grace, "grace"))
        if self._opened_the_app:
            await self._app.close()
        log.info("worker_stopped", worker_id=worker.worker_id, runs_processed=worker.stats().runs_processed)

    def stats(self) -> WorkerStats:
        """What the worker has done so far."""
        return self._started().stats()

    def _started(self) -> Worker:
        if self._worker is None:
            raise StepfastError("This worker has not been started. Call its `start()` first.")
        return self._worker


class Workers:
    """The workers on an app's store, in every process."""

    def __init__(self, app: Stepfast) -> None:
        self._app = app

    async def list(self) -> list[WorkerView]:
        """Those that are alive, and those that died lately."""
        return await self._app._open_parts().store.workers()


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
