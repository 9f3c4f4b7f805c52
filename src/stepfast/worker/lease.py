"""The lease: a worker announces itself, keeps its lease alive, and stops by itself when it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from stepfast.errands import begin_errand
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.exchange import Beat, Enrolment, Holding, Turns
from stepfast.kernel.ids import RANDOM_BITS, RunId, WorkerId, new_id
from stepfast.kernel.ports import Clock, Store
from stepfast.log import Log
from stepfast.worker.heartbeat import Heartbeat
from stepfast.worker.settings import WorkerSettings

log = Log("worker")

# The part of a lease after which a worker that gets no answer stops by itself, before anyone may take its runs.
OWN_DEADLINE = 0.9
# A worker may bury others after so many of its own heartbeats were answered in time: a database that was away, or a
# clock that jumped, makes everybody look dead to everybody.
BEATS_BEFORE_BURYING = 3
# A pass of upkeep counts as a heartbeat so often in a lease; stores hold to the same.
KEEPS_PER_LEASE = 10
# How long a worker that is stopped while it starts waits for the store to take its announcement back.
TAKE_BACK_S = 1.0


def process_name() -> str:
    """What people call this process unless somebody has named it."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _clock_gap_s() -> float:
    """How far the clock is ahead of the time that passes: the same at all times, unless the clock is set."""
    return time.time() - time.monotonic()


def _crew(codes: Sequence[str], tenants: Sequence[str] | None) -> str:
    """What workers that take the same runs of a queue have in common, and no others."""
    tenants = None if tenants is None else sorted(tenants)
    return hashlib.sha256(json.dumps([sorted(codes), tenants]).encode()).hexdigest()


class Lease:
    """A worker's right to hold runs; calls `heard` with each answer, `lost` with the reason when it is over."""

    def __init__(self, store: Store, clock: Clock, settings: WorkerSettings, codes: Callable[[], list[str]]) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._codes = codes
        self._heartbeat: Heartbeat | None = None
        self._heard_at = self._kept_from = 0.0
        self._seen_at = Instant(0)
        self._gap_s = _clock_gap_s()
        self._beats_in_time = 0
        self._jumped_at = 0
        self._unknown: set[tuple[RunId, int]] = set()
        self._given_back: set[tuple[RunId, int]] = set()
        self._compared_at = 0
        self._renewal: asyncio.Task[None] | None = None
        self._announced: Enrolment | None = None
        self._announcing = asyncio.Lock()
        self._is_ending = False
        self._crew = ""
        self.farewell_failed: StepfastError | None = None
        """Why the store could not be told that the worker left, and so may count on it until its lease is over."""
        self.lacks: Callable[[], dict[str, str]] = dict
        self.served: Callable[[], Mapping[str, str]] = dict
        self.served_before: Mapping[str, str] = {}
        self.worker_id = WorkerId("")
        self.heard: Callable[[Beat, int], None] = lambda beat, number: None
        self.lost: Callable[[str], None] = lambda reason: None
        self.renewed: Callable[[], None] = lambda: None

    @property
    def beats_sent(self) -> int:
        return self._heartbeat.sent if self._heartbeat else 0

    @property
    def may_bury(self) -> bool:
        # Also before the first answer behind an outage: a pass of upkeep may come sooner than anybody's heartbeat.
        is_sure = self._beats_in_time >= BEATS_BEFORE_BURYING and not self._clock_has_jumped
        return is_sure and not self._has_missed_beats(time.monotonic())

    def _has_missed_beats(self, now: float) -> bool:
        """Whether nothing was heard for so long that others may have been cut off, too."""
        return now - self._heard_at > 2 * self._settings.heartbeat_ms / 1_000

    @property
    def _clock_has_jumped(self) -> bool:
        """Whether this machine's clock was set since the last answer; a machine that was asleep counts too."""
        return abs(_clock_gap_s() - self._gap_s) * 1_000 > self._settings.heartbeat_ms

    @property
    def kept_from(self) -> float:
        """From when on the lease counts: when that was sent which the store has answered last.

        Also where this loop was too busy to hear of the answer yet, and not from when it has heard of it.
        """
        return max(self._kept_from, self._heartbeat.kept_from if self._heartbeat else 0.0)

    @property
    def to_keep(self) -> WorkerId | None:
        """Whose lease a pass of upkeep is to keep as well: nobody's while the last heartbeat is young."""
        # By the store's clock, as the store judges it. One that was set back must not put it off.
        is_young = 0 <= self._clock.now() - self._seen_at < self._settings.lease_ms / KEEPS_PER_LEASE
        return None if is_young else self.worker_id

    def keep(self, worker_id: WorkerId, sent_at: float) -> None:
        """The store has heard of this worker by other means than its heartbeat."""
        if worker_id == self.worker_id:
            self._kept_from, self._seen_at = max(self._kept_from, sent_at), self._clock.now()

    async def take(self) -> None:
        """Announce a worker under an id of its own and begin to beat."""
        self._begin_life()
        async with self._announcing:
            sent_at = time.monotonic()
            try:
                await self._enrol()
            except asyncio.CancelledError:
                await self._take_back()
                raise
        self._kept_from, self._heard_at, self._gap_s = sent_at, time.monotonic(), _clock_gap_s()
        self._beats_in_time = self._jumped_at = 0
        self._unknown, self._compared_at = set(), 0
        interval_ms = self._settings.heartbeat_ms
        self._heartbeat = Heartbeat(self._store, self.worker_id, interval_ms, self._clock, self._hear)
        self._heartbeat.start()
        self.renewed()

    def _begin_life(self) -> None:
        self.worker_id = WorkerId(new_id(self._clock.now(), secrets.randbits(RANDOM_BITS)))
        # For all its life: a worker that learns more meanwhile leaves its turn to those that begin as it has begun.
        self._crew = _crew(self._codes(), self._settings.tenants)

    async def _take_back(self) -> None:
        """Leave where the announcement was called off: the store may have written it all the same."""
        with contextlib.suppress(StepfastError, TimeoutError):
            async with asyncio.timeout(TAKE_BACK_S):
                await self._store.retire(self.worker_id)

    async def end(self) -> None:
        """Stop beating and leave; what is still held goes back to the line."""
        # An answer that comes from here on must not bring the worker back.
        self._is_ending = True
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        if self._heartbeat is not None:
            await self._heartbeat.stop()
        try:
            await self._store.retire(self.worker_id, Turns(self._crew, self.served()))
        except StepfastError as error:
            self.farewell_failed = error
            log.warning("worker_not_retired", worker_id=self.worker_id, error=error)

    @property
    def has_news(self) -> bool:
        """Whether the worker can execute other things than it has told the store."""
        return self._announced is not None and self._enrolment() != self._announced

    async def announce(self, settings: WorkerSettings) -> None:
        """Say again what the worker can execute and which queues it serves, where that has changed."""
        # One after the other: of two that overtake each other the older would be what the store believes.
        async with self._announcing:
            self._settings = settings
            if self.has_news and not self._is_ending:
                await self._enrol()

    async def _enrol(self) -> None:
        enrolment, asked_at = self._enrolment(), self._clock.local()
        self._seen_at, self.served_before = await self._store.enrol(enrolment)
        self._clock.follow(self._seen_at, asked_at)
        self._announced = enrolment

    @property
    def label(self) -> str:
        """The name that people know the worker by."""
        return self._settings.label or process_name()

    def _enrolment(self) -> Enrolment:
        settings = self._settings
        served = (settings.queues, self._codes(), settings.lease_ms, self.lacks(), self._crew)
        return Enrolment(self.worker_id, self.label, socket.gethostname(), os.getpid(), *served)

    def _hear(self, beat: Beat, number: int) -> None:
        now = time.monotonic()
        if self._clock_has_jumped:
            # Answers that waited behind a blocked loop come all at once: others had no time to beat in between.
            self._beats_in_time, self._jumped_at = 1, self.beats_sent
        elif self._has_missed_beats(now):
            self._beats_in_time = 1
        elif number > self._jumped_at:
            self._beats_in_time += 1
        self._heard_at, self._gap_s, self._seen_at = now, _clock_gap_s(), beat.now
        if beat.alive:
            self.heard(beat, number)
        elif not self._is_ending and (self._renewal is None or self._renewal.done()):
            self.lost("it was buried by another worker")
            self._renewal = begin_errand(self._renew(), "stepfast-renewal")

    async def _renew(self) -> None:
        """Come back under a new id; the old one stays dead for good."""
        if self._heartbeat is not None:
            await self._heartbeat.stop()
        before = self.worker_id
        while True:
            try:
                await self.take()
            except StepfastError as error:
                log.warning("worker_not_enrolled", worker_id=self.worker_id, error=error)
            else:
                log.info("worker_returned", worker_id=self.worker_id, before=before)
                return
            await asyncio.sleep(self._settings.again_after_ms / 1_000)

    async def give_back_unknown(self, unknown: set[Holding], beat: int) -> None:
        """Give back what the store says is held here and is not, once two answers running have said so.

        Behind a step that blocks the event loop many answers wait, and so does the one that brings the runs: only an
        answer to a beat that was sent after the last comparison is a second one.
        """
        if beat <= self._compared_at:
            return
        self._compared_at = self.beats_sent
        # Not the whole holding: what comes for such a run changes it, with every message.
        leases = {(holding.run_id, holding.token) for holding in unknown}
        again, self._unknown = self._unknown & leases, leases
        if again:
            self._given_back |= again
            run_ids = sorted(run_id for run_id, _ in again)
            log.warning("unknown_runs_given_back", worker_id=self.worker_id, runs=len(run_ids))
            await self._store.give_back(self.worker_id, run_ids)

    def has_given_back(self, run: HeldRun) -> bool:
        """Whether the answer that brings a run comes too late: its lease was given back, and others may have it."""
        lease = (run.run_id, run.token)
        is_late = lease in self._given_back
        self._given_back.discard(lease)
        return is_late

    async def watch(self) -> None:
        """Stop in time: a worker that hears nothing must let go before its lease is over."""
        deadline_s = self._settings.lease_ms * OWN_DEADLINE / 1_000
        while True:
            # After a step that blocked the loop this may come before the answers that wait to be heard.
            left_s = self.kept_from + deadline_s - time.monotonic()
            if left_s <= 0:
                self._beats_in_time = 0
                self.lost(f"no heartbeat was answered for {deadline_s:.1f} s")
            await asyncio.sleep(left_s if left_s > 0 else deadline_s / 8)
