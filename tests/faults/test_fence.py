"""The fence: whoever does not hold a run any more writes nothing, whatever it sends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count

import pytest

from stepfast import step, workflow
from stepfast.engine.clock import SystemClock
from stepfast.kernel.commands import Cancel, Rerun
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ids import WorkerId
from stepfast.stores.urls import store_for
from tests.stores import harness as acts
from tests.stores import postgres, sqlite
from tests.stores.model_tables import QUERIES
from tests.support.apps import PATIENT, app_on
from tests.support.guards import take_out_fence

LATE = {
    "a record": acts.step,
    "an end": acts.end,
    "a hand-back": acts.hand_back,
    "a park": lambda run: acts.park(run, acts.wait()),
}

AFTER_THE_END = {name: late for name, late in LATE.items() if name != "an end"}


@pytest.fixture
async def sqlite_harness(tmp_path):
    async with sqlite.harness_on(tmp_path / "app.db") as harness:
        yield harness, None


@pytest.fixture
async def postgres_harness(migrated_postgres_url):
    async with postgres.harness_on(migrated_postgres_url) as harness:
        yield harness, migrated_postgres_url


@pytest.fixture(params=["sqlite", "postgres"])
def harness_and_url(request):
    return request.getfixturevalue(f"{request.param}_harness")


@pytest.fixture
def harness(harness_and_url):
    return harness_and_url[0]


@pytest.fixture
async def without_the_fence(harness_and_url, monkeypatch):
    """Both stores with the check of token and holder taken out."""
    await take_out_fence(harness_and_url[1], monkeypatch)


async def rows_changed_by_a_late_write(harness, late) -> bool:
    """What a worker that was buried sends for a run that another one holds now, with numbers that would fit."""
    stale = await harness.held("w1")
    await harness.bury("w1")
    await harness.enrol("w2")
    (present,) = await harness.claim(worker="w2", suspects=(1,))
    stale.last_event = present.last_event
    return await rows_changed(harness, late(stale))


async def rows_changed(harness, decision) -> bool:
    before = [await harness.sql(query) for query in QUERIES.values()]
    answers = await harness.save(decision)
    after = [await harness.sql(query) for query in QUERIES.values()]
    assert (answers == [Saving.SAVED]) == (before != after)
    return before != after


async def rows_changed_after_a_cancel(harness, late) -> bool:
    """What the holder of a run sends that does not know yet that somebody has cancelled it."""
    stale = await harness.held()
    await harness.change(stale.run_id, Cancel())
    stale.last_event += 1
    return await rows_changed(harness, late(stale))


async def rows_changed_after_a_cancel_and_a_rerun(harness, late) -> bool:
    """The same, when the run has begun anew and its next holder is the same worker."""
    stale = await harness.held()
    await harness.change(stale.run_id, Cancel())
    await harness.change(stale.run_id, Rerun())
    (present,) = await harness.claim()
    stale.last_event = present.last_event
    return await rows_changed(harness, late(stale))


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_a_worker_that_lost_its_run_writes_nothing(harness, late):
    assert not await rows_changed_by_a_late_write(harness, late)


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
@pytest.mark.usefixtures("without_the_fence")
async def test_the_broken_twin_without_the_fence_writes_over_the_new_holder(harness, late):
    assert await rows_changed_by_a_late_write(harness, late)


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_who_held_a_run_that_was_cancelled_writes_nothing(harness, late):
    assert not await rows_changed_after_a_cancel(harness, late)


# Without the fence, a second end of the same generation still runs into the first: it is refused whole.
@pytest.mark.parametrize("late", AFTER_THE_END.values(), ids=AFTER_THE_END)
@pytest.mark.usefixtures("without_the_fence")
async def test_the_broken_twin_without_the_fence_writes_after_the_cancel(harness, late):
    assert await rows_changed_after_a_cancel(harness, late)


@pytest.mark.parametrize("late", AFTER_THE_END.values(), ids=AFTER_THE_END)
async def test_who_held_a_run_that_was_cancelled_and_rerun_writes_nothing(harness, late):
    assert not await rows_changed_after_a_cancel_and_a_rerun(harness, late)


@pytest.mark.parametrize("late", AFTER_THE_END.values(), ids=AFTER_THE_END)
@pytest.mark.usefixtures("without_the_fence")
async def test_the_broken_twin_without_the_fence_writes_into_the_rerun(harness, late):
    assert await rows_changed_after_a_cancel_and_a_rerun(harness, late)


async def test_a_late_result_of_a_live_worker_is_dropped_and_the_new_holder_goes_on(database):
    gates = [asyncio.Event(), asyncio.Event()]
    begun = [asyncio.Event(), asyncio.Event()]
    entries = count()

    @step
    async def slow() -> int:
        # A worker that is kept waiting for its beats may lose the run once more.
        entry = min(next(entries), 1)
        begun[entry].set()
        await gates[entry].wait()
        return entry

    @workflow
    async def flow() -> int:
        return await slow()

    # The first worker hears of nothing, not even by a claim, as it has no room for one: what keeps its result out is
    # the fence alone.
    async with app_on(database, [flow], replace(PATIENT, grace_ms=60_000, concurrency=1)) as first:
        run = await first.start(flow)
        await begun[0].wait()
        await taken_from(database, (await run.info()).worker_id)
        async with app_on(database, [flow]) as second:
            await begun[1].wait()
            gates[0].set()
            # Closing waits for the late result to be sent.
            await first.close()
            assert await second.get(run.id).steps() == []
            gates[1].set()
            assert await second.get(run.id).result(timeout="30s") == 1


async def taken_from(database: str, worker_id: str | None) -> None:
    """Give all that a worker holds back to the line, without its knowing."""
    assert worker_id is not None
    store = store_for(database, SystemClock())
    await store.open()
    await store.retire(WorkerId(worker_id))
    await store.close()
