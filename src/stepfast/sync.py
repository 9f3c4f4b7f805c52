"""The same names for blocking code: every call runs on one event loop in a thread of its own, and waits for it.

from stepfast.sync import Stepfast, step, workflow

with Stepfast("sqlite:///app.db") as app:
    run = app.start(checkout, order)
    receipt = run.result()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, Self, TypeVar, overload

import stepfast
from stepfast.annotations import Annotations as AsyncAnnotations
from stepfast.app import Stepfast as AsyncStepfast
from stepfast.assets import Assets as AsyncAssets
from stepfast.audit import Audit as AsyncAudit
from stepfast.callbacks import Callbacks as AsyncCallbacks
from stepfast.exceptions import Exceptions as AsyncExceptions
from stepfast.executors import ExecutorList
from stepfast.executors import Executors as AsyncExecutors
from stepfast.kernel.asset_ports import Assets as AssetsPort
from stepfast.kernel.auditing import AuditReport
from stepfast.kernel.blobs import Blobs
from stepfast.kernel.commands import Changed
from stepfast.kernel.durations import Duration
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ports import Clock
from stepfast.kernel.sinks import Sink
from stepfast.letters import DeadLetters as AsyncDeadLetters
from stepfast.library import Workflows as AsyncWorkflows
from stepfast.listening import Callback
from stepfast.outbox import Sinks as AsyncSinks
from stepfast.portal import Portal, blocking, paging
from stepfast.queues import Queues as AsyncQueues
from stepfast.retention import Retention as AsyncRetention
from stepfast.reviews import Reviews as AsyncReviews
from stepfast.runs import Run as AsyncRun
from stepfast.serverless import Serverless as AsyncServerless
from stepfast.starts import Start
from stepfast.tokens import Secret
from stepfast.transformations import Transformations as AsyncTransformations
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.worker import WorkerStats
from stepfast.workers import AppWorker as AsyncAppWorker
from stepfast.workers import Workers as AsyncWorkers
from stepfast.workflows.app_policies import Policy
from stepfast.workflows.functions import AnyWorkflow, AsyncWorkflow, SyncWorkflow, Workflow

if TYPE_CHECKING:
    from stepfast import Graph as Graph
    from stepfast import Later as Later
    from stepfast import Outcome as Outcome
    from stepfast import Retry as Retry
    from stepfast import RunState as RunState
    from stepfast import StepState as StepState
    from stepfast import SyncChild as SyncChild
    from stepfast import Template as Template
    from stepfast import annotate as annotate
    from stepfast import continue_as as continue_as
    from stepfast import current_run as current_run
    from stepfast import each as each
    from stepfast import emit as emit
    from stepfast import load_template as load_template
    from stepfast import progress as progress
    from stepfast import race as race
    from stepfast import receive as receive
    from stepfast import review as review
    from stepfast import sleep as sleep
    from stepfast import step as step
    from stepfast import timeout as timeout
    from stepfast import workflow as workflow

T = TypeVar("T")
P = ParamSpec("P")
Inner = TypeVar("Inner")
C = TypeVar("C", bound=Callback)


def __getattr__(name: str) -> Any:
    # What has no form of its own for blocking code is the same here as there.
    if name not in stepfast.__all__:
        raise AttributeError(f"module 'stepfast.sync' has no attribute {name!r}")
    return getattr(stepfast, name)


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
    annotate = blocking(AsyncRun.annotate)
    annotations = blocking(AsyncRun.annotations)
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
    rollback = blocking(AsyncRun.rollback)
    at = blocking(AsyncRun.at)
    reconstruct = blocking(AsyncRun.reconstruct)
    skip = blocking(AsyncRun.skip)
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


class Executors(ExecutorList, Side[AsyncExecutors]):
    """What an app has under which name, for steps to call."""

    def __init__(self, portal: Portal, inner: AsyncExecutors) -> None:
        ExecutorList.__init__(self, inner._registry)
        Side.__init__(self, portal, inner)

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


class Sinks(Side[AsyncSinks]):
    """The sinks on an app's store."""

    list = blocking(AsyncSinks.list)
    get = blocking(AsyncSinks.get)
    held = blocking(AsyncSinks.held)
    letters = blocking(AsyncSinks.letters)
    replay = blocking(AsyncSinks.replay)
    remove = blocking(AsyncSinks.remove)

    def add(self, sink: Sink, *, from_start: bool = False) -> None:
        """Publish to a sink what is written from its first time on, or all that there is."""
        self._inner.add(sink, from_start=from_start)


class Audit(Side[AsyncAudit]):
    """The audit trail of an app's store."""

    list = blocking(AsyncAudit.list)
    get = blocking(AsyncAudit.get)
    status = blocking(AsyncAudit.status)
    seal = blocking(AsyncAudit.seal)
    verify = blocking(AsyncAudit.verify)
    export = paging(AsyncAudit.export)
    report = blocking(AsyncAudit.report)

    def verify_lines(self, lines: Iterable[str]) -> AuditReport:
        """Check lines that were exported, by the keys alone."""
        return self._inner.verify_lines(lines)


class Annotations(Side[AsyncAnnotations]):
    """The annotations on an app's store."""

    list = blocking(AsyncAnnotations.list)


class Retention(Side[AsyncRetention]):
    """The retention policies on an app's store."""

    set = blocking(AsyncRetention.set)
    remove = blocking(AsyncRetention.remove)
    list = blocking(AsyncRetention.list)
    get = blocking(AsyncRetention.get)
    prune = blocking(AsyncRetention.prune)


class Assets(Side[AsyncAssets]):
    """The assets of an app's tenants."""

    put = blocking(AsyncAssets.put)
    get = blocking(AsyncAssets.get)
    read = blocking(AsyncAssets.read)
    list = blocking(AsyncAssets.list)
    collect = blocking(AsyncAssets.collect)
    collection = blocking(AsyncAssets.collection)
    lineage = blocking(AsyncAssets.lineage)
    upstream = blocking(AsyncAssets.upstream)
    downstream = blocking(AsyncAssets.downstream)


class Transformations(Side[AsyncTransformations]):
    """The transformations that runs have used."""

    list = blocking(AsyncTransformations.list)


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
    until_drained = blocking(AsyncAppWorker.until_drained)

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
        sinks: Iterable[Sink | str] | None = None,
        policies: Iterable[Policy] = (),
    ) -> None:
        self._portal = Portal()
        given: dict[str, Any] = {"blobs": blobs, "clock": clock, "executors": executors, "assets": assets}
        given["policies"] = policies
        self._inner = AsyncStepfast(database, workflows=workflows, worker=worker, sinks=sinks, **given)
        self.workers = Workers(self._portal, self._inner.workers)
        self.queues = Queues(self._portal, self._inner.queues)
        self.workflows = Workflows(self._portal, self._inner.workflows)
        self.dead_letters = DeadLetters(self._portal, self._inner.dead_letters)
        self.reviews = Reviews(self._portal, self._inner.reviews)
        self.callbacks = Callbacks(self._portal, self._inner.callbacks)
        self.exceptions = Exceptions(self._portal, self._inner.exceptions)
        self.annotations = Annotations(self._portal, self._inner.annotations)
        self.assets = Assets(self._portal, self._inner.assets)
        self.transformations = Transformations(self._portal, self._inner.transformations)
        self.audit = Audit(self._portal, self._inner.audit)
        self.retention = Retention(self._portal, self._inner.retention)
        self.sinks = Sinks(self._portal, self._inner.sinks)
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
        if self._portal.is_of_another_process:
            # A copy that leaves the block has nothing of its own to close.
            return
        self._portal.close_after(self._inner.close)

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
