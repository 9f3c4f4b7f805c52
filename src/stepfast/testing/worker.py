"""A worker that does nothing by itself: the test says when it beats, looks after others, claims and waits."""

from __future__ import annotations

import asyncio
from typing import Any

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.testing.clock import VirtualClock
from stepfast.worker.lease import Lease
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.worker import Worker

# What a run's context asks of the store on the side, while its code waits.
SIDE_TASKS = frozenset({"stepfast-look", "stepfast-join"})

NEVER_MS = 10**15

# A run can come to rest without anything ending that could be waited for, so it is looked at so often.
GLANCE_S = 0.01

# Room for any number of runs that rest before a next try: no run that is ready must wait for theirs.
BY_HAND = WorkerSettings(concurrency=10_000, poll_ms=NEVER_MS, grace_ms=0)


class Stuck(AssertionError):
    """Runs do not get on: something is under way that does not end."""


class HandLease(Lease):
    """A lease whose heartbeats are sent by hand, and which may bury the dead from the start."""

    _sent = 0

    @property
    def beats_sent(self) -> int:
        return self._sent

    @property
    def may_bury(self) -> bool:
        return True

    async def take(self) -> None:
        self._begin_life()
        _, self.served_before = await self._store.enrol(self._enrolment())
        self.renewed()

    async def beat(self) -> None:
        """Say that the worker lives, and hear what it holds."""
        self._sent += 1
        number = self._sent
        self._hear(await self._store.beat(self.worker_id), number)


class HandWorker(Worker):
    """The real worker without its loops, driven by whoever holds it."""

    lease_kind = HandLease
    deadlines: dict[RunId, Instant]
    """When the time of runs is over that were claimed, kept for whoever moves the clock."""

    async def start(self) -> None:
        """Announce the worker; it takes no run at its birth, for it would begin to execute it."""
        self._wire()
        await self._lease.take()

    def codes_changed(self) -> None:
        """Something was registered: the queues that came with it are served too."""
        self._serve_all()

    def die(self) -> None:
        """Let go of everything at once and without a word, as a killed process does."""
        self._drop_all("its process died by the test's wish")

    async def make_rounds(self) -> None:
        """Beat, bury workers whose lease is over, and see to what upkeep sees to.

        Runs out of time, and children that nobody waits for any more, are ended down to the last: each pass comes one
        generation further.
        """
        assert isinstance(self._lease, HandLease)
        await self._lease.beat()
        ended: list[RunId] = []
        while report := await self._upkeep.make_pass():
            to_end = [*report.overdue, *report.unjoined]
            if to_end in ([], ended):
                break
            ended = to_end

    async def _begin_all(self, runs: list[HeldRun]) -> None:
        self.deadlines.update({run.run_id: run.deadline_at for run in runs if run.deadline_at is not None})
        await super()._begin_all(runs)

    async def claim(self) -> int:
        """Take what is ready: 0 if there was something, else how long it is until the next run falls due."""
        suspects_waited = self._claims.suspects_wait
        pause_ms = await self._claims.look()
        if pause_ms and self._claims.suspects_wait != suspects_waited:
            return await self.claim()
        return pause_ms

    def under_way(self) -> list[HeldRun]:
        """The runs held here that do something; a pause before a next try by the clock is nothing."""
        return [run for run in self._held if not self._executor.rests(run)]

    async def until_still(self, clock: VirtualClock, patience_s: float) -> bool:
        """Wait until every run held here has ended or rests by the clock; whether there was anything to wait for."""
        moved, waited_s = False, 0.0
        while clock.is_stirring or self._errands or _side_tasks() or self.under_way():
            moved = True
            watched = {_next_sleep(clock), self._held.next_leave(), *self._errands, *_side_tasks()}
            done, _ = await asyncio.wait(watched, timeout=GLANCE_S, return_when=asyncio.FIRST_COMPLETED)
            waited_s = 0.0 if done else waited_s + GLANCE_S
            if waited_s >= patience_s:
                raise Stuck(f"Nothing has happened for {patience_s:g} s. Under way: {self._told()}.")
        return moved

    def _told(self) -> str:
        return "; ".join(self._told_of(run) for run in self.under_way()) or "nothing that is known of"

    def _told_of(self, run: HeldRun) -> str:
        calls = ", ".join(self._executor.under_way(run)) or "code outside of every step"
        return f"run {run.run_id} of {run.workflow}@{run.version} ({calls})"


def _next_sleep(clock: VirtualClock) -> asyncio.Future[None]:
    slept: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def note() -> None:
        if not slept.done():
            slept.set_result(None)

    clock.on_sleep = note
    return slept


def _side_tasks() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task.get_name() in SIDE_TASKS}
