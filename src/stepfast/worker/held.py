"""What a worker holds, and what it has room for."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Collection, Iterator

from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.exchange import Holding, QueueRoom
from stepfast.kernel.ids import RunId
from stepfast.kernel.suspects import room_beside, suspect_rooms
from stepfast.worker.settings import WorkerSettings


class HeldRuns:
    """The runs that a worker executes now."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._runs: dict[RunId, HeldRun] = {}
        self._since_beat: dict[RunId, int] = {}
        self._given_up: set[RunId] = set()
        self._busy: Counter[str] = Counter()
        self._suspects: Counter[int] = Counter()
        self._coming: set[RunId] = set()
        self._next_leave: asyncio.Future[None] | None = None

    def serve(self, settings: WorkerSettings) -> None:
        """Have room as these settings say from now on."""
        self._settings = settings

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[HeldRun]:
        return iter(list(self._runs.values()))

    def add(self, run: HeldRun, beats_sent: int) -> None:
        """Hold a run; `beats_sent` says how many heartbeats were on their way before it came."""
        self._runs[run.run_id] = run
        self._since_beat[run.run_id] = beats_sent
        self._given_up.discard(run.run_id)
        self._busy[run.queue] += 1
        if run.crashes:
            self._suspects[run.crashes] += 1

    @contextlib.contextmanager
    def coming(self, runs: Collection[HeldRun]) -> Iterator[None]:
        """Know of claimed runs while it is read what they go on from."""
        run_ids = {run.run_id for run in runs}
        self._coming |= run_ids
        try:
            yield
        finally:
            self._coming -= run_ids

    def remove(self, run: HeldRun) -> None:
        """Let go of a run."""
        self._busy[run.queue] -= 1
        if run.crashes:
            self._suspects[run.crashes] -= 1
        if self._runs.get(run.run_id) is run:
            del self._runs[run.run_id]
            del self._since_beat[run.run_id]
            self._given_up.discard(run.run_id)
        if self._next_leave is not None:
            self._next_leave.set_result(None)
            self._next_leave = None

    def give_up(self) -> int:
        """Count all runs as lost, also while their code still comes to its end; how many were not before."""
        fresh = self._runs.keys() - self._given_up
        self._given_up |= fresh
        return len(fresh)

    def next_leave(self) -> asyncio.Future[None]:
        """Done when the next run has been let go of; shared, so that nobody may cancel it."""
        if self._next_leave is None:
            self._next_leave = asyncio.get_running_loop().create_future()
        return self._next_leave

    async def until_none(self, timeout_s: float | None = None) -> None:
        """Wait until no run is held, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._runs:
                    await asyncio.shield(self.next_leave())

    def room(self, queue: str) -> int:
        """How many more runs of a queue there is room for."""
        own = self._settings.room_of(queue) - self._busy[queue]
        return min(own, room_beside(self._levels(), len(self._runs), self._settings.slots))

    def rooms(self, cursors: dict[str, str], most: int) -> list[QueueRoom]:
        """The queues with room, each with the tenant that was served last."""
        rooms = [QueueRoom(queue, min(self.room(queue), most), after) for queue, after in cursors.items()]
        return [room for room in rooms if room.room > 0]

    def suspect_rooms(self) -> tuple[int, ...]:
        """How many more suspects with 1, 2, 3, ... crashes there is room for."""
        return suspect_rooms(self._levels(), len(self), self._settings.slots)

    def lost(self, holdings: Collection[Holding], beat: int) -> list[HeldRun]:
        """The runs held here that the store does not list; one that came after the beat was sent cannot be listed."""
        listed = {(holding.run_id, holding.token) for holding in holdings}
        return [run for run in self if self._since_beat[run.run_id] < beat and (run.run_id, run.token) not in listed]

    def get(self, run_id: str) -> HeldRun | None:
        """A run, if it is held here."""
        return self._runs.get(RunId(run_id))

    def woken(self, holdings: Collection[Holding]) -> list[HeldRun]:
        """The runs for which something has come that their code has not seen."""
        risen = [(self._runs.get(holding.run_id), holding) for holding in holdings]
        return [run for run, holding in risen if run and run.token == holding.token and holding.wakes > run.wakes]

    def unknown(self, holdings: Collection[Holding]) -> set[Holding]:
        """What the store says is held here and is not: a claim or a birth whose answer was lost."""
        known = self._runs.keys() | self._coming if self._coming else self._runs
        return {holding for holding in holdings if holding.run_id not in known}

    def _levels(self) -> list[int]:
        # Asked at the end of each run, and nearly always there is none.
        return [crashes for crashes, number in self._suspects.items() if number] if self._suspects else []
