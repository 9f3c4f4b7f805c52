"""The parts of an open app, wired together: starts, results, hints and workers on one store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from stepfast.engine.commanding import Commander
from stepfast.engine.committer import Committer
from stepfast.engine.contents import BlobContents
from stepfast.engine.hints import ANY_QUEUE, DEFINED, ENDED, Hints, look, ready
from stepfast.engine.pruning import Progress, Pruner
from stepfast.engine.results import Results
from stepfast.engine.sealing import Sealer
from stepfast.engine.starting import Starter
from stepfast.engine.stopping import stop_left_outside
from stepfast.engine.values import Values
from stepfast.errands import begin_errand
from stepfast.kernel.asset_ports import Assets, Contents
from stepfast.kernel.commands import Cancel, Changed, Request, Rollback, Skip, TimeOut
from stepfast.kernel.decisions import CallId, Continue, Decision, HandBack, HeldRun, Joins, NewRun, Park, Started
from stepfast.kernel.definitions import DefinitionView
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.events import EventType
from stepfast.kernel.exchange import DeadRun, Delivered
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.ports import Clock, Store
from stepfast.kernel.seals import Signer
from stepfast.kernel.sinks import Subscription
from stepfast.kernel.states import ENDED as ENDED_STATES
from stepfast.kernel.states import RunState
from stepfast.kernel.views import LetterFilter, OutcomeView
from stepfast.listening import Listeners, RunEvent
from stepfast.runs import Origin, Run
from stepfast.starts import StartAnswer
from stepfast.stores.assets import DatabaseAssets
from stepfast.tying import pinned, tied
from stepfast.worker.learning import CompileDefinition, Learner
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.single import SingleWorker
from stepfast.worker.worker import Worker
from stepfast.workflows.bodies import Guarding, StorageHost
from stepfast.workflows.functions import Workflow
from stepfast.workflows.registry import Registry

W = TypeVar("W", bound=Worker)

FIRST_TOKEN = 1
EVENTS_AT_BIRTH = 2


class Parts:
    """What an open app consists of."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        clock: Clock,
        settings: WorkerSettings,
        listeners: Listeners,
        values: Values,
        assets: Assets | None = None,
        callback_token: Callable[[HeldRun, CallId, Instant], str] | None = None,
        policies: Guarding | None = None,
    ) -> None:
        self.store = store
        self.values = values
        self.contents: Contents = BlobContents(values)
        self.assets: Assets = assets or DatabaseAssets(store, self.contents)
        self.loop = asyncio.get_running_loop()
        self.storage = StorageHost(store, self.contents, self.assets, self.loop, callback_token, policies)
        self.registry = registry
        self.results = Results(store)
        self._clock = clock
        self._settings = settings
        self._listeners = listeners
        self._starter = Starter(store, self._holder_for, values)
        self._commander = Commander(store)
        self._hints = Hints(store)
        self._workers: dict[Worker, Committer] = {}
        self.learner: Learner | None = None
        self.sealer: Sealer | None = None
        self.subscriptions: Sequence[Subscription] = ()
        self.signs_with: Callable[[], Signer | None] = lambda: None
        self._errands: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        await self.values.open()
        await self.assets.open()
        self._starter.open()
        self._commander.start()
        self._hints.on_ended = self._something_ended
        self._hints.on_ready = self._work_is_ready
        self._hints.on_look = self._look
        self._hints.on_defined = self.learn_soon
        await self._hints.open()

    async def close(self) -> None:
        await self._starter.close()
        await asyncio.gather(*self._errands)
        await asyncio.gather(*(self.remove_worker(worker, None) for worker in list(self._workers)))
        await self._commander.close()
        await self._listeners.close()
        await self.results.close()
        await self._hints.close()
        async with contextlib.AsyncExitStack() as rest:
            # Whoever fails to close keeps no other from it; the store is the last.
            rest.push_async_callback(self.store.close)
            rest.push_async_callback(self.values.close)
            await self.assets.close()

    async def add_worker(
        self,
        settings: WorkerSettings,
        kind: Callable[..., Worker] = Worker,
        ended: Callable[[OutcomeView], None] = lambda outcome: None,
    ) -> Worker:
        """Start a worker; `ended` hears of each run that comes to its end there."""
        return await self._added(settings, kind, ended)

    async def _added(self, settings: WorkerSettings, kind: Callable[..., W], ended: Callable[[OutcomeView], None]) -> W:
        def note(outcome: OutcomeView, joins: Joins | None) -> None:
            self._ended(outcome, joins)
            ended(outcome)

        settings.check()
        self.registry.load()
        await self.learn()
        # Each worker has a committer of its own, for what one gives up must not be lost to another.
        committer = Committer(self.store, self._saved, self.values)
        told = (note, self.values, self.change, self.delivered, self.reaped, self.storage)
        worker = kind(self.store, self.registry, committer, self._clock, settings, *told)
        worker.learner = self.learner
        worker.sealer = self.sealer
        worker.subscriptions = self.subscriptions
        worker.pruner = self.pruner()
        committer.start()
        try:
            await worker.start()
        except BaseException:
            await committer.close()
            raise
        self._workers[worker] = committer
        return worker

    def pruner(self, progress: Progress | None = None, is_over: Callable[[], bool] = lambda: False) -> Pruner:
        """Whoever lets runs go that were kept long enough."""
        return Pruner(self.store, self.values, self.signs_with, progress, is_over)

    def compile_with(self, compile_definition: CompileDefinition) -> None:
        """Let workers learn of what is registered, and execute what this makes of it."""
        self.learner = Learner(self.store, self.registry, compile_definition, self.codes_changed)

    def defined(self, definition: DefinitionView) -> None:
        """Something was registered: those who listen hear of it, workers here and elsewhere learn of it."""
        if self._listeners:
            told = (1, EventType.TEMPLATE_REGISTERED, definition.registered_at)
            self._listeners.tell(RunEvent(RunId(definition.definition_id), *told, actor=definition.actor))
        self.learn_soon()
        self._hints.send(DEFINED)

    async def learn(self) -> None:
        """Know by the end what is registered now."""
        if self.learner is not None:
            await self.learner.look()

    def learn_soon(self) -> None:
        """Something may have been registered: let the workers here learn of it, if there are any."""
        if self.learner is not None and self._workers:
            errand = begin_errand(self.learner.look(), "stepfast-learning")
            self._errands.add(errand)
            errand.add_done_callback(self._errands.discard)

    def codes_changed(self) -> None:
        """What this app can execute has changed: its workers say so to the store. May be called from any thread."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._tell_workers)

    def _tell_workers(self) -> None:
        for worker in self._workers:
            worker.codes_changed()

    async def remove_worker(self, worker: Worker, grace_ms: int | None) -> None:
        """Stop a worker, and save what it decided last."""
        committer = self._workers.get(worker)
        if committer is None:
            return
        await worker.stop(grace_ms)
        self._workers.pop(worker, None)
        await committer.close()

    async def start(self, run: NewRun, definition: Workflow) -> Run[Any]:
        handle = self.handle(run.run_id, known_here=True)
        started, holder = await self._starter.start(run)
        if not started.fresh:
            return self.handle(started.run_id, known_here=False)
        handle._code, handle._origin = definition.code, Origin(run.thread_id, run.subject)
        self._tell_queued(run, started)
        if started.token is None:
            self._announce(run.queue)
        else:
            self._adopt(run, started, holder)
            self.results.watch(run.run_id).is_held_here = True
        return handle

    async def start_page(self, page: list[NewRun | StepfastError]) -> list[StartAnswer]:
        """Store those of a page that are runs, and answer all."""
        page = await self._starter.put_away(page)
        runs = [run for run in page if isinstance(run, NewRun)]
        answers = iter(await self._starter.start_page(runs))
        for queue in {run.queue for run in runs}:
            self._announce(queue)
        return [
            self._answer(asked, next(answers)) if isinstance(asked, NewRun) else StartAnswer(None, False, asked)
            for asked in page
        ]

    def _answer(self, run: NewRun, answer: Started | StepfastError) -> StartAnswer:
        if isinstance(answer, StepfastError):
            return StartAnswer(None, False, answer)
        if answer.fresh:
            self._tell_queued(run, answer)
        return StartAnswer(self.handle(answer.run_id, known_here=False), answer.fresh)

    def handle(self, run_id: RunId, known_here: bool, tenant: str | None = None) -> Run[Any]:
        return Run(run_id, self, known_here, tenant)

    async def execute(self, run_id: RunId) -> bool:
        """Take a run with a worker of its own until it ends or waits; False: it cannot be taken now."""
        worker = await self._added(self._settings, SingleWorker, lambda outcome: None)
        try:
            return await worker.execute(run_id)
        finally:
            await self.remove_worker(worker, None)

    def _holder_for(self, queue: str, number: int) -> WorkerId | None:
        """The worker here that can take so many runs of a queue at their birth, if there is one."""
        for worker in self._workers:
            if worker.settings.tenants is None and worker.has_room_for(queue, number):
                return worker.worker_id
        return None

    def _adopt(self, run: NewRun, started: Started, holder: WorkerId | None) -> None:
        # A worker that has left meanwhile gave the run back to the line with all it held.
        for worker in self._workers:
            if holder is not None and worker.worker_id == holder:
                worker.adopt(_held_from_birth(run, started, holder))

    def _announce(self, queue: str) -> None:
        self._work_is_ready(queue)
        self._hints.send(ready(queue))

    def delivered(self, run_id: RunId, delivered: Delivered) -> None:
        """Something was brought to a run: whoever holds it looks, or else somebody may take it up."""
        if delivered.worker_id is None:
            self._announce(delivered.queue)
        else:
            self._look(run_id)
            self._hints.send(look(run_id))

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        """Carry out commands, those that are given together in one transaction, and tell those whom they concern."""
        requests = await tied(self.store, self.registry, await pinned(self.store, self.registry, requests))
        answers = await self._commander.change(requests)
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, Changed) and not request.dry_run:
                self.changed(request, answer)
                await self._tell_change(request, answer)
                if isinstance(request.command, TimeOut) and self._listeners:
                    await self._tell_failure(answer.run_id, request.command.verdict)
        if any(isinstance(each.command, Cancel | TimeOut | Skip | Rollback) and not each.dry_run for each in requests):
            for queue in await stop_left_outside(self.store):
                self._announce(queue)
        return answers

    def changed(self, request: Request, changed: Changed) -> None:
        """A command was carried out: its run's holder looks, and those who wait for the run, or for work, are told."""
        self._publish()
        if changed.worker_id is not None:
            self._look(changed.run_id)
            self._hints.send(look(changed.run_id))
        if changed.state in ENDED_STATES:
            self.results.look_now()
            self._hints.send(ENDED)
            if changed.parent_id is not None:
                self._child_ended(changed.parent_id)
        elif changed.worker_id is None:
            self.results.reopen(changed.run_id, changed.generation)
            if changed.state is not RunState.PAUSED:
                self._announce(changed.queue)

    async def _tell_change(self, request: Request, changed: Changed) -> None:
        """Those who listen hear of it, with what the run belongs to; where nobody does, nothing is read."""
        if self._listeners and changed.told:
            run = None
            # The command is carried out, whatever becomes of this.
            with contextlib.suppress(StepfastError):
                run = await self.store.run(None, changed.run_id)
            self._listeners.tell_change(request, changed, run and run.correlation_id)

    async def reaped(self, run_ids: Sequence[RunId], verdict: DeadRun) -> None:
        """Upkeep failed runs for good: those who wait for their ends look, and those who listen are told."""
        self.results.look_now()
        self._hints.send(ENDED)
        for run_id in run_ids if self._listeners else ():
            await self._tell_failure(run_id, verdict)

    async def _tell_failure(self, run_id: RunId, verdict: DeadRun) -> None:
        view = await self.store.run(None, run_id)
        if view is not None and view.ended_at is not None:
            letters = await self.store.dead_letters(LetterFilter(run_id=run_id, limit=1))
            is_letter = [letter.generation for letter in letters] == [view.generation]
            self._listeners.tell_failure(view, view.ended_at, verdict, is_letter)

    def _something_ended(self) -> None:
        self.results.look_now()
        self._publish()

    def _publish(self) -> None:
        for worker in self._workers:
            worker.publish()

    def _look(self, run_id: str) -> None:
        for worker in self._workers:
            worker.look(run_id)

    def _work_is_ready(self, queue: str) -> None:
        self._publish()
        for worker in self._workers:
            if queue == ANY_QUEUE or worker.serves(queue):
                worker.wake()

    def _saved(self, run: HeldRun, decision: Decision) -> None:
        if self.subscriptions:
            self._publish()
        if decision.children:
            for queue in {child.queue for child in decision.children}:
                self._announce(queue)
        if decision.release is not None and (due_at := _due_at(decision.release, self._clock)) is not None:
            for worker in self._workers:
                worker.due(run.queue, due_at)
        elif isinstance(decision.release, Continue):
            self._announce(run.queue)
        if self._listeners:
            self._listeners.tell_decision(run, decision)

    def _tell_queued(self, run: NewRun, started: Started) -> None:
        if self._listeners:
            self._listeners.tell_queued(run, started)

    def _ended(self, outcome: OutcomeView, joins: Joins | None) -> None:
        if self.results.note(outcome):
            self._hints.send_along(ENDED)
        else:
            self._hints.send(ENDED)
        if joins is not None:
            self._child_ended(joins.parent_id)

    def _child_ended(self, parent_id: RunId) -> None:
        """The parent may be waiting, here or elsewhere, in whatever queue; or it is held and must look."""
        self._look(parent_id)
        self._hints.send(look(parent_id))
        for worker in self._workers:
            worker.wake()
        self._hints.send(ready(ANY_QUEUE))


def _due_at(release: Park | HandBack | Continue, clock: Clock) -> Instant | None:
    """When a run that was let go is to go on by itself; None: when somebody says so, or at once."""
    if isinstance(release, Park):
        return release.due_at
    return Instant(clock.now() + release.delay_ms) if release.delay_ms else None


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
        deadline_at=None if run.timeout_ms is None else Instant(started.queued_at + run.timeout_ms),
        actor=run.actor,
        correlation_id=run.correlation_id,
        causation_id=run.causation_id,
        thread_id=run.thread_id,
        subject=run.subject,
        metadata=run.metadata,
        definition=run.definition,
    )
