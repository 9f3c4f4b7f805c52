"""A worker: claims runs for the slots it has free, and answers for them while it holds them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from stepfast.engine.committer import Committer
from stepfast.kernel.decisions import HeldRun, Record
from stepfast.kernel.errors import LeaseLost, StepfastError
from stepfast.kernel.ids import RANDOM_BITS, RunId, WorkerId, new_id
from stepfast.kernel.ports import Beat, Claim, Clock, Enrolment, QueueRoom, Store
from stepfast.kernel.retry import Retry
from stepfast.kernel.views import OutcomeView
from stepfast.worker.execute import Executor, WorkerStops
from stepfast.worker.heartbeat import Heartbeat
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.upkeep import UpkeepLoop
from stepfast.workflows.context import Host
from stepfast.workflows.registry import Registry

log = logging.getLogger("stepfast.worker")

# The part of a lease after which a worker that gets no answer stops by itself, before anyone may take its runs.
OWN_DEADLINE = 0.8


class WorkerStats(NamedTuple):
    """What a worker has done so far."""

    worker_id: str
    runs_processed: int
    upkeep_passes: int
    running: int
    uptime_ms: int


class Worker:
    """Executes the runs of some queues in this process, from `start` to `stop`."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        committer: Committer,
        clock: Clock,
        settings: WorkerSettings,
        ended: Callable[[OutcomeView], None],
    ) -> None:
        self._store = store
        self._registry = registry
        self._committer = committer
        self._clock = clock
        self._settings = settings
        self._threads = ThreadPoolExecutor(settings.concurrency * 2, thread_name_prefix="stepfast-workflow")
        self._step_threads = ThreadPoolExecutor(settings.concurrency * 2, thread_name_prefix="stepfast-step")
        host = Host(committer, clock, self._step_threads, Retry())
        self._executor = Executor(committer, clock, host, self._threads, ended)
        self._upkeep = UpkeepLoop(store, clock, settings.upkeep_ms, settings.max_crashes)
        self._held: dict[RunId, HeldRun] = {}
        self._held_since: dict[RunId, int] = {}
        self._executing: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()
        self._cursor = dict.fromkeys(settings.queues, "")
        self._wake = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._heartbeat: Heartbeat | None = None
        self._accepting = False
        self._answered_at = 0.0
        self._beats_in_time = 0
        self._processed = 0
        self._started_at = time.monotonic()
        self.worker_id = WorkerId("")

    async def start(self) -> None:
        """Announce the worker and begin to claim."""
        await self._enrol()
        self._upkeep.may_bury = lambda: self._beats_in_time >= 1
        self._upkeep.returned = self.wake
        self._accepting = True
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self._claim_loop(), name="stepfast-claims"),
            loop.create_task(self._upkeep.run(), name="stepfast-upkeep"),
            loop.create_task(self._watch_own_deadline(), name="stepfast-deadline"),
        ]

    async def _enrol(self) -> None:
        self.worker_id = WorkerId(new_id(self._clock.now(), secrets.randbits(RANDOM_BITS)))
        settings = self._settings
        label = settings.label or f"{socket.gethostname()}-{os.getpid()}"
        codes = self._registry.codes()
        await self._store.enrol(
            Enrolment(
                self.worker_id, label, socket.gethostname(), os.getpid(), settings.queues, codes, settings.lease_ms
            )
        )
        self._answered_at = time.monotonic()
        self._beats_in_time = 0
        self._committer.resume()
        self._heartbeat = Heartbeat(self._store, self.worker_id, settings.heartbeat_ms, self._heard)
        self._heartbeat.start()

    async def stop(self, grace_ms: int | None = None) -> None:
        """Stop claiming, let running steps finish until the grace time, hand back the rest, and leave."""
        self._accepting = False
        for task in self._loops:
            task.cancel()
        await asyncio.gather(*self._loops, return_exceptions=True)
        self._let_go(WorkerStops(), wait_for_steps=True)
        await self._finish(self._settings.grace_ms if grace_ms is None else grace_ms)
        if self._heartbeat is not None:
            await self._heartbeat.stop()
        with contextlib.suppress(StepfastError):
            await self._store.retire(self.worker_id)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._step_threads.shutdown(wait=False, cancel_futures=True)

    async def _finish(self, grace_ms: int) -> None:
        if self._executing:
            await asyncio.wait(self._executing, timeout=grace_ms / 1_000)
        self._let_go(WorkerStops(), wait_for_steps=False)
        if self._executing:
            await asyncio.wait(self._executing)

    def wake(self) -> None:
        """Something may be ready: look now rather than at the next poll."""
        self._wake.set()

    @property
    def holder(self) -> WorkerId | None:
        """Who may take a run at its birth: this worker, while it accepts runs and has a slot free in each queue."""
        free = self._accepting and all(self._room(queue) > 0 for queue in self._settings.queues)
        return self.worker_id if free else None

    def adopt(self, run: HeldRun) -> None:
        """Execute a run that was born leased by this worker."""
        self._begin(run, [])

    def stats(self) -> WorkerStats:
        uptime_ms = round((time.monotonic() - self._started_at) * 1_000)
        return WorkerStats(self.worker_id, self._processed, self._upkeep.passes, len(self._held), uptime_ms)

    async def _claim_loop(self) -> None:
        while True:
            self._wake.clear()
            try:
                pause_ms = await self._claim_once()
            except StepfastError as error:
                log.warning("A claim failed: %s", error)
                pause_ms = self._settings.poll_ms
            except Exception:
                log.exception("A claim failed for an unknown reason.")
                pause_ms = self._settings.poll_ms
            if pause_ms:
                await self._rest(pause_ms)

    async def _rest(self, pause_ms: int) -> None:
        """Wait for a wake-up, at most as long as told."""
        waker = asyncio.ensure_future(self._wake.wait())
        sleeper = asyncio.ensure_future(self._clock.sleep(pause_ms))
        try:
            await asyncio.wait({waker, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waker.cancel()
            sleeper.cancel()

    async def _claim_once(self) -> int:
        """Fill the free slots; how long to rest before looking again (0: not at all)."""
        rooms = self._rooms()
        if not rooms:
            return self._settings.poll_ms
        claimed = await self._store.claim(
            Claim(self.worker_id, rooms, self._registry.codes(), self._settings.burst, self._settings.tenants)
        )
        if claimed.runs:
            await self._begin_all(claimed.runs)
            return 0
        if claimed.next_due_at is None:
            return self._settings.poll_ms
        return min(max(claimed.next_due_at - self._clock.now(), 1), self._settings.poll_ms)

    def _rooms(self) -> list[QueueRoom]:
        limit = self._settings.max_claims
        rooms = [QueueRoom(q, min(self._room(q), limit), self._cursor[q]) for q in self._settings.queues]
        return [room for room in rooms if room.room > 0 and self._worth_a_claim(room)]

    def _worth_a_claim(self, room: QueueRoom) -> bool:
        # A claim for each slot that falls free would be a round trip for every run; a quarter of the slots shares one.
        return room.room * 4 >= min(self._settings.room_of(room.queue), self._settings.max_claims)

    def _room(self, queue: str) -> int:
        return self._settings.room_of(queue) - self._busy[queue]

    async def _begin_all(self, runs: list[HeldRun]) -> None:
        for run in runs:
            self._cursor[run.queue] = run.tenant
        begun = [run.run_id for run in runs if run.last_seq]
        records = await self._store.records(begun) if begun else {}
        for run in runs:
            self._begin(run, records.get(run.run_id, []))

    def _begin(self, run: HeldRun, records: list[Record]) -> None:
        self._held[run.run_id] = run
        self._held_since[run.run_id] = self._heartbeat.sent if self._heartbeat else 0
        self._busy[run.queue] += 1
        task = asyncio.get_running_loop().create_task(self._execute(run, records))
        self._executing.add(task)
        task.add_done_callback(self._executing.discard)

    async def _execute(self, run: HeldRun, records: list[Record]) -> None:
        workflow = self._registry.by_code(f"{run.workflow}@{run.version}")
        try:
            if workflow is None:
                raise LeaseLost(f"This worker has no {run.workflow}@{run.version}.")
            await self._executor.execute(run, workflow, records)
        except Exception:
            log.exception("Run %s could not be executed; it stays leased until upkeep takes it back.", run.run_id)
        finally:
            self._release(run)

    def _release(self, run: HeldRun) -> None:
        self._processed += 1
        self._busy[run.queue] -= 1
        if self._held.get(run.run_id) is run:
            del self._held[run.run_id]
            del self._held_since[run.run_id]
        if self._worth_a_claim(QueueRoom(run.queue, self._room(run.queue))):
            self._wake.set()

    def _let_go(self, reason: BaseException, wait_for_steps: bool) -> None:
        for run in list(self._held.values()):
            if not wait_for_steps:
                self._executor.stop(run, reason)

    def _heard(self, beat: Beat, number: int) -> None:
        """A heartbeat was answered: compare what the store says is held here with what is."""
        self._answered_at = time.monotonic()
        self._beats_in_time += 1
        if not beat.alive:
            self._drop_all("it was buried by another worker")
            asyncio.get_running_loop().create_task(self._enrol_again())
            return
        held_there = {(holding.run_id, holding.token) for holding in beat.holdings}
        for run in list(self._held.values()):
            # A run that came after this beat was sent cannot be in its answer.
            if self._held_since[run.run_id] < number and (run.run_id, run.token) not in held_there:
                self._executor.stop(run, LeaseLost("Another worker or a command has taken it."))

    async def _enrol_again(self) -> None:
        old = self._heartbeat
        if old is not None:
            await old.stop()
        try:
            await self._enrol()
        except StepfastError as error:
            log.warning("Could not announce the worker again: %s", error)

    def _drop_all(self, why: str) -> None:
        reason = LeaseLost(f"This worker lost all its runs: {why}.")
        self._committer.abandon(reason)
        for run in list(self._held.values()):
            self._executor.stop(run, reason)

    async def _watch_own_deadline(self) -> None:
        deadline_s = self._settings.lease_ms * OWN_DEADLINE / 1_000
        while True:
            await asyncio.sleep(deadline_s / 8 * (0.9 + 0.2 * random.random()))
            if time.monotonic() - self._answered_at > deadline_s and self._held:
                self._beats_in_time = 0
                self._drop_all(f"no heartbeat was answered for {deadline_s:.1f} s")
