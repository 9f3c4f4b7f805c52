"""The same names for blocking code: every call runs on one event loop in a thread of its own, and waits for it.

from stepfast.sync import Stepfast

with Stepfast("sqlite:///app.db") as app:
    run = app.start(checkout, order)
    receipt = run.result()
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Protocol, Self, TypeVar, overload

from stepfast.app import Stepfast as AsyncStepfast
from stepfast.assets import Assets as AsyncAssets
from stepfast.callbacks import Callbacks as AsyncCallbacks
from stepfast.exceptions import Exceptions as AsyncExceptions
from stepfast.executors import Executors as AsyncExecutors
from stepfast.executors import Listed, Plugins
from stepfast.kernel.asset_ports import Assets as AssetsPort
from stepfast.kernel.blobs import Blobs
from stepfast.kernel.commands import Changed
from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import StepfastError, WrongCall
from stepfast.kernel.ports import Clock
from stepfast.kernel.retry import Retry
from stepfast.letters import DeadLetters as AsyncDeadLetters
from stepfast.library import Workflows as AsyncWorkflows
from stepfast.listening import Callback
from stepfast.queues import Queues as AsyncQueues
from stepfast.reviews import Reviews as AsyncReviews
from stepfast.runs import Run as AsyncRun
from stepfast.serverless import Serverless as AsyncServerless
from stepfast.starts import Start
from stepfast.tokens import Secret
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.worker import WorkerStats
from stepfast.workers import AppWorker as AsyncAppWorker
from stepfast.workers import Workers as AsyncWorkers
from stepfast.workflows.deterministic import refuse_in_workflow
from stepfast.workflows.executors.domains import Domain
from stepfast.workflows.executors.executor import Executor
from stepfast.workflows.executors.health import HealthCheck
from stepfast.workflows.executors.plugins import Problem
from stepfast.workflows.functions import AnyWorkflow, AsyncWorkflow, SyncWorkflow, Workflow

T = TypeVar("T")
P = ParamSpec("P")
Inner = TypeVar("Inner")
Inner_co = TypeVar("Inner_co", covariant=True)
C = TypeVar("C", bound=Callback)


class Portal:
    """The way from blocking code to an event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        if self._loop is not None:
            raise StepfastError("This app is open already. Use it, or close it first.")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stepfast-sync", daemon=True)
        self._thread.start()

    def close(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        self._loop = self._thread = None

    def call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do it on the loop, and wait for it; given up when the waiting is interrupted."""
        refuse_in_workflow("A blocking call")
        if self._loop is None:
            raise StepfastError("The app is not open. Use it inside `with app:`.")
        if threading.current_thread() is self._thread:
            raise WrongCall(
                "A blocking call was made on the event loop that would have to answer it. In an `async def` step use "
                "the app of `stepfast`, or make the step a `def`."
            )
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call_plain(self, work: Callable[[], T]) -> T:
        """The same for a call that is no coroutine, but needs the loop."""

        async def call() -> T:
            return work()

        return self.call(call)

    def each(self, items: Callable[[], AsyncIterator[T]]) -> Iterator[T]:
        """What an asynchronous iterator gives, one at a time."""
        iterator = self.call_plain(items)
        end: Any = object()

        async def next_item() -> T:
            return await anext(iterator, end)

        while (item := self.call(next_item)) is not end:
            yield item


class Facade(Protocol[Inner_co]):
    """Something that has an asynchronous counterpart."""

    _portal: Portal

    @property
    def _inner(self) -> Inner_co: ...


def blocking(
    method: Callable[Concatenate[Inner, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Facade[Inner], P], T]:
    """The blocking form of an asynchronous method."""

    def call(self: Facade[Inner], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._portal.call(lambda: method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def paging(
    method: Callable[Concatenate[Inner, P], AsyncIterator[T]],
) -> Callable[Concatenate[Facade[Inner], P], Iterator[T]]:
    """The blocking form of a method that answers page by page."""

    def call(self: Facade[Inner], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._portal.each(lambda: method(self._inner, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


class Run(Generic[T]):
    """One durable execution of a workflow."""

    def __init__(self, portal: Portal, inner: AsyncRun[T]) -> None:
        self._portal = portal
        self._inner = inner
        self.id = inner.id

    def __repr__(self) -> str:
        return repr(self._inner)

    def result(self, timeout: Duration | None = None) -> T:
        """What the workflow returned; raises RunFailed, RunCancelled, or WaitTimeout after the timeout."""
        return self._portal.call(lambda: self._inner.result(timeout))

    @property
    def thread_id(self) -> str | None:
        """The thread that the run belongs to; known of a run that was started here, or has been asked `info()`."""
        return self._inner.thread_id

    @property
    def subject(self) -> str | None:
        """What the run is about; known as `thread_id` is."""
        return self._inner.subject

    info = blocking(AsyncRun.info)
    steps = blocking(AsyncRun.steps)
    history = blocking(AsyncRun.history)
    artifacts = blocking(AsyncRun.artifacts)
    artifact = blocking(AsyncRun.artifact)
    read = blocking(AsyncRun.read)
    why = blocking(AsyncRun.why)
    signal = blocking(AsyncRun.signal)
    cancel = blocking(AsyncRun.cancel)
    pause = blocking(AsyncRun.pause)
    resume = blocking(AsyncRun.resume)
    retry = blocking(AsyncRun.retry)
    rerun = blocking(AsyncRun.rerun)
    execute = blocking(AsyncRun.execute)


class StartAnswer(NamedTuple):
    """What became of one of many starts: a new run, the run that its key had started before, or an error."""

    run: Run[Any] | None
    is_new: bool
    error: StepfastError | None = None


class Side(Generic[Inner]):
    """One of an app's attributes that lists something."""

    def __init__(self, portal: Portal, inner: Inner) -> None:
        self._portal = portal
        self._inner = inner


class Workers(Side[AsyncWorkers]):
    """The workers on an app's store, in every process."""

    list = blocking(AsyncWorkers.list)
    get = blocking(AsyncWorkers.get)


class Queues(Side[AsyncQueues]):
    """How much there is to do in every queue."""

    list = blocking(AsyncQueues.list)
    get = blocking(AsyncQueues.get)
    backlog = blocking(AsyncQueues.backlog)


class Workflows(Side[AsyncWorkflows]):
    """What there is to start, in every version."""

    list = blocking(AsyncWorkflows.list)
    get = blocking(AsyncWorkflows.get)
    register = blocking(AsyncWorkflows.register)


class Executors(Side[AsyncExecutors]):
    """What an app has under which name, for steps to call."""

    def register(
        self,
        thing: object,
        name: str | None = None,
        description: str | None = None,
        *,
        health: HealthCheck | None = None,
    ) -> Executor:
        """Make a function, a step, a class with `execute` or an instance of one an executor."""
        return self._inner.register(thing, name, description, health=health)

    def unregister(self, name: str) -> None:
        """Forget an executor; open runs of it wait for a worker that has it."""
        self._inner.unregister(name)

    def domain(self, name: str, *, retry: Retry | None = None) -> Domain:
        """A domain whose executors are those of this app alone."""
        return self._inner.domain(name, retry=retry)

    def get(self, name: str) -> Executor:
        """One executor."""
        return self._inner.get(name)

    def plugins(self, group: str | None = None) -> Plugins:
        """What installed packages offer by their entry points."""
        return self._inner.plugins(group)

    def list(self, domain: str | None = None) -> Listed:
        """Every executor, by name; or those of one domain."""
        return self._inner.list(domain)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The plugins that could not be used, and why."""
        return self._inner.problems

    health = blocking(AsyncExecutors.health)


class DeadLetters(Side[AsyncDeadLetters]):
    """The dead letters on an app's store."""

    list = blocking(AsyncDeadLetters.list)
    get = blocking(AsyncDeadLetters.get)
    replay = blocking(AsyncDeadLetters.replay)
    discard = blocking(AsyncDeadLetters.discard)
    replay_many = blocking(AsyncDeadLetters.replay_many)
    discard_many = blocking(AsyncDeadLetters.discard_many)
    replay_pages = paging(AsyncDeadLetters.replay_pages)
    discard_pages = paging(AsyncDeadLetters.discard_pages)
    groups = blocking(AsyncDeadLetters.groups)


class Exceptions(Side[AsyncExceptions]):
    """The exception items on an app's store."""

    list = blocking(AsyncExceptions.list)
    get = blocking(AsyncExceptions.get)
    count = blocking(AsyncExceptions.count)
    groups = blocking(AsyncExceptions.groups)
    assign = blocking(AsyncExceptions.assign)
    comment = blocking(AsyncExceptions.comment)
    resolve = blocking(AsyncExceptions.resolve)


class Assets(Side[AsyncAssets]):
    """The assets of an app's tenants."""

    put = blocking(AsyncAssets.put)
    get = blocking(AsyncAssets.get)
    read = blocking(AsyncAssets.read)
    list = blocking(AsyncAssets.list)
    collect = blocking(AsyncAssets.collect)
    collection = blocking(AsyncAssets.collection)
    lineage = blocking(AsyncAssets.lineage)


class Reviews(Side[AsyncReviews]):
    """The reviews on an app's store."""

    list = blocking(AsyncReviews.list)
    get = blocking(AsyncReviews.get)
    decide = blocking(AsyncReviews.decide)
    issue_token = blocking(AsyncReviews.issue_token)
    delegate = blocking(AsyncReviews.delegate)
    reassign = blocking(AsyncReviews.reassign)
    comment = blocking(AsyncReviews.comment)
    stats = blocking(AsyncReviews.stats)
    check = blocking(AsyncReviews.check)

    def resume(self, token: str | Secret, verdict: str, /, *args: Any, **options: Any) -> Changed:
        """Answer a review by its token."""
        # A traceback with the variables of its frames must not hold it.
        hidden = Secret(token) if isinstance(token, str) else token
        del token
        return self._portal.call(lambda: self._inner.resume(hidden, verdict, *args, **options))


class Callbacks(Side[AsyncCallbacks]):
    """The outside work on an app's store, for whoever has a token that a step's body gave away."""

    def complete(self, token: str | Secret, value: Any = None, **options: Any) -> Changed:
        """The work is done, with this result."""
        hidden = Secret(token) if isinstance(token, str) else token
        del token
        return self._portal.call(lambda: self._inner.complete(hidden, value, **options))

    def fail(self, token: str | Secret, error_type: str, message: str = "", **options: Any) -> Changed:
        """The work has failed."""
        hidden = Secret(token) if isinstance(token, str) else token
        del token
        return self._portal.call(lambda: self._inner.fail(hidden, error_type, message, **options))

    def progress(self, token: str | Secret, done: float, total: float | None = None, **options: Any) -> Changed:
        """The work goes on; this does not use the token up."""
        hidden = Secret(token) if isinstance(token, str) else token
        del token
        return self._portal.call(lambda: self._inner.progress(hidden, done, total, **options))


class Serverless(Side[AsyncServerless]):
    """A host for functions that live no longer than a call."""

    handle = blocking(AsyncServerless.handle)
    process_available = blocking(AsyncServerless.process_available)
    upkeep = blocking(AsyncServerless.upkeep)


class AppWorker(Side[AsyncAppWorker]):
    """A worker of an app, from `start` to `stop`; the app must be open."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    start = blocking(AsyncAppWorker.start)
    stop = blocking(AsyncAppWorker.stop)

    @property
    def worker_id(self) -> str:
        """Its id, once it has been started; empty before."""
        return self._inner.worker_id

    def stats(self) -> WorkerStats:
        """What the worker has done so far."""
        return self._inner.stats()


class Stepfast:
    """A store, the workflows that run on it, and, unless told otherwise, a worker in this process."""

    def __init__(
        self,
        database: str | None = None,
        *,
        workflows: Iterable[AnyWorkflow] | None = None,
        worker: bool | WorkerSettings = True,
        blobs: str | Path | Blobs | None = None,
        clock: Clock | None = None,
        executors: Iterable[object] | None = None,
        assets: AssetsPort | None = None,
    ) -> None:
        self._portal = Portal()
        given: dict[str, Any] = {"blobs": blobs, "clock": clock, "executors": executors, "assets": assets}
        self._inner = AsyncStepfast(database, workflows=workflows, worker=worker, **given)
        self.workers = Workers(self._portal, self._inner.workers)
        self.queues = Queues(self._portal, self._inner.queues)
        self.workflows = Workflows(self._portal, self._inner.workflows)
        self.dead_letters = DeadLetters(self._portal, self._inner.dead_letters)
        self.reviews = Reviews(self._portal, self._inner.reviews)
        self.callbacks = Callbacks(self._portal, self._inner.callbacks)
        self.exceptions = Exceptions(self._portal, self._inner.exceptions)
        self.assets = Assets(self._portal, self._inner.assets)
        self.executors = Executors(self._portal, self._inner.executors)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Open the store, and start the worker if there is to be one."""
        self._portal.open()
        try:
            self._portal.call(self._inner.open)
        except BaseException:
            self._portal.close()
            raise

    def close(self) -> None:
        """Stop the worker, save what is under way, and let go of the store."""
        try:
            self._portal.call(self._inner.close)
        finally:
            self._portal.close()

    @overload
    def start(self, workflow: AsyncWorkflow[..., T], /, *args: Any, **options: Any) -> Run[T]: ...

    @overload
    def start(self, workflow: SyncWorkflow[..., T], /, *args: Any, **options: Any) -> Run[T]: ...

    @overload
    def start(self, workflow: str | Workflow, /, *args: Any, **options: Any) -> Run[Any]: ...

    def start(self, workflow: Any, /, *args: Any, **options: Any) -> Run[Any]:
        """Store a run and return at once; it is on disk when this returns."""
        return Run(self._portal, self._portal.call(lambda: self._inner.start(workflow, *args, **options)))

    def start_many(self, requests: Iterable[Start]) -> list[StartAnswer]:
        """Store any number of runs, a thousand to a commit, and say of each, in order, what became of it."""
        answers = self._portal.call(lambda: self._inner.start_many(requests))
        return [
            StartAnswer(None if run is None else Run(self._portal, run), is_new, error)
            for run, is_new, error in answers
        ]

    def get(self, run_id: str, *, tenant: str | None = None) -> Run[Any]:
        """The handle of a run; whether it exists, and is the tenant's, shows when it is asked something."""
        return Run(self._portal, self._portal.call_plain(lambda: self._inner.get(run_id, tenant=tenant)))

    def worker(self, **options: Any) -> AppWorker:
        """A worker on this app's store, to be started and stopped by hand."""
        return AppWorker(self._portal, self._inner.worker(**options))

    def serverless(self) -> Serverless:
        """A host for functions that are called for one run, or now and then."""
        return Serverless(self._portal, self._inner.serverless())

    def on(self, *types: str) -> Callable[[C], C]:
        """Call a function, on the event loop of the app, with each event of these types."""
        return self._inner.on(*types)

    def definitions(self) -> list[Workflow]:
        """The workflows that this app knows, in every version."""
        return self._inner.definitions()

    def definition(self, name: str) -> Workflow:
        """The newest version of a workflow that this app knows."""
        return self._inner.definition(name)

    def codes(self) -> list[str]:
        """The workflows that this app knows, as `name@version`."""
        return self._inner.codes()

    runs = blocking(AsyncStepfast.runs)
    register = blocking(AsyncStepfast.register)
    startable = blocking(AsyncStepfast.startable)
    change_many = blocking(AsyncStepfast.change_many)
    change_pages = paging(AsyncStepfast.change_pages)
    check = blocking(AsyncStepfast.check)
    findings = blocking(AsyncStepfast.findings)
    now = blocking(AsyncStepfast.now)
