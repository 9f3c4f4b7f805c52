"""A worker that leaves PostgreSQL while something that it asked for is still under way there, though it has hung up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import pytest

from stepfast.conformance.store.acts import HOUR_MS, park
from stepfast.conformance.store.lacking_code import FOR_CODE
from stepfast.stores.postgres.claiming import CLAIM
from stepfast.stores.postgres.lines import Deadlines
from tests.stores.harness import Harness
from tests.stores.postgres import NamedWorkers, asking, opened
from tests.stores.test_postgres_fence import until_blocked
from tests.support.guards import rewrite

Take = Callable[[Harness], Coroutine[Any, Any, None]]


@pytest.fixture
def harness(postgres_harness: Harness) -> Harness:
    return postgres_harness


async def claim(harness: Harness) -> None:
    await harness.claim()


async def claim_by_id(harness: Harness) -> None:
    ((run_id,),) = await harness.sql("select run_id from stepfast.task")
    await harness.claim_run(run_id)


async def be_born(harness: Harness) -> None:
    await harness.start(holder="w1")


LOCK = "perform pg_advisory_xact_lock_shared(hashtext('stepfast'), hashtext(k_worker::text));"
WAYS = [(claim, 1), (claim_by_id, 1), (be_born, 0)]


PATIENCE = """
do $$
declare
    f regprocedure;
begin
    for f in select oid from pg_proc
              where pronamespace = 'stepfast'::regnamespace and 'lock_timeout=5s' = any (proconfig)
    loop
        execute format('alter function %s set lock_timeout = 60000', f);
    end loop;
end
$$
"""


@asynccontextmanager
async def patient(harness: Any, url: str) -> AsyncIterator[Any]:
    """The same behind a pooler, where locks are waited for: this machine may stand still for seconds."""
    async with asking(url) as connection, opened(url, has_own_sessions=False, deadlines=Deadlines(60.0)) as store:
        await connection.execute(PATIENCE)
        other = copy(harness)
        other.store = NamedWorkers(store, harness.store._names)
        yield other


async def leave_during(harness: Any, url: str, take: Take, waiting: int) -> Any:
    """Whose the task is after a worker left, while what it had asked for before was about to be written."""
    await harness.enrol()
    await harness.start_many(waiting)
    async with asking(url) as blocker, asking(url) as watcher, patient(harness, url) as worker:
        writing = blocker.transaction()
        await writing.start()
        await blocker.execute("lock table stepfast.event in exclusive mode")
        taking = asyncio.create_task(take(worker))
        await until_blocked(watcher)
        leaving = asyncio.create_task(worker.store.retire("w1"))
        await until_blocked(watcher, 2)
        await writing.commit()
        await asyncio.gather(taking, leaving)
    return await harness.sql("select state, worker_id from stepfast.task")


@pytest.mark.parametrize(("take", "waiting"), WAYS)
async def test_what_a_worker_had_asked_for_goes_back_to_the_line_when_it_leaves(
    harness, migrated_postgres_url, take, waiting
):
    assert await leave_during(harness, migrated_postgres_url, take, waiting) == [("ready", None)]


@pytest.mark.parametrize(("take", "waiting"), WAYS)
async def test_without_the_lock_a_worker_that_has_left_would_hold_a_run(harness, migrated_postgres_url, take, waiting):
    """The broken twin: nobody would look after such a run before the next upkeep, which counts it as a crash."""
    await rewrite(migrated_postgres_url, "label_while_it_stays", (LOCK, ""))
    assert await leave_during(harness, migrated_postgres_url, take, waiting) == [("leased", "w1")]


async def test_a_claim_that_is_stuck_does_not_keep_what_its_worker_holds(harness, migrated_postgres_url):
    """Behind a pooler no setting of the session ends its wait."""
    await harness.enrol()
    held = await harness.start(holder="w1")
    await harness.start_many(1)
    url = migrated_postgres_url
    async with asking(url) as blocker, asking(url) as watcher, patient(harness, url) as worker:
        await watcher.execute("alter function stepfast.retire set lock_timeout = '1ms'")
        writing = blocker.transaction()
        await writing.start()
        await blocker.execute("lock table stepfast.wait in exclusive mode")
        taking = asyncio.create_task(claim(worker))
        await until_blocked(watcher)
        assert await worker.store.retire("w1") == [held.run_id]
        await writing.commit()
        await taking


async def come(harness: Harness) -> None:
    await harness.enrol("w3")


async def leave(harness: Harness) -> None:
    await harness.store.retire(harness.worker_id("w1"))


async def be_buried(harness: Harness) -> None:
    await harness.bury()


@pytest.mark.parametrize("pass_by", [come, leave, be_buried])
async def test_who_keeps_a_run_locked_that_waits_for_code_keeps_no_worker_and_no_other_run(
    harness, migrated_postgres_url, pass_by
):
    await harness.enrol("w2", lease_ms=HOUR_MS)
    await harness.enrol("w1")
    await harness.start_many(2)
    locked, other = await harness.claim(worker="w1")
    await harness.save(park(locked, FOR_CODE), park(other, FOR_CODE))
    async with asking(migrated_postgres_url) as blocker:
        await blocker.execute(PATIENCE.replace("60000", "50"))
        async with blocker.transaction():
            run_id = harness.store._names.id_for(locked.run_id)
            await blocker.execute("select 1 from stepfast.task where run_id = $1 for update", run_id)
            await pass_by(harness)
    assert [run.run_id for run in await harness.claim(worker="w2")] == [other.run_id]
    await harness.enrol("w4")
    assert [run.run_id for run in await harness.claim(worker="w2")] == [locked.run_id]


async def test_a_claim_that_finds_nothing_writes_nothing(harness, migrated_postgres_url):
    """A number for its transaction would be written down, and waited for on the disk, at every poll."""
    await harness.enrol()
    arguments = [harness.store._names.id_for("w1"), ["default"], [1], [""], ["w@1"], 1, None, None]
    async with asking(migrated_postgres_url) as connection, connection.transaction():
        await connection.fetch(CLAIM, *arguments)
        assert await connection.fetchval("select pg_current_xact_id_if_assigned()") is None
