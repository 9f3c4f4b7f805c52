"""The claim loop: one claimer for a worker, asking for as many runs as it has slots free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Claim, Claimed, QueueRoom
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.ports import Clock, Store
from stepfast.log import Failures, Log
from stepfast.worker.held import HeldRuns
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.shares import Shares, at_random
from stepfast.worker.waking import WakeUp

log = Log("worker")

SMALLEST_COMPANY = 25
# So long after a claim for all queues even a single slot is worth another; short runs free many slots before.
FEW_AFTER_MS = 100


class ClaimLoop:
    """Asks the store for runs: after a wake-up at once, else at every poll."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: WorkerSettings,
        held: HeldRuns,
        codes: Callable[[], list[str]],
        begin: Callable[[list[HeldRun]], Awaitable[None]],
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._held = held
        self._codes = codes
        self._begin = begin
        self._cursors = dict.fromkeys(settings.queues, "")
        self.served: dict[str, str] = {}
        self.suspects_wait = False
        self._empty: set[str] = set()
        self._is_outdated = False
        self._wake = WakeUp(clock)
        self._failures = Failures()
        self._due_at: Instant | None = None
        self._asked_at = clock.now()
        self._taken = 0
        self.shares = Shares(at_random)
        self.worker_id = WorkerId("")
        self.found_nothing = asyncio.Event()
        self.spent = asyncio.Event()

    def serve(self, settings: WorkerSettings) -> None:
        """Look in the queues of these settings from now on; who was served last in those of before stays known."""
        self._settings = settings
        self._cursors = dict.fromkeys(settings.queues, "") | self._cursors

    def begin_after(self, served: Mapping[str, str]) -> None:
        """Go on after the tenants that others served last, in queues whose turn is not known here."""
        # A worker that takes few runs in its life would else give each of them to the first tenant, and so the next.
        self._cursors |= {queue: tenant for queue, tenant in served.items() if self._cursors.get(queue) == ""}

    def wake(self) -> None:
        """Something may be ready: look now rather than at the next poll."""
        self._wake.set()

    def look_anew(self) -> None:
        """Something is ready: that no look found it so far, nor the one under way, does not mean that it is absent."""
        self._empty, self._is_outdated = set(), True
        self.found_nothing.clear()
        self._wake.set()

    def due(self, moment: Instant) -> None:
        """Something is to be looked for then, like a run that was put off here: look in time, however long the poll."""
        self._due_at = moment if self._due_at is None else min(self._due_at, moment)
        self._wake.rest_until(moment)

    def slot_freed(self, queue: str) -> None:
        """A run has ended here: look if that is worth a claim."""
        if self._wake.is_set():
            return
        # Where the last look found nothing, a free slot changes nothing: what is ready since then wakes us by itself.
        if queue in self._empty:
            if not self._held and self._empty.issuperset(self._cursors):
                self.found_nothing.set()
            return
        if self.suspects_wait or self._held.room(queue) >= self._fewest(queue):
            self._wake.set()
        else:
            self.due(self._few_at)

    async def run(self) -> None:
        while True:
            self._wake.clear()
            # What was put off before is in what the store answers; what is put off meanwhile may not be.
            self._due_at = None
            try:
                pause_ms = await self.look()
                self._failures.end()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look must come
                if failures := self._failures.add(error):
                    log.failure("claim_failed", error, worker_id=self.worker_id, failures=failures)
                pause_ms = self._settings.again_after_ms
            if pause_ms:
                await self._rest(pause_ms)

    async def _rest(self, pause_ms: int) -> None:
        """Wait for a wake-up, at most as long as told."""
        if self._due_at is not None:
            pause_ms = min(pause_ms, max(self._due_at - self._clock.now(), 0))
        await self._wake.rest(pause_ms)

    async def look(self) -> int:
        """Fill the free slots; how long to rest before looking again (0: not at all)."""
        request = self._request()
        if request is None:
            # What woke this look was not looked for: the next slot that falls free must not take it for absent.
            self._empty = set()
            return self._settings.poll_ms
        sent_at, self._is_outdated = self._clock.now(), False
        claimed = await self._claim(request)
        self.suspects_wait = claimed.suspects_wait
        was_for_all = request.suspects is None and not claimed.suspects_wait and not self._is_outdated
        self._empty = {room.queue for room in request.queues} if was_for_all and not claimed.runs else set()
        if claimed.runs:
            self._pass_turns(claimed.runs)
            await self._take(claimed.runs)
            return 0
        # A queue that was full when the claim was sent was not looked at, even if its last run has ended meanwhile.
        if not self._held and self._empty.issuperset(self._cursors):
            self.found_nothing.set()
        return self._pause_ms(claimed.next_due_at, sent_at)

    async def _claim(self, request: Claim) -> Claimed:
        """What the store has for the request; of `max_runs` no more than is left, which all queues share."""
        left = self._most()
        if self._settings.max_runs is None or sum(room.room for room in request.queues) <= left:
            return await self._store.claim(request)
        answers: list[Claimed] = []
        for rooms in self.shares.of(request.queues, left):
            answers.append(await self._store.claim(request._replace(queues=rooms)))
            self.shares.note(rooms, answers[-1].runs)
            # The next look asks for the rest, if there is one.
            if answers[-1].runs:
                break
        return _together(answers)

    def _request(self) -> Claim | None:
        rooms = self._held.rooms(self._cursors, min(self._most(), 2 * self._company()))
        # Suspects go first and in small company: while some wait, nothing is taken that would make it larger.
        suspects = self._held.suspect_rooms() if self.suspects_wait else None
        if suspects is None:
            rooms = self._worth_a_claim(rooms)
        if not rooms or (suspects is not None and not any(suspects)):
            return None
        settings = self._settings
        return Claim(self.worker_id, rooms, self._codes(), settings.burst, settings.tenants, suspects)

    def _worth_a_claim(self, rooms: list[QueueRoom]) -> list[QueueRoom]:
        """Those with room for many; all of them when the last claim for all is a while ago."""
        large = [room for room in rooms if room.room >= self._fewest(room.queue)]
        if len(large) < len(rooms) and self._few_at > self._clock.now():
            self.due(self._few_at)
            return large
        self._asked_at = self._clock.now()
        return rooms

    @property
    def _few_at(self) -> Instant:
        """When even one free slot is worth a claim: beside runs that go on for hours it would stay free as long."""
        # A clock that was set back must not put it off.
        now = self._clock.now()
        return Instant(self._asked_at + min(FEW_AFTER_MS, self._settings.poll_ms)) if self._asked_at <= now else now

    def _most(self) -> int:
        if self._settings.max_runs is None:
            return self._settings.max_claims
        return min(self._settings.max_claims, self._settings.max_runs - self._taken)

    def _company(self) -> int:
        # Runs that are taken together commit together: all of them at once, and the process would rest while the
        # database works, and the other way round. A claim is made for a quarter of the slots, and takes up to a half:
        # those that fell free before it was on its way share its cost.
        slots = self._settings.slots
        return max(slots // 4, min(slots, SMALLEST_COMPANY))

    def _fewest(self, queue: str) -> int:
        # A claim for each slot that falls free would be a round trip for every run; a quarter of the slots shares one.
        quarter = (self._settings.room_of(queue) + 3) // 4
        return min(quarter, self._company(), self._most())

    def _pass_turns(self, runs: list[HeldRun]) -> None:
        for run in runs:
            self._cursors[run.queue] = self.served[run.queue] = run.tenant

    async def _take(self, runs: list[HeldRun]) -> None:
        self._taken += len(runs)
        self.found_nothing.clear()
        await self._begin(runs)
        if self._most() <= 0:
            self.spent.set()

    def _pause_ms(self, next_due_at: Instant | None, sent_at: Instant) -> int:
        if next_due_at is None:
            return self._settings.poll_ms
        left_ms = next_due_at - self._clock.now()
        if left_ms <= 0 and next_due_at > sent_at:
            # Its time has come while the answer was on its way. One that was due before is in somebody else's hands.
            return 0
        return min(max(left_ms, 1), self._settings.poll_ms)


def _together(answers: list[Claimed]) -> Claimed:
    """What several claims have found, as if they were one."""
    runs = [run for answer in answers for run in answer.runs]
    due = [answer.next_due_at for answer in answers if answer.next_due_at is not None]
    return Claimed(runs, min(due, default=None), any(answer.suspects_wait for answer in answers))
