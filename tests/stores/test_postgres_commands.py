"""Commands on PostgreSQL, where others are under way at once, and clients are lost in the middle."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import asyncpg
import pytest

from stepfast.engine.starting import Starter
from stepfast.kernel.commands import Cancel, Changed, Pause, Request, Rerun, Resume
from stepfast.kernel.errors import IllegalMove, KeyInProgress, KeyReused, StoreUnavailable
from stepfast.kernel.exchange import Delivery, Saving
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import RunState, WaitKind
from stepfast.stores import rows
from stepfast.stores.postgres import commands
from stepfast.stores.postgres.keys import Keys
from tests.stores.harness import Harness, bare, decide, end, joins, park, wait
from tests.stores.postgres import asking, harness_on, opened
from tests.stores.postgres_proxies import CuttingProxy
from tests.stores.test_postgres_fence import until_blocked

USE_KEY = """
insert into stepfast.idempotency (tenant, command, key, digest, run_id, answer, at)
values ('acme', 'cancel', 'k', $1, $2, $3, 0)
"""
FREE = "select 1 from stepfast.task where run_id = $1 for no key update nowait"


@pytest.fixture
def harness(postgres_harness: Harness) -> Harness:
    return postgres_harness


@asynccontextmanager
async def blocking(url: str, statement: str, *arguments: object) -> AsyncIterator[asyncpg.Connection]:
    """A transaction that has run a statement; it is committed once somebody waits for it."""
    async with asking(url) as blocker, asking(url) as watcher:
        transaction = blocker.transaction()
        await transaction.start()
        await blocker.fetch(statement, *arguments)
        yield blocker
        await until_blocked(watcher)
        await transaction.commit()


async def test_of_a_cancel_and_an_end_that_race_exactly_one_happens(harness, store, migrated_postgres_url):
    await harness.enrol()
    rounds, cancelled = 200, 0
    async with opened(migrated_postgres_url) as canceller:
        for number in range(rounds):
            await harness.start()
            (run,) = await harness.claim()
            racers = [harness.save(end(run)), canceller.change([Request(run.run_id, Cancel())])]
            # Who is sent first changes from round to round.
            answers = await asyncio.gather(*(racers if number % 2 else reversed(racers)))
            saved, changed = answers if number % 2 else reversed(answers)
            assert (saved, type(changed[0])) in (([Saving.SAVED], IllegalMove), ([Saving.LOST], Changed))
            cancelled += saved == [Saving.LOST]
    outcomes = await harness.sql("select state, count(*) from stepfast.outcome group by state")
    assert sum(count for _, count in outcomes) == rounds
    assert dict(outcomes).get("cancelled", 0) == cancelled
    assert await harness.sql("select run_id from stepfast.task") == []


async def test_a_command_that_waits_for_an_end_is_judged_by_it(harness, migrated_postgres_url):
    run = await harness.held()
    async with blocking(migrated_postgres_url, "delete from stepfast.task where run_id = $1", run.run_id) as ending:
        await ending.execute(
            "insert into stepfast.outcome values ($1, 1, 'acme', 'completed', null, null, 3, 1, 0)", run.run_id
        )
        cancelling = asyncio.create_task(harness.change(run.run_id, Cancel()))
    refusal = await cancelling
    assert isinstance(refusal, IllegalMove)
    assert "is completed" in str(refusal)


async def test_of_two_reruns_at_once_the_second_finds_the_run_open(harness, migrated_postgres_url):
    run = await harness.held()
    await harness.save(end(run))
    async with blocking(migrated_postgres_url, commands.LOCK, [run.run_id]) as first:
        second = asyncio.create_task(harness.change(run.run_id, Rerun()))
        (answer,) = await commands.carry_out(first, [Request(run.run_id, Rerun())])
    assert isinstance(answer, Changed)
    assert isinstance(await second, IllegalMove)
    assert await harness.task(run.run_id, "state, generation, token") == ("ready", 2, run.token + 1)


@pytest.mark.parametrize("is_same_run", [True, False])
async def test_a_key_that_another_command_is_just_using_is_waited_for(harness, migrated_postgres_url, is_same_run):
    mine, other = await harness.start_many(2)
    meant = Request(mine if is_same_run else other, Cancel(), key="k")
    first = Changed(meant.run_id, RunState.CANCELLED, 1, "default", harness.now)
    use = (meant.digest, meant.run_id, rows.answer_text(first))
    async with blocking(migrated_postgres_url, USE_KEY, *use):
        second = asyncio.create_task(harness.change(mine, Cancel(), key="k"))
    answer = await second
    if is_same_run:
        assert answer == replace(first, repeated=True)
    else:
        assert isinstance(answer, KeyReused)
    assert await harness.state(mine) is RunState.PENDING


async def test_commands_with_one_key_at_once_are_carried_out_once(harness, migrated_postgres_url):
    (run_id,) = await harness.start_many(1)
    request = Request(run_id, Cancel(), key="k")
    async with opened(migrated_postgres_url) as one, opened(migrated_postgres_url) as two:
        answers = await asyncio.gather(*(store.change([request]) for store in (one, two, one, two)))
    assert sorted(isinstance(answer, Changed) and answer.repeated for (answer,) in answers) == [False, True, True, True]
    assert await harness.event_types(run_id) == ["queued", "cancelled"]


async def test_a_command_whose_answer_was_lost_finds_itself_done_by_its_key(migrated_postgres_url, monkeypatch):
    proxy = CuttingProxy(migrated_postgres_url)
    write = Keys.write

    async def write_and_cut(self, connection):
        await write(self, connection)
        proxy.is_cutting = True

    async with proxy.listening() as url, harness_on(url) as harness:
        (run_id,) = await harness.start_many(1)
        with monkeypatch.context() as cutting:
            cutting.setattr(Keys, "write", write_and_cut)
            with pytest.raises(StoreUnavailable):
                await harness.change(run_id, Cancel(), key="k")
        assert proxy.cuts == 1
        answer = await harness.change(run_id, Cancel(), key="k")
        assert (answer.state, answer.repeated) == (RunState.CANCELLED, True)
        assert await harness.event_types(run_id) == ["queued", "cancelled"]


@contextmanager
def stopped_between_lock_and_write(url: str, run_id: RunId) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.stores.postgres_victim", url, run_id]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
    finally:
        process.kill()
        process.communicate()


async def until_free(connection: asyncpg.Connection, run_id: RunId) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await connection.execute(FREE, run_id)
                return
            except asyncpg.LockNotAvailableError:
                pass


@pytest.mark.parametrize("fate", ["killed", "frozen"])
async def test_a_client_that_is_lost_in_the_middle_of_a_command_changes_nothing(harness, migrated_postgres_url, fate):
    started = await harness.start()
    before = await harness.contents()
    with stopped_between_lock_and_write(migrated_postgres_url, started.run_id) as process:
        async with asking(migrated_postgres_url) as connection:
            with pytest.raises(asyncpg.LockNotAvailableError):
                await connection.execute(FREE, started.run_id)
            if fate == "killed":
                process.kill()
            await until_free(connection, started.run_id)
        assert await harness.contents() == before
        assert (await harness.change(started.run_id, Cancel(), key="k")).repeated is False


async def test_cancelling_parents_and_children_in_any_order_ends_in_no_circle(harness, migrated_postgres_url):
    parents = [await _parent_of(harness, 4) for _ in range(5)]
    family = [run_id for parent, children in parents for run_id in (parent, *children)]
    async with opened(migrated_postgres_url) as one, opened(migrated_postgres_url) as two:
        batches = [[Request(run_id, Cancel()) for run_id in order] for order in (family, family[::-1])]
        answers = await asyncio.gather(one.change(batches[0]), two.change(batches[1]))
    done = [answer for batch in answers for answer in batch if isinstance(answer, Changed)]
    assert sorted(answer.run_id for answer in done) == sorted(family)
    assert await harness.sql("select run_id from stepfast.task") == []
    async with asking(migrated_postgres_url) as connection:
        deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
        assert await connection.fetchval(deadlocks) == 0


async def _parent_of(harness: Harness, count: int) -> tuple[RunId, list[RunId]]:
    parent = await harness.held()
    children = [harness.new_run(joins=joins(parent), queue="children") for _ in range(count)]
    group = wait(kind=WaitKind.CHILDREN, need=count)
    await harness.save(decide(parent, opened=(group,), children=children))
    await harness.save(park(parent))
    return parent.run_id, [child.run_id for child in children]


async def test_a_command_leaves_no_setting_and_no_transaction_behind(migrated_postgres_url):
    async with opened(migrated_postgres_url, cold_lines=1) as store, asking(migrated_postgres_url) as watcher:
        (run_id,) = await bare(store).start_many(1)
        await store.change([Request(run_id, command) for command in (Pause(), Pause(), Resume())])
        ((timeout,),) = await store._cold.fetch("select current_setting('idle_in_transaction_session_timeout')")
        assert timeout == "5s"
        sessions = "select state from pg_stat_activity where application_name = 'stepfast' and datname = $1"
        states = await watcher.fetch(sessions, await watcher.fetchval("select current_database()"))
        assert {state for (state,) in states} == {"idle"}


SENT: dict[str, Callable[[Harness, RunId], Awaitable[object]]] = {
    "start": lambda harness, run_id: harness.start(key="k"),
    "cancel": lambda harness, run_id: harness.store.change([Request(run_id, Cancel(), key="k")]),
    "signal": lambda harness, run_id: harness.store.deliver(Delivery(run_id, None, "signal", "go", "1", key="k")),
}
IMPATIENT = """
do $$
declare
    f text;
begin
    for f in select oid::regprocedure from pg_proc
              where pronamespace = 'stepfast'::regnamespace
                and proname in ('start_runs', 'use_keys', 'deliver')
    loop
        execute format('alter function %s set lock_timeout = 50', f);
    end loop;
end
$$
"""


@pytest.mark.parametrize("command", SENT)
async def test_what_comes_again_while_its_key_is_in_progress_changes_nothing_until_that_has_ended(
    harness, migrated_postgres_url, command
):
    run_id = (await harness.start()).run_id
    async with asking(migrated_postgres_url) as other:
        await other.execute(IMPATIENT)
        transaction = other.transaction()
        await transaction.start()
        await other.execute(USE_KEY.replace("'cancel'", f"'{command}'"), "digest", run_id, "pending")
        before = await harness.contents()
        with pytest.raises(KeyInProgress, match="send the same again a little") as raised:
            await SENT[command](harness, run_id)
        assert raised.value.code == "E-IDEM-002"
        assert await harness.contents() == before
        # Whoever held the key went without a word.
        await transaction.rollback()
    await SENT[command](harness, run_id)
    assert await harness.contents() != before


async def test_a_start_whose_key_is_in_progress_refuses_no_other_that_shares_its_commit(harness, migrated_postgres_url):
    starter = Starter(harness.store, lambda queue, number: None)
    runs = [harness.new_run(), harness.new_run(key="k"), harness.new_run()]
    async with asking(migrated_postgres_url) as other:
        await other.execute(IMPATIENT)
        transaction = other.transaction()
        await transaction.start()
        await other.execute(USE_KEY.replace("'cancel'", "'start'"), "digest", runs[0].run_id, "pending")
        starter.open()
        answers = await asyncio.gather(*map(starter.start, runs), return_exceptions=True)
        of_a_page = await starter.start_page([run._replace(run_id=harness.new_run().run_id) for run in runs])
        await starter.close()
        await transaction.rollback()
    assert [isinstance(answer, KeyInProgress) for answer in answers] == [False, True, False]
    assert [isinstance(answer, KeyInProgress) for answer in of_a_page] == [False, True, False]
    assert len(await harness.sql("select run_id from stepfast.run")) == 4
