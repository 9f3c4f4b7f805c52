"""How much a worker asks for at a time."""

from __future__ import annotations

from typing import Any

from stepfast.engine.clock import SystemClock
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.exchange import Claim, Claimed
from stepfast.kernel.ids import RunId
from stepfast.worker.claims import ClaimLoop
from stepfast.worker.held import HeldRuns
from stepfast.worker.settings import WorkerSettings
from tests.engine.test_review_committer import held

SETTINGS = WorkerSettings(queues=("q",), concurrency=200)


class Empty:
    """A store in which nothing is ready; it keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Claim] = []

    async def claim(self, request: Claim) -> Claimed:
        self.asked.append(request)
        return Claimed([], None)


async def begin_none(runs: list[HeldRun]) -> None:
    """Nothing is ever taken here."""


async def asked_with(busy: int) -> list[int]:
    """For how many runs a worker of 200 slots asks while so many of them are taken."""
    store: Any = Empty()
    runs = HeldRuns(SETTINGS)
    for _ in range(busy):
        run = held()
        run.run_id = RunId(f"r-{len(runs)}")
        runs.add(run, 0)
    await ClaimLoop(store, SystemClock(), SETTINGS, runs, lambda: ["w@1"], begin_none).look()
    return [room.room for request in store.asked for room in request.queues]


async def test_a_claim_takes_half_of_the_slots_at_most():
    assert await asked_with(busy=0) == [100]


async def test_a_claim_takes_what_is_free_when_that_is_a_quarter_of_the_slots():
    assert await asked_with(busy=150) == [50]


async def test_no_claim_is_made_for_less():
    assert await asked_with(busy=151) == []


class EndingMeanwhile(Empty):
    """A store that finds nothing; while it looks for the first time, the worker's last run ends."""

    def __init__(self, runs: HeldRuns) -> None:
        super().__init__()
        self._runs = runs

    async def claim(self, request: Claim) -> Claimed:
        for run in self._runs:
            self._runs.remove(run)
        return await super().claim(request)


async def test_a_queue_that_was_full_when_a_claim_was_sent_does_not_count_as_empty():
    settings = WorkerSettings(queues=("q", "other"), queue_concurrency={"q": 1})
    runs = HeldRuns(settings)
    runs.add(held(), 0)
    store: Any = EndingMeanwhile(runs)
    claims = ClaimLoop(store, SystemClock(), settings, runs, lambda: ["w@1"], begin_none)
    found_nothing = []
    for _ in range(2):
        await claims.look()
        found_nothing.append(claims.found_nothing.is_set())
    assert [[room.queue for room in request.queues] for request in store.asked] == [["other"], ["q", "other"]]
    assert found_nothing == [False, True]
