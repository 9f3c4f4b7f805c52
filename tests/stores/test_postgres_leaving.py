"""A worker that leaves PostgreSQL while something that it asked for is still under way there, though it has hung up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.stores.harness import Harness
from tests.stores.postgres import asking, opened
from tests.stores.test_postgres_fence import until_blocked

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


WAYS = [(claim, 1), (claim_by_id, 1), (be_born, 0)]


async def leave_during(harness: Any, url: str, take: Take, waiting: int) -> Any:
    """Whose the task is after a worker left, while what it had asked for before was about to be written."""
    await harness.enrol()
    await harness.start_many(waiting)
    async with asking(url) as blocker, asking(url) as watcher, opened(url) as store:
        writing = blocker.transaction()
        await writing.start()
        await blocker.execute("lock table stepfast.event in exclusive mode")
        taking = asyncio.create_task(take(harness))
        await until_blocked(watcher)
        leaving = asyncio.create_task(store.retire(harness.store._names.id_for("w1")))
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
    async with asking(migrated_postgres_url) as connection:
        for name in ("stays", "start_runs"):
            text = await connection.fetchval(
                "select pg_get_functiondef(oid) from pg_proc where oid::regproc::text = $1", f"stepfast.{name}"
            )
            assert "for key share" in text
            await connection.execute(text.replace("for key share", ""))
    assert await leave_during(harness, migrated_postgres_url, take, waiting) == [("leased", "w1")]
