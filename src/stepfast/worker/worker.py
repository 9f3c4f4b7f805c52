"""A worker: claims runs for the slots it has free, and answers for them while it holds them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

from stepfast.engine.committer import Committer
from stepfast.engine.pruning import Pruner
from stepfast.engine.publishing import Publisher
from stepfast.engine.sealing import Sealer
from stepfast.engine.sweeping import Sweep
from stepfast.engine.values import Values
from stepfast.errands import begin_errand
from stepfast.kernel.decisions import NOTHING_YET, HeldRun, History, Joins
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import LeaseLost, StepfastError
from stepfast.kernel.exchange import Beat, Delivered
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.outside_rules import quiet_claim
from stepfast.kernel.ports import Clock, Store
from stepfast.kernel.seen import moment
from stepfast.kernel.sinks import Backoff, Subscription
from stepfast.kernel.troubles import UNREADABLE, unreadable
from stepfast.kernel.views import OutcomeView
from stepfast.log import Log
from stepfast.worker.claims import ClaimLoop
from stepfast.worker.execute import Executor, WorkerStops
from stepfast.worker.held import HeldRuns
from stepfast.worker.learning import Learner
from stepfast.worker.lease import Lease
from stepfast.worker.pruning import PruneLoop
from stepfast.worker.publishing import PublishLoop
from stepfast.worker.sealing import SealLoop
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.sweep import SweepLoop
from stepfast.worker.upkeep import Change, Reaped, UpkeepLoop, tell_nobody
from stepfast.workflows.bodies import StorageHost
from stepfast.workflows.code_threads import CodeThreads
from stepfast.workflows.limits import BodyThreads
from stepfast.workflows.registry import Executable, Registry
from stepfast.workflows.stay import Host

log = Log("worker")

# How long a stop waits for the store to take runs back, before it leaves them to upkeep.
HAND_BACK_S = 5.0
# How long a drain waits for its right to bury silent workers, which comes with its own heartbeats: with the usual lease
# that takes 20 seconds, with one of an hour it would be 40 minutes.
DRAIN_WAIT_MS = 60_000


class WorkerStats(NamedTuple):
    """What a worker has done so far."""

    worker_id: str
    runs_processed: int
    upkeep_passes: int
    running: int
    uptime_ms: int


class Worker:
    """Executes the runs of some queues in this process, from `start` to `stop`."""

    lease_kind: type[Lease] = Lease
    claims_kind: type[ClaimLoop] = ClaimLoop
    learner: Learner | None = None
    """Brings along what is registered; None where nobody compiles it."""
    sealer: Sealer | None = None
    """Seals the audit trail; None where there are no keys for it."""
    subscriptions: Sequence[Subscription] = ()
    """The sinks that it publishes to."""
    pruner: Pruner | None = None
    """Lets runs go that were kept long enough."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        committer: Committer,
        clock: Clock,
        settings: WorkerSettings,
        ended: Callable[[OutcomeView, Joins | None], None],
        values: Values,
        change: Change | None = None,
        delivered: Callable[[RunId, Delivered], None] = lambda run_id, delivered: None,
        reaped: Reaped = tell_nobody,
        storage: StorageHost | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._registry = registry
        self._committer = committer
        self._asked = settings
        self._settings = settings = settings.serving(registry.queues())
        self._threads = CodeThreads("stepfast-workflow")
        self._step_threads = BodyThreads(settings.slots * 2, thread_name_prefix="stepfast-step")
        told = (change or store.change, delivered, storage, asyncio.Semaphore(settings.max_polls), self._learn_now)
        host = Host(committer, clock, self._step_threads, settings.retry, store, values, *told)
        self._executor = Executor(committer, clock, host, self._threads, ended, values)
        self._held = HeldRuns(settings)
        self._lease = self.lease_kind(store, clock, settings, registry.codes)
        self._lease.lacks = registry.lacks
        self._claims = self.claims_kind(store, clock, settings, self._held, registry.codes, self._begin_all)
        self._upkeep = UpkeepLoop(store, clock, settings.upkeep_ms, settings.max_crashes)
        self._upkeep.change = change or store.change
        self._upkeep.reaped = reaped
        self._sweep = SweepLoop(Sweep(store, values, clock), clock)
        self._loops: list[asyncio.Task[None]] = []
        self._watch: asyncio.Task[None] | None = None
        self._publishing: list[PublishLoop] = []
        self._errands: set[asyncio.Task[None]] = set()
        self._accepting = False
        self._is_leaving = False
        self._processed = 0
        self._started_at = time.monotonic()

    async def _learn_now(self) -> None:
        if self.learner is not None:
            await self.learner.look()

    @property
    def worker_id(self) -> WorkerId:
        return self._lease.worker_id

    @property
    def farewell_failed(self) -> StepfastError | None:
        """Why the store could not be told that this worker left; None where it was, or while it is here."""
        return self._lease.farewell_failed

    @property
    def settings(self) -> WorkerSettings:
        return self._settings

    @property
    def drained(self) -> asyncio.Event:
        """Set while nothing is held and the last claim found nothing."""
        return self._claims.found_nothing

    async def until_drained(self) -> None:
        """Wait until nothing is ready or held here, and what workers hold whose lease is over has been given back.

        Where a pass of upkeep fails, or a long lease would keep this worker for longer than a minute from giving them
        back, that is left to whoever comes next.
        """
        pause_ms = min(self._settings.upkeep_ms, self._settings.heartbeat_ms)
        leaves_at: Instant | None = None
        while True:
            await self.drained.wait()
            report = await self._upkeep.make_pass()
            if not self.drained.is_set():
                # It made something ready.
                leaves_at = None
                continue
            # A pass that may bury leaves none such, unless its heartbeat comes at this very moment.
            if report is None or not report.silent_holds:
                return
            if leaves_at is None:
                leaves_at = Instant(self._clock.now() + DRAIN_WAIT_MS)
                until = moment(leaves_at)
                log.warning("drain_waits", worker_id=self.worker_id, workers=await self._silent(), at_most_until=until)
            elif self._clock.now() >= leaves_at:
                log.warning("drain_left_runs", worker_id=self.worker_id, workers=await self._silent())
                return
            await self._clock.sleep(min(pause_ms, leaves_at - self._clock.now()))
            self._claims.look_anew()

    async def _silent(self) -> str:
        """The workers whose lease is over, each with when that was."""
        try:
            now, workers = await self._store.now(), await self._store.workers()
        except StepfastError as error:
            # What a line of the log would tell is no reason for a drain to fail.
            return f"which cannot be told now: {error}"
        silent = [each for each in workers if each.dead_at is None and not each.is_alive(now)]
        ends = [(each.worker_id, moment(Instant(each.seen_at + each.lease_ms))) for each in silent]
        return ", ".join(f"{worker_id} (lease ended at {at})" for worker_id, at in ends)

    @property
    def spent(self) -> asyncio.Event:
        """Set when the worker has taken as many runs as it may in its life."""
        return self._claims.spent

    async def start(self) -> None:
        """Announce the worker and begin to claim."""
        self._wire()
        await self._lease.take()
        self._accepting = True
        self._loops = [
            begin_errand(self._claims.run(), "stepfast-claims"),
            begin_errand(self._upkeep.run(), "stepfast-upkeep"),
            begin_errand(self._sweep.run(), "stepfast-sweep"),
        ]
        self._watch_lease()
        if self.sealer is not None:
            sealing = SealLoop(self.sealer, self._clock, self._settings.seal_every_ms)
            self._loops.append(begin_errand(sealing.run(), "stepfast-sealing"))
        if self.pruner is not None:
            pruning = PruneLoop(self.pruner, self._clock, self._settings.prune_every_ms)
            self._loops.append(begin_errand(pruning.run(), "stepfast-pruning"))
        for sink, from_start in self.subscriptions:
            bounds = (Backoff(), from_start, self._settings.max_publish)
            publisher = Publisher(self._store, self._clock, sink, self.worker_id, *bounds)
            publishing = PublishLoop(publisher, sink.name, self._clock)
            self._publishing.append(publishing)
            publishing.start()

    def _watch_lease(self) -> None:
        self._watch = begin_errand(self._lease.watch(), "stepfast-lease")

    def publish(self) -> None:
        """Something was written: sinks are to have it soon."""
        for publishing in self._publishing:
            publishing.wake()

    def _wire(self) -> None:
        self._lease.heard = self._heard
        self._lease.lost = self._drop_all
        self._lease.renewed = self._lease_renewed
        self._lease.served = lambda: self._claims.served
        self._upkeep.may_bury = lambda: self._lease.may_bury
        self._upkeep.to_keep, self._upkeep.kept = lambda: self._lease.to_keep, self._lease.keep
        self._upkeep.returned = self._claims.look_anew
        self._upkeep.me = lambda: self.worker_id
        self._upkeep.defined = self._learn

    def _learn(self, newest: int) -> None:
        """Learn what was registered, if there is anything that nobody here has seen."""
        if self.learner is not None and self.learner.has_to_learn(newest):
            self._run_errand(self.learner.look())

    def _lease_renewed(self) -> None:
        self._claims.worker_id = self.worker_id
        self._claims.begin_after(self._lease.served_before)
        self._committer.resume()
        self.wake()

    async def stop(self, grace_ms: int | None = None) -> None:
        """Stop claiming, let running steps come to their end until the grace time, hand back the rest, and leave."""
        self._accepting = False
        self._is_leaving = True
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, *self._errands, return_exceptions=True)
        # Side by side: a store that is slow to say whose a sink is must not hold up runs whose grace time has begun.
        finish = self._finish(self._settings.grace_ms if grace_ms is None else grace_ms)
        try:
            await asyncio.gather(finish, *(each.stop() for each in self._publishing))
        finally:
            # Not before: steps that go on for a long grace time are let go of when the lease is over, too.
            if self._watch is not None:
                self._watch.cancel()
        await self._lease.end()
        self._threads.shutdown()
        self._step_threads.shutdown(wait=False, cancel_futures=True)

    async def _finish(self, grace_ms: int) -> None:
        for run in self._held:
            self._executor.wind_down(run, WorkerStops())
        await self._held.until_none(grace_ms / 1_000)
        for run in self._held:
            self._executor.stop(run, WorkerStops())
        await self._held.until_none(HAND_BACK_S)
        if self._held:
            self._drop_all("the store did not take them back in time")
            await self._held.until_none(HAND_BACK_S)

    async def finish_all(self) -> None:
        """Wait until every run that is held now has ended, waits or is handed back."""
        while self._held or self._errands:
            await self._held.until_none()
            if self._errands:
                await asyncio.wait(self._errands)

    def wake(self) -> None:
        """Something may be ready: look now rather than at the next poll."""
        self._claims.wake()

    def due(self, queue: str, moment: Instant) -> None:
        """A run of a queue was put off until then."""
        if self.serves(queue):
            self._claims.due(moment)

    def codes_changed(self) -> None:
        """What this worker can execute has changed: it says so, serves the queues that came with it, and looks."""
        if self._watch is not None and not self._is_leaving:
            self._run_errand(self._announce(self._serve_all()))

    def _serve_all(self) -> WorkerSettings:
        """Serve the queues of all that this worker can execute by now."""
        # A queue stays served although nothing here names it any more: its runs may be of other workers' code.
        self._settings = settings = self._asked.serving({*self._settings.queues, *self._registry.queues()})
        self._held.serve(settings)
        self._claims.serve(settings)
        return settings

    async def _announce(self, settings: WorkerSettings) -> None:
        await self._lease.announce(settings)
        self._claims.begin_after(self._lease.served_before)
        self.wake()

    def look(self, run_id: str) -> None:
        """Something has come for a run that may be held here."""
        run = self._held.get(run_id)
        if run is not None:
            self._executor.look(run)

    def serves(self, queue: str) -> bool:
        """Whether this worker takes runs of a queue."""
        return queue in self._settings.queues

    def has_room_for(self, queue: str, number: int) -> bool:
        """Whether this worker can take so many runs of a queue at their birth."""
        accepts = self._accepting and not self.spent.is_set() and self.serves(queue)
        return accepts and self._held.room(queue) >= number

    def adopt(self, run: HeldRun) -> None:
        """Execute a run that was born leased by this worker."""
        if not self._lease.has_given_back(run):
            self._begin(run, self._registry.by_code(run.code), NOTHING_YET)

    def stats(self) -> WorkerStats:
        uptime_ms = round((time.monotonic() - self._started_at) * 1_000)
        return WorkerStats(self.worker_id, self._processed, self._upkeep.passes, len(self._held), uptime_ms)

    async def _begin_all(self, claimed: list[HeldRun]) -> None:
        runs = [run for run in claimed if not self._lease.has_given_back(run)]
        with self._held.coming(runs):
            await self._begin_with_histories(runs)

    async def _begin_with_histories(self, runs: list[HeldRun]) -> None:
        for run in runs:
            if run.input == UNREADABLE:
                self._refuse(run, unreadable(run))
        runs = [run for run in runs if run.input != UNREADABLE]
        begun = [run for run in runs if run.last_seq or run.wakes]
        histories = await self._histories(begun) if begun else {}
        workflows: dict[str, Executable | None] = {}
        for run in runs:
            history = histories.get(run.run_id, NOTHING_YET)
            if (code := run.code) not in workflows:
                workflows[code] = self._registry.by_code(code)
            if history is not None:
                self._begin(run, workflows[code], history)

    async def _histories(self, runs: list[HeldRun]) -> dict[RunId, History | None]:
        """What runs go on from; None for one whose rows cannot be read, which must not cost the others theirs."""
        try:
            found = await self._store.histories([run.run_id for run in runs])
        except ValueError as error:
            if len(runs) == 1:
                self._refuse(runs[0], error)
                return {runs[0].run_id: None}
            middle = len(runs) // 2
            return {**await self._histories(runs[:middle]), **await self._histories(runs[middle:])}
        return {run.run_id: found.get(run.run_id, NOTHING_YET) for run in runs}

    def _refuse(self, run: HeldRun, error: Exception) -> None:
        """Put a run off that cannot even be begun."""
        self._held.add(run, self._lease.beats_sent)
        self._executor.refuse(run, error, self._done)

    def _begin(self, run: HeldRun, workflow: Executable | None, history: History) -> None:
        self._held.add(run, self._lease.beats_sent)
        claimed = quiet_claim(run, history.waits, self._lease.label, self._clock.now()) if history.waits else None
        if claimed is not None:
            run.riders.append(claimed)
        if workflow is None:
            self._executor.lack(run, self._done)
        else:
            self._executor.execute(run, workflow, history, self._done)

    def _done(self, run: HeldRun) -> None:
        self._processed += 1
        self._held.remove(run)
        self._claims.slot_freed(run.queue)

    def _heard(self, beat: Beat, number: int) -> None:
        """A heartbeat was answered: compare what the store says is held here with what is."""
        self._committer.resume()
        if self._lease.has_news:
            self.codes_changed()
        for run in self._held.lost(beat.holdings, number):
            self._executor.stop(run, LeaseLost("Another worker or a command has taken it."))
        for run in self._held.woken(beat.holdings):
            self._executor.look(run)
        self._run_errand(self._lease.give_back_unknown(self._held.unknown(beat.holdings), number))

    def _run_errand(self, errand: Coroutine[Any, Any, None]) -> None:
        task = begin_errand(errand)
        self._errands.add(task)
        task.add_done_callback(self._errand_done)

    def _errand_done(self, task: asyncio.Task[None]) -> None:
        self._errands.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("errand_failed", worker_id=self.worker_id, error=error)

    def _drop_all(self, why: str) -> None:
        # A worker that was cut off hears later that it was buried, too, while the code of its runs is still to end.
        if lost := self._held.give_up():
            log.warning("worker_lost_runs", worker_id=self.worker_id, runs=lost, reason=why)
        reason = LeaseLost(f"This worker lost all its runs: {why}.")
        self._committer.abandon(reason)
        for run in self._held:
            self._executor.stop(run, reason)
