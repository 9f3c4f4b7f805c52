"""How much a worker asks for at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from stepfast import Stepfast, step, workflow
from stepfast.engine.clock import SystemClock
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnavailable
from stepfast.kernel.exchange import Claim, Claimed
from stepfast.kernel.ids import RunId
from stepfast.testing import VirtualClock
from stepfast.worker.claims import FEW_AFTER_MS, ClaimLoop
from stepfast.worker.held import HeldRuns
from stepfast.worker.settings import WorkerSettings
from tests.engine.test_review_committer import held
from tests.support.apps import PATIENT
from tests.support.turns import until_idle

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


def fill(runs: HeldRuns, busy: int) -> None:
    """Let runs take slots, as runs do that are born here."""
    for _ in range(busy):
        run = held()
        run.run_id = RunId(f"r-{len(runs)}")
        runs.add(run, 0)


async def asked_with(busy: int) -> list[int]:
    """For how many runs a worker of 200 slots asks while so many of them are taken."""
    store: Any = Empty()
    runs = HeldRuns(SETTINGS)
    fill(runs, busy)
    await ClaimLoop(store, VirtualClock(), SETTINGS, runs, lambda: ["w@1"], begin_none).look()
    return [room.room for request in store.asked for room in request.queues]


async def test_a_claim_takes_half_of_the_slots_at_most():
    assert await asked_with(busy=0) == [100]


async def test_a_claim_takes_what_is_free_when_that_is_a_quarter_of_the_slots():
    assert await asked_with(busy=150) == [50]


async def test_no_claim_is_made_for_less_soon_after_another():
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


class FailingOnce(Empty):
    """A store whose first answer is that it is away."""

    async def claim(self, request: Claim) -> Claimed:
        answer = await super().claim(request)
        if len(self.asked) == 1:
            raise StoreUnavailable("away")
        return answer


async def test_a_worker_that_polls_once_an_hour_looks_again_soon_after_the_store_failed_it():
    store: Any = FailingOnce()
    clock, settings = VirtualClock(), replace(SETTINGS, poll_ms=3_600_000)
    task = asyncio.create_task(ClaimLoop(store, clock, settings, HeldRuns(settings), lambda: ["w@1"], begin_none).run())
    asked = []
    for _ in range(3):
        await until_idle()
        asked.append(len(store.asked))
        clock.advance(2)
    task.cancel()
    assert asked == [1, 2, 2]


class ReadyMeanwhile(Empty):
    """A store that finds nothing; behind its first look, and before the answer, something becomes ready."""

    async def claim(self, request: Claim) -> Claimed:
        answer = await super().claim(request)
        if len(self.asked) == 1:
            self.became_ready()
        return answer

    def became_ready(self) -> None:
        """Nobody is told yet."""


async def test_a_look_that_was_under_way_when_something_became_ready_does_not_count_as_the_last():
    store: Any = ReadyMeanwhile()
    claims = ClaimLoop(store, VirtualClock(), SETTINGS, HeldRuns(SETTINGS), lambda: ["w@1"], begin_none)
    store.became_ready = claims.look_anew
    found_nothing = []
    for _ in range(2):
        await claims.look()
        found_nothing.append(claims.found_nothing.is_set())
    assert found_nothing == [False, True]


class Claiming:
    """A claim loop of 200 slots that runs by a clock of its own, and what it has asked for."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.runs = HeldRuns(SETTINGS)
        store: Any = Empty()
        self.store: Empty = store
        self.loop = ClaimLoop(store, self.clock, SETTINGS, self.runs, lambda: ["w@1"], begin_none)

    async def asked(self) -> list[int]:
        """For how many runs it has asked since the last time."""
        await until_idle()
        found = [room.room for request in self.store.asked for room in request.queues]
        self.store.asked.clear()
        return found

    async def advance(self, span_ms: int) -> list[int]:
        self.clock.advance(span_ms / 1_000)
        return await self.asked()

    async def end_one(self) -> list[int]:
        run = next(iter(self.runs))
        self.runs.remove(run)
        self.loop.slot_freed(run.queue)
        return await self.asked()


@asynccontextmanager
async def claiming() -> AsyncIterator[Claiming]:
    """A loop that has found nothing just now, and whose worker was then given runs until one slot was left."""
    worker = Claiming()
    task = asyncio.create_task(worker.loop.run())
    assert await worker.asked() == [100]
    fill(worker.runs, 199)
    try:
        yield worker
    finally:
        task.cancel()


async def test_a_slot_that_is_free_beside_long_runs_is_asked_for_at_each_poll():
    async with claiming() as worker:
        assert await worker.advance(SETTINGS.poll_ms) == [1]
        assert await worker.advance(SETTINGS.poll_ms) == [1]


async def test_wake_ups_make_few_claims_for_the_last_free_slot_and_do_not_put_them_off():
    async with claiming() as worker:
        found = []
        for _ in range(8):
            worker.loop.wake()
            found += await worker.asked()
            found += await worker.advance(FEW_AFTER_MS // 4)
        assert found == [1, 1]


async def test_a_run_that_is_due_soon_after_a_claim_is_asked_for_a_little_later():
    async with claiming() as worker:
        worker.loop.due(Instant(worker.clock.now() + 1))
        assert await worker.advance(1) == []
        assert await worker.advance(FEW_AFTER_MS) == [1]
        worker.loop.due(Instant(0))
        assert await worker.asked() == []


async def test_a_slot_that_falls_free_is_asked_for_a_little_later_when_it_stays_alone():
    async with claiming() as worker:
        fill(worker.runs, 1)
        worker.loop.wake()
        assert await worker.asked() == await worker.end_one() == []
        assert await worker.advance(FEW_AFTER_MS) == [1]
        assert await worker.advance(FEW_AFTER_MS) == []


async def test_a_clock_that_was_set_back_puts_no_claim_off():
    async with claiming() as worker:
        worker.clock._now = Instant(worker.clock.now() - 3_600_000)
        worker.loop.wake()
        assert await worker.asked() == [1]


async def test_a_wake_up_while_all_slots_were_full_is_not_forgotten():
    async with claiming() as worker:
        fill(worker.runs, 1)
        worker.loop.wake()
        found = await worker.asked()
        for _ in range(50):
            found += await worker.end_one()
        assert found == [50]


async def test_a_run_that_another_process_starts_gets_the_last_slot_beside_long_runs(database):
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    @step
    async def hold() -> None:
        begun.release()
        await go_on.wait()

    @workflow
    async def long() -> None:
        await hold()

    @workflow
    async def short() -> str:
        return "done"

    flows: list[Any] = [long, short]
    async with (
        Stepfast(database, workflows=flows, worker=replace(PATIENT, concurrency=8)) as app,
        Stepfast(database, workflows=flows, worker=False) as elsewhere,
    ):
        for _ in range(7):
            await app.start(long)
            await begun.acquire()
        run = await elsewhere.start(short)
        assert await run.result(timeout="60s") == "done"
        go_on.set()
