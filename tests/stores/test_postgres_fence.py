"""The fence on PostgreSQL, where two transactions really are under way at once."""

from __future__ import annotations

import asyncio
import random

import asyncpg
import pytest

from stepfast.kernel.exchange import Saving
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import RunState, WaitKind
from stepfast.stores.postgres.saving import save_call
from tests.stores.harness import Harness, end, joins, step, wait
from tests.stores.postgres import asking, opened
from tests.support.guards import rewrite
from tests.support.turns import turn

RAISE_TOKEN = "update stepfast.task set token = token + 1 where run_id = $1"


@pytest.fixture
def harness(postgres_harness: Harness) -> Harness:
    return postgres_harness


BLOCKED = """
select count(distinct l.pid)
  from pg_locks l
  join pg_stat_activity a using (pid)
 where not l.granted and a.datname = current_database()
"""


async def until_blocked(connection: asyncpg.Connection, number: int = 1) -> None:
    """Return when so many transactions of this database wait for a lock of another."""
    async with asyncio.timeout(60):
        while await connection.fetchval(BLOCKED) < number:
            pass


async def save_during_a_token_raise(harness: Harness, url: str) -> list[Saving]:
    """Save a step while a transaction that raises its run's token is open, and commit that one first."""
    run = await harness.held()
    async with asking(url) as canceller, asking(url) as watcher:
        cancel = canceller.transaction()
        await cancel.start()
        await canceller.execute(RAISE_TOKEN, run.run_id)
        saving = asyncio.create_task(harness.save(step(run)))
        waiting = asyncio.create_task(until_blocked(watcher))
        await asyncio.wait({saving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        await cancel.commit()
        waiting.cancel()
        return await saving


async def test_a_token_raised_while_a_batch_waits_shuts_the_batch_out(harness, migrated_postgres_url):
    assert await save_during_a_token_raise(harness, migrated_postgres_url) == [Saving.LOST]
    assert await harness.sql("select count(*) from stepfast.step") == [(0,)]


async def test_without_the_lock_the_stale_step_would_land(harness, migrated_postgres_url):
    """The broken twin: what the test above would not notice if the lock were not what it tests."""
    await rewrite(migrated_postgres_url, "save", ("for no key update", ""))
    assert await save_during_a_token_raise(harness, migrated_postgres_url) == [Saving.SAVED]


async def test_a_token_cannot_be_raised_while_a_batch_is_open(harness, migrated_postgres_url):
    names = harness.store._names
    statement, columns = save_call(names.there([step(await harness.held())]), False)
    async with asking(migrated_postgres_url) as saver, asking(migrated_postgres_url) as canceller, saver.transaction():
        await saver.fetch(statement, *columns)
        await canceller.execute("set lock_timeout = '50ms'")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await canceller.execute("update stepfast.task set token = token + 1")


async def test_a_run_of_another_holder_with_the_same_token_is_not_touched(harness):
    run = await harness.held()
    stranger = step(run)
    stranger.fence = stranger.fence._replace(worker_id=WorkerId("w2"))
    assert await harness.save(stranger, step(run)) == [Saving.LOST, Saving.SAVED]


SAVERS = 4
PARENTS = 10
CHILDREN = 40


async def test_savers_and_a_canceller_never_lock_each_other_in_a_circle(harness, migrated_postgres_url):
    """Each saver ends children of everybody's parents, with its own parents in the same batch, in any order."""
    workers = [f"w{number}" for number in range(SAVERS)]
    parents, children = {}, {}
    for worker in workers:
        await harness.enrol(worker)
        await harness.start_many(PARENTS)
        parents[worker] = await harness.claim(worker=worker)
    group = wait(1, WaitKind.CHILDREN, need=10**6)
    everybody = [parent for held in parents.values() for parent in held]
    for parent in everybody:
        await harness.save(step(parent), _opening(parent, group))
    for number, worker in enumerate(workers):
        for place in range(CHILDREN):
            await harness.start(joins=joins(everybody[(number * 7 + place * 3) % len(everybody)]))
        children[worker] = await harness.claim(worker=worker)

    async with asking(migrated_postgres_url) as canceller:
        saving = [
            asyncio.create_task(_save_in_any_order(harness, migrated_postgres_url, parents[worker], children[worker]))
            for worker in workers
        ]
        while not all(task.done() for task in saving):
            await _lock_all(canceller, [parent.run_id for parent in everybody])
            await turn()
        answers = [answer for task in saving for answer in task.result()]
        assert set(answers) == {Saving.SAVED}
        assert await harness.sql("select sum(got) from stepfast.wait") == [(SAVERS * CHILDREN,)]
    async with asking(migrated_postgres_url) as connection:
        deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
        assert await connection.fetchval(deadlocks) == 0


def _opening(parent, group):
    decision = step(parent)
    decision.opened = (group,)
    return decision


async def _save_in_any_order(harness, url, parents, children) -> list[Saving]:
    rng = random.Random(children[0].run_id)
    names = harness.store._names
    answers = []
    async with opened(url) as store:
        while children:
            batch = [step(parent) for parent in rng.sample(parents, 5)]
            batch += [end(children.pop(), RunState.COMPLETED) for _ in range(min(4, len(children)))]
            rng.shuffle(batch)
            answers += await store.save(names.there(batch))
    return answers


async def _lock_all(connection: asyncpg.Connection, run_ids: list[RunId]) -> None:
    """What a command that cancels many runs does first."""
    async with connection.transaction():
        await connection.execute(
            "select 1 from stepfast.task where run_id = any ($1::uuid[]) order by run_id for no key update", run_ids
        )
