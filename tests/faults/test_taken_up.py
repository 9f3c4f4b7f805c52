"""What a dead worker held is taken up within its lease, an upkeep interval and a polling interval, by virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from stepfast import RunState, Stepfast
from stepfast.engine.hints import Hints
from stepfast.kernel.exchange import Claim, Enrolment, QueueRoom, Upkeep
from stepfast.kernel.ids import WorkerId, new_id
from stepfast.stores.urls import store_for
from stepfast.worker.upkeep import UpkeepLoop
from stepfast.worker.worker import Worker
from tests.support.apps import PATIENT
from tests.support.turns import turn
from tests.support.virtual_time import Time, virtual_time
from tests.support.workflows import say

LEASE_MS, UPKEEP_MS, POLL_MS = 2_000, 1_000, 400
BOUND_MS = LEASE_MS + UPKEEP_MS + POLL_MS
# The living worker may be seldom on time on a busy machine: its own lease is no part of this.
LIVING = replace(PATIENT, heartbeat_ms=200, upkeep_ms=UPKEEP_MS, poll_ms=POLL_MS)
# The loops that sleep by the clock while nothing is to be done: claims, upkeep, the sweep of large values, and pruning.
SLEEPERS = 4


@pytest.fixture(autouse=True)
def deaf(monkeypatch):
    """Nobody hears of anything: upkeep wakes no claim, and no process another."""
    monkeypatch.setattr(Hints, "send", lambda self, topic: None)
    monkeypatch.setattr(Hints, "_heard", lambda self, topic: None)
    monkeypatch.setattr(UpkeepLoop, "_tell", lambda self, report: None)


@asynccontextmanager
async def living_worker(database: str) -> AsyncIterator[tuple[Stepfast, Time]]:
    async with (
        virtual_time(database) as time,
        Stepfast(database, workflows=[say], worker=LIVING, clock=time.clock) as app,
    ):
        yield app, time


def is_still(worker: Worker, time: Time) -> bool:
    """Whether every loop of the worker sleeps, and it may bury: then nothing happens before time goes on."""
    sleepers = len(time.clock.spans_ahead_ms())
    is_idle = sleepers == SLEEPERS and not time.clock.is_stirring and not worker.stats().running
    return is_idle and worker._lease.may_bury


async def until_still(app: Stepfast, time: Time) -> None:
    assert app._parts is not None
    (worker,) = app._parts._workers
    async with asyncio.timeout(60):
        while not is_still(worker, time):
            await turn()


async def held_by_the_dead(database: str, time: Time, number: int) -> str:
    """A run whose holder is never heard of again."""
    store = store_for(database, time.clock)
    await store.open()
    worker_id = WorkerId(new_id(time.clock.now(), number))
    await store.enrol(Enrolment(worker_id, "dead", "host", 7, ("default",), ("say@1",), LEASE_MS))
    async with Stepfast(database, workflows=[say], worker=False, clock=time.clock) as client:
        run = await client.start(say, "a")
    (held,) = (await store.claim(Claim(worker_id, [QueueRoom("default", 1, "")], ["say@1"], 1, None, None))).runs
    await store.close()
    assert held.run_id == run.id
    return run.id


async def taken_up_after_ms(app: Stepfast, time: Time, run_id: str) -> int | None:
    """How long it takes by the clock until the run is done; None: longer than three times what is promised."""
    died_at = time.clock.now()
    while time.clock.now() - died_at <= 3 * BOUND_MS:
        await until_still(app, time)
        if (await app.get(run_id).info()).state is RunState.COMPLETED:
            return time.clock.now() - died_at
        await time.advance(time.clock.spans_ahead_ms()[0] / 1_000)
    return None


async def slowest_ms(database: str) -> int | None:
    """The longest time of several deaths, each at another moment between two passes of upkeep."""
    spans = []
    async with living_worker(database) as (app, time):
        for number in range(1, 6):
            await until_still(app, time)
            run_id = await held_by_the_dead(database, time, number)
            spans.append(await taken_up_after_ms(app, time, run_id))
            await time.advance(0.17)
    return None if None in spans else max(span for span in spans if span is not None)


async def test_what_a_dead_worker_held_is_taken_up_in_time(database):
    slowest = await slowest_ms(database)
    assert slowest is not None
    assert LEASE_MS < slowest <= BOUND_MS


async def test_the_broken_twin_that_buries_nobody_never_takes_it_up(database, monkeypatch):
    request = UpkeepLoop._request

    def bury_nobody(self) -> Upkeep:
        return request(self)._replace(may_bury=False)

    monkeypatch.setattr(UpkeepLoop, "_request", bury_nobody)
    assert await slowest_ms(database) is None


async def test_the_broken_twin_that_does_not_ask_when_leases_end_is_late(database, monkeypatch):
    monkeypatch.setattr(UpkeepLoop, "_pause_ms", lambda self, report: 3 * UPKEEP_MS)
    slowest = await slowest_ms(database)
    assert slowest is None or slowest > BOUND_MS
