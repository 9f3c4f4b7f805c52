"""A worker that leaves when nothing is ready: what dead workers held is given back, and taken up, before it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import cast

import pytest

from stepfast import Run, RunFailed, RunState, Stepfast, WorkerSettings, receive, workflow
from stepfast.engine.clock import SystemClock
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnavailable
from stepfast.kernel.exchange import Claim, Enrolment, QueueRoom, UpkeepReport
from stepfast.kernel.ids import WorkerId, new_id
from stepfast.kernel.ports import Store
from stepfast.kernel.views import WorkerView
from stepfast.stores.urls import store_for
from stepfast.worker import worker as worker_module
from stepfast.worker.lease import Lease
from stepfast.worker.upkeep import UpkeepLoop
from tests.support.apps import app_on
from tests.support.turns import turn
from tests.support.workflows import say

HOUR_MS = 3_600_000
OVER_AT_ONCE_MS = 1
SOON = WorkerSettings(lease_ms=600, poll_ms=50, upkeep_ms=50, grace_ms=0)
# It may bury others after hours: who waits for that stays longer than any test.
NEVER = WorkerSettings(lease_ms=10 * HOUR_MS, poll_ms=50, upkeep_ms=50, grace_ms=0)
PATIENCE_S = 30


@pytest.fixture
async def store(database) -> AsyncIterator[Store]:
    store = store_for(database, SystemClock())
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def client(database) -> AsyncIterator[Stepfast]:
    async with app_on(database, [say], worker=False) as app:
        yield app


async def enrolled(store: Store, lease_ms: int, number: int = 1) -> WorkerId:
    """A worker of that lease, which beats no more from here on."""
    worker_id = WorkerId(new_id(Instant(1), number))
    await store.enrol(Enrolment(worker_id, "other", "host", 7, ("default",), ("say@1",), lease_ms))
    return worker_id


async def held_by_another(client: Stepfast, store: Store, lease_ms: int, number: int = 1) -> Run[str]:
    """A run whose holder beats no more."""
    worker_id = await enrolled(store, HOUR_MS, number)
    run = await client.start(say, "a")
    assert (await store.claim(Claim(worker_id, [QueueRoom("default", 1, "")], ["say@1"], 1, None, None))).runs
    died_at = await store.now()
    await enrolled(store, lease_ms, number)
    while lease_ms < HOUR_MS and await store.now() <= died_at + 2 * lease_ms:
        await turn()
    return run


async def drain(database: str, settings: WorkerSettings) -> int:
    """Let a worker of an app of its own drain the queues; how many runs it took."""
    async with app_on(database, [say], worker=False) as app:
        app._settings = settings
        async with app.worker() as worker, asyncio.timeout(PATIENCE_S):
            await worker.until_drained()
            return worker.stats().runs_processed


async def test_what_dead_workers_held_is_taken_up_before_a_drain_is_over(client, store, database):
    runs = [await held_by_another(client, store, OVER_AT_ONCE_MS, number) for number in (1, 2)]
    assert await drain(database, SOON) == 2
    assert [(await run.info()).state for run in runs] == [RunState.COMPLETED, RunState.COMPLETED]


async def test_a_holder_whose_lease_is_not_over_is_not_waited_for(client, store, database):
    run = await held_by_another(client, store, HOUR_MS)
    assert await drain(database, NEVER) == 0
    assert (await run.info()).state is RunState.RUNNING


async def test_a_silent_worker_that_holds_nothing_is_not_waited_for(client, store, database):
    await (await held_by_another(client, store, OVER_AT_ONCE_MS)).cancel()
    assert await drain(database, NEVER) == 0


async def test_a_silent_worker_that_is_heard_of_again_is_no_longer_waited_for(client, store, database):
    run = await held_by_another(client, store, OVER_AT_ONCE_MS)
    async with app_on(database, [say], worker=False) as app:
        app._settings = NEVER
        async with app.worker() as worker, asyncio.timeout(PATIENCE_S):
            draining = asyncio.create_task(worker.until_drained())
            while worker.stats().upkeep_passes < 3:
                await turn()
            assert not draining.done()
            await enrolled(store, HOUR_MS)
            await draining
    assert (await run.info()).state is RunState.RUNNING


async def test_a_drain_does_not_take_a_pass_that_was_not_allowed_to_bury_for_one_that_was(
    client, store, database, monkeypatch
):
    """Between the question and the pass the worker may find that it was cut off."""
    run = await held_by_another(client, store, OVER_AT_ONCE_MS)
    answers, right = iter([True, False]), cast("property", Lease.__dict__["may_bury"])
    monkeypatch.setattr(Lease, "may_bury", property(lambda lease: next(answers, right.__get__(lease))))
    assert await drain(database, replace(SOON, upkeep_ms=HOUR_MS)) == 1
    assert (await run.info()).state is RunState.COMPLETED


async def test_a_drain_with_a_long_lease_waits_so_long_and_names_whom_it_leaves(
    client, store, database, monkeypatch, caplog
):
    monkeypatch.setattr(worker_module, "DRAIN_WAIT_MS", 100)
    run = await held_by_another(client, store, OVER_AT_ONCE_MS)
    holder = (await run.info()).worker_id
    assert await drain(database, NEVER) == 0
    assert (await run.info()).state is RunState.RUNNING
    told = [record.msg for record in caplog.records if "drain_" in record.getMessage()]
    assert [line.event for line in told] == ["drain_waits", "drain_left_runs"]
    assert all(f"{holder} (lease ended at " in line.fields["workers"] for line in told)


async def test_a_drain_with_a_long_lease_and_seldom_upkeep_waits_no_longer(client, store, database, monkeypatch):
    monkeypatch.setattr(worker_module, "DRAIN_WAIT_MS", 100)
    await held_by_another(client, store, OVER_AT_ONCE_MS)
    assert await drain(database, replace(NEVER, upkeep_ms=HOUR_MS)) == 0


async def test_a_drain_that_cannot_name_whom_it_waits_for_leaves_all_the_same(client, store, database, monkeypatch):
    async def away(_: Store) -> list[WorkerView]:
        raise StoreUnavailable("It does not answer.")

    monkeypatch.setattr(worker_module, "DRAIN_WAIT_MS", 100)
    await held_by_another(client, store, OVER_AT_ONCE_MS)
    monkeypatch.setattr(type(store), "workers", away)
    assert await drain(database, NEVER) == 0


async def test_what_comes_while_a_drain_waits_is_executed(client, store, database):
    await held_by_another(client, store, OVER_AT_ONCE_MS)
    draining = asyncio.create_task(drain(database, SOON))
    run = await client.start(say, "b")
    assert await draining == 2
    assert (await run.info()).state is RunState.COMPLETED


@workflow(timeout="300ms")
async def hurried() -> None:
    await receive("never")


@workflow
async def waiting_for_it() -> str:
    try:
        await hurried()
    except RunFailed:
        return "went on"
    return "never"


async def test_a_run_past_its_deadline_is_ended_and_who_waits_for_it_goes_on_before_a_drain_is_over(store, database):
    async with app_on(database, [waiting_for_it, hurried], worker=False) as app:
        app._settings = NEVER
        run = await app.start(waiting_for_it)
        async with app.worker() as worker:
            await worker.drained.wait()
        parked_at = await store.now()
        while await store.now() <= parked_at + 300:
            await turn()
        async with app.worker() as worker, asyncio.timeout(PATIENCE_S):
            await worker.until_drained()
        assert (await run.info()).state is RunState.COMPLETED


async def test_a_drain_is_over_although_upkeep_fails(client, store, database, monkeypatch):
    await held_by_another(client, store, OVER_AT_ONCE_MS)

    def break_down(self):
        raise OSError("away")

    monkeypatch.setattr(UpkeepLoop, "_request", break_down)
    assert await drain(database, NEVER) == 0


async def test_the_broken_twin_that_does_not_hear_of_silent_holders_leaves_their_runs(
    client, store, database, monkeypatch
):
    make_pass = UpkeepLoop._make_pass

    async def hear_nothing(self) -> UpkeepReport | None:
        report = await make_pass(self)
        return None if report is None else report._replace(silent_holds=False)

    monkeypatch.setattr(UpkeepLoop, "_make_pass", hear_nothing)
    run = await held_by_another(client, store, OVER_AT_ONCE_MS)
    for _ in range(3):
        assert await drain(database, SOON) == 0
    assert (await run.info()).state is RunState.RUNNING
