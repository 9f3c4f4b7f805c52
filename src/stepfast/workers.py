"""Workers of an app: one to be started and stopped by hand, and the list of all on its store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

from stepfast.base import AppBase
from stepfast.errands import begin_errand
from stepfast.kernel.durations import Duration, span_ms
from stepfast.kernel.errors import Invalid, StepfastError, WorkerNotFound
from stepfast.kernel.texts import shown
from stepfast.log import Log
from stepfast.stores.postgres_urls import without_password

if TYPE_CHECKING:
    from stepfast.kernel.ids import RunId
    from stepfast.kernel.views import WorkerView
    from stepfast.parts import Parts
    from stepfast.worker.settings import WorkerSettings
    from stepfast.worker.worker import Worker, WorkerStats

    Views = list[WorkerView]

log = Log("app")


class AppWorker:
    """A worker of an app, from `start` to `stop`; it opens the app for itself if nobody else has."""

    def __init__(self, app: AppBase, settings: WorkerSettings, only: RunId | None = None) -> None:
        self._app = app
        self._settings = settings
        self._only = only
        self._worker: Worker | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_stopped = False
        """Whether it was stopped before it had been started."""
        self._parts: Parts | None = None
        self._open = AsyncExitStack()
        """What is to be closed behind it."""

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

    async def until_drained(self) -> None:
        """Wait until nothing is ready or held here, and what workers hold whose lease is over has been given back."""
        await self._started().until_drained()

    @property
    def spent(self) -> asyncio.Event:
        """Set when the worker has taken as many runs as it may in its life."""
        return self._started().spent

    async def start(self) -> None:
        """Announce the worker and begin to claim."""
        if self._starting is not None:
            raise StepfastError("This worker was started before. Make another one with `app.worker(...)`.")
        self._starting = starting = begin_errand(self._start(), "stepfast-worker-start")
        try:
            # Together with a start that is cancelled this is, too, and it waits until all is tidied up.
            await starting
        except asyncio.CancelledError:
            if not self._is_stopped:
                raise
            raise StepfastError("This worker was stopped while it started.") from None
        finally:
            if self._worker is None and not self._is_stopped:
                self._starting = None

    async def _start(self) -> None:
        app = self._app
        async with AsyncExitStack() as opened:
            self._parts = await opened.enter_async_context(app._used())
            self._worker = await self._parts.add_worker(self._settings, self._kind())
            self._open = opened.pop_all()
        served = self._worker.settings
        log.info(
            "worker_started",
            worker_id=self._worker.worker_id,
            environment=app.environment,
            database=without_password(app.database),
            queues=served.queues,
            codes=app.codes(),
            concurrency=served.slots,
        )

    def _kind(self) -> Callable[..., Worker]:
        from stepfast.worker.family import FamilyWorker
        from stepfast.worker.worker import Worker

        return Worker if self._only is None else partial(FamilyWorker, root=self._only)

    async def stop(self, grace: Duration | None = None) -> None:
        """Claim no more, let steps under way finish within the grace time, hand back the rest, and leave.

        Of a worker that was never started, or whose start failed, there is nothing to stop.
        """
        if self._starting is not None and not self._starting.done():
            self._is_stopped = True
            self._starting.cancel()
            await asyncio.wait([self._starting])
        worker, parts = self._worker, self._parts
        if worker is None or parts is None:
            return
        log.info("worker_stopping", worker_id=worker.worker_id, running=worker.stats().running)
        async with self._open:
            await parts.remove_worker(worker, None if grace is None else span_ms(grace, "grace"))
        log.info("worker_stopped", worker_id=worker.worker_id, runs_processed=worker.stats().runs_processed)

    @property
    def farewell_failed(self) -> StepfastError | None:
        """Why the store could not be told that it left: what it held then stays with it until its lease is over."""
        return None if self._worker is None else self._worker.farewell_failed

    def stats(self) -> WorkerStats:
        """What the worker has done so far."""
        return self._started().stats()

    def _started(self) -> Worker:
        if self._worker is None:
            raise StepfastError("This worker has not been started. Call its `start()` first.")
        return self._worker


class Workers:
    """The workers on an app's store, in every process."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(self) -> Views:
        """Those that are alive, and those that died lately."""
        return await self._app._open_parts().store.workers()

    async def get(self, worker: str) -> WorkerView:
        """One worker, by its id or by its label; of several with one label, the one that is alive."""
        views = await self.list()
        found = [view for view in views if worker in (view.worker_id, view.label)]
        live = [view for view in found if view.dead_at is None]
        if len(live) > 1:
            ids = ", ".join(view.worker_id for view in live)
            raise Invalid(f"Several live workers are called {worker!r}: say which by its id: {ids}.")
        if not found:
            raise WorkerNotFound(
                f"Worker {shown(worker)} not found. List those there are with `stepfast workers list`."
            )
        return live[0] if live else max(found, key=lambda view: view.seen_at)
