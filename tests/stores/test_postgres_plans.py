"""The work that a hot call causes, counted in pages of the database: it follows the batch, however old the plan is.

A plan is made once for a session. The worst moment for it is when the tables have just been vacuumed and are empty, as
every way through them then costs the same.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from stepfast.kernel.commands import Cancel, Changed, Pause, Request, Rerun, Resume
from stepfast.kernel.decisions import HeldRun, NewRun
from stepfast.kernel.exchange import Claim, DeadRun, QueueRoom, Turns, Upkeep
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.stores import rows
from stepfast.stores.postgres import claiming, commands, definitions, reading, starting, workers
from stepfast.stores.postgres.saving import save_call
from stepfast.stores.postgres.store import PostgresStore
from tests.stores.harness import Harness, bare, end, step
from tests.stores.postgres import asking, opened

BACKLOG = 20_000
BATCH = 50
# Fifty rows in a handful of indexes each, with room for deep trees; a scan of the backlog reads many times as much.
MOST_PAGES = BATCH * 60

TABLES = ("run", "task", "step", "event", "outcome", "wait", "inbox", "idempotency", "generation", "worker", "unjoined")

FILL = """
insert into stepfast.task (run_id, queue, tenant, code, place, state, since_at)
select ('01930000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, 'default', 't' || i % 500,
       case when i % 10 = 0 then 'other@1' else 'order@1' end, i, 'ready', 0
  from generate_series(1, $1::integer) i;
"""
FILL_RUNS = """
insert into stepfast.run (run_id, tenant, workflow, version, kind, queue, code, priority, input, queued_at)
select run_id, tenant, 'order', 1, 'workflow', queue, code, 0, '{}', 0 from stepfast.task
    on conflict do nothing;
"""
# Groups of sixteen children each, of which the first are joined by nobody, and no parent is left.
FILL_CHILDREN = """
update stepfast.run set parent_id = (left(run_id::text, 35) || 'f')::uuid, parent_wait = 1;
insert into stepfast.unjoined (run_id, wait_id, tenant)
select distinct parent_id, 1, 'acme' from stepfast.run where parent_id < '01930000-0000-7000-8000-000000000fff';
"""
FILL_DEADLINES = "update stepfast.task set deadline_at = case when place <= 100 then 1 else 10 ^ 15 end"
FILL_EVENTS = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, token)
select run_id, 1, tenant, 1, 'queued', 0, 0 from stepfast.task
    on conflict do nothing;
"""
# One run that was claimed and handed back in its second generation, before it began; the first was long.
FILL_HISTORY = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, token)
select '{run_id}', i, 't1', 1, 'step_completed', 0, 0 from generate_series(2, {count}) i;
insert into stepfast.outcome (run_id, generation, tenant, state, seq, token, ended_at)
values ('{run_id}', 1, 't1', 'completed', {count}, 1, 0);
update stepfast.task set generation = 2, claims = 1 where run_id = '{run_id}';
"""


class Session:
    """One session of the server whose plans were made when the tables were empty."""

    def __init__(self, connection: asyncpg.Connection, store: PostgresStore) -> None:
        self.connection = connection
        self.harness: Harness = bare(store)
        self.worker_id = WorkerId(str(uuid.uuid4()))

    async def pages(self, statement: str, arguments: Sequence[object]) -> int:
        """How many pages a call touches, with all that the functions in it do.

        The lesser of two counts, the first undone: a server whose caches were reset meanwhile, as its neighbours' many
        schemas may cause at any moment, reads its own catalogues again, and what it finds there is no part of the work.
        """
        trial = self.connection.transaction()
        await trial.start()
        first = await self._touched(statement, arguments)
        await trial.rollback()
        return min(first, await self._touched(statement, arguments))

    async def _touched(self, statement: str, arguments: Sequence[object]) -> int:
        text = await self.connection.fetchval(f"explain (analyze, buffers, format json) {statement}", *arguments)
        plan = json.loads(text)[0]["Plan"]
        return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])

    def claim(self, tenants: list[str] | None = None) -> tuple[str, list[object]]:
        request = Claim(self.worker_id, [QueueRoom("default", BATCH, "t3")], ["order@1"], 5, tenants)
        return claiming.CLAIM, claiming.claim_arguments(request)

    def start(self, count: int) -> tuple[str, list[object]]:
        runs: list[NewRun] = [self.harness.new_run(key=f"k{next(self.harness.counter)}") for _ in range(count)]
        return starting.start_call(runs, self.worker_id, False)

    def claim_run(self, run_id: RunId) -> tuple[str, list[object]]:
        return claiming.CLAIM_RUNS, [self.worker_id, [run_id], ["order@1"]]

    def upkeep(self) -> tuple[str, list[object]]:
        return workers.UPKEEP, workers.upkeep_arguments(Upkeep(True, 3, BATCH, DeadRun("", "", "")))

    async def waiting(self, count: int) -> list[RunId]:
        """Some runs from the middle of the line."""
        ready = "select run_id::text from stepfast.task where code = 'order@1' and place > 1000 order by place limit $1"
        return [RunId(run_id) for (run_id,) in await self.connection.fetch(ready, count)]

    async def held(self) -> list[HeldRun]:
        statement, arguments = self.claim()
        claimed = claiming.claimed(await self.connection.fetch(statement, *arguments))
        assert claimed is not None
        return claimed.runs

    async def warm_up(self) -> None:
        """Use every statement as often as it takes for the session to settle on its plan."""
        nobody = [RunId(str(uuid.uuid4()))]
        for _ in range(7):
            for statement, arguments in (self.claim(), self.claim(["t1", "t2"]), self.upkeep()):
                await self.connection.fetch(statement, *arguments)
            await self.connection.fetch(claiming.RECORDS, nobody)
            await self.connection.fetch(workers.BEAT, self.worker_id)
            await self.connection.fetch(workers.RETIRE, *workers.retire_arguments(WorkerId(nobody[0]), None))
            await self.connection.fetch(*_flat(self.claim_run(nobody[0])))
            await commands.carry_out(self.connection, [Request(nobody[0], Rerun(), key="k")])
        for _ in range(7):
            await self.connection.fetch(*_flat(self.start(1)))
            await self.connection.execute("delete from stepfast.task")


class Counted:
    """A connection that counts the pages that each statement touches before it runs it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.most_pages = 0

    async def fetch(self, statement: str, *arguments: object) -> list[asyncpg.Record]:
        trial = self._session.connection.transaction()
        await trial.start()
        self.most_pages = max(self.most_pages, await self._session.pages(statement, arguments))
        await trial.rollback()
        found: list[asyncpg.Record] = await self._session.connection.fetch(statement, *arguments)
        return found


def _flat(call: tuple[str, Sequence[object]]) -> list[object]:
    return [call[0], *call[1]]


@pytest.fixture
async def session(migrated_postgres_url) -> AsyncIterator[Session]:
    async with opened(migrated_postgres_url) as store, asking(migrated_postgres_url) as connection:
        session = Session(connection, store)
        for table in TABLES:
            await connection.execute(f"alter table stepfast.{table} set (autovacuum_enabled = off)")
            await connection.execute(f"vacuum analyze stepfast.{table}")
        await session.harness.enrol(session.worker_id)
        await session.warm_up()
        await connection.execute(FILL, BACKLOG)
        await connection.execute(FILL_RUNS)
        await connection.execute(FILL_EVENTS)
        yield session


async def test_a_claim_reads_what_it_takes(session):
    assert await session.pages(*session.claim()) < MOST_PAGES


async def test_a_claim_for_some_tenants_reads_what_it_takes(session):
    assert await session.pages(*session.claim(["t1", "t2"])) < MOST_PAGES


async def test_a_claim_that_takes_nothing_reads_next_to_nothing(session):
    statement, arguments = session.claim()
    arguments[4] = ["unknown@1"]
    assert await session.pages(statement, arguments) < 100


async def test_a_claim_of_runs_that_were_handed_back_reads_what_it_takes(session):
    await session.connection.execute("update stepfast.task set claims = 1")
    assert await session.pages(*session.claim()) < MOST_PAGES


async def test_a_claim_does_not_read_the_history_of_earlier_generations(session):
    (run_id,) = await session.waiting(1)
    await session.connection.execute(FILL_HISTORY.format(run_id=run_id, count=BACKLOG))
    assert await session.pages(*session.claim_run(run_id)) < 150


async def test_a_start_reads_what_it_stores(session):
    assert await session.pages(*session.start(BATCH)) < MOST_PAGES


async def test_saving_reads_what_it_saves(session):
    held = await session.held()
    assert len(held) == BATCH
    for decide in (step, end):
        assert await session.pages(*save_call([decide(run) for run in held], False)) < MOST_PAGES


async def test_a_heartbeat_reads_what_is_held(session):
    await session.held()
    assert await session.pages(workers.BEAT, [session.worker_id]) < MOST_PAGES


async def test_a_worker_that_leaves_reads_what_it_held(session):
    await session.held()
    leaving = workers.retire_arguments(session.worker_id, Turns("crew", {"default": "t1"}))
    assert await session.pages(workers.RETIRE, leaving) < MOST_PAGES


async def test_upkeep_reads_what_the_dead_held(session):
    await session.held()
    await session.connection.execute("update stepfast.worker set dead_at = 1")
    assert await session.pages(*session.upkeep()) < MOST_PAGES


async def test_upkeep_reads_the_deadlines_that_have_passed(session):
    await session.connection.execute(FILL_DEADLINES)
    assert await session.pages(*session.upkeep()) < MOST_PAGES
    report = workers.upkeep_report(await session.connection.fetch(*_flat(session.upkeep())))
    assert len(report.overdue) == BATCH


async def test_upkeep_reads_the_children_that_nobody_joins(session):
    await session.connection.execute(FILL_CHILDREN)
    assert await session.pages(*session.upkeep()) < MOST_PAGES
    report = workers.upkeep_report(await session.connection.fetch(*_flat(session.upkeep())))
    assert len(report.unjoined) == BATCH


async def test_upkeep_with_nothing_to_do_reads_next_to_nothing(session):
    assert await session.pages(*session.upkeep()) < 100


async def test_the_claim_of_one_run_reads_that_run(session):
    (run_id,) = await session.waiting(1)
    assert await session.pages(*session.claim_run(run_id)) < 150


@pytest.mark.parametrize("commanded", [(Pause(), Resume()), (Cancel(), Rerun())], ids=["held", "ended"])
async def test_commands_read_what_they_change(session, commanded):
    run_ids = await session.waiting(BATCH)
    for command in commanded:
        counted: Any = Counted(session)
        requests = [Request(run_id, command, key=run_id) for run_id in run_ids]
        async with session.connection.transaction():
            answers = await commands.carry_out(counted, requests)
        assert {type(answer) for answer in answers} == {Changed}
        assert counted.most_pages < MOST_PAGES


# A third of the line waits, and a third is held.
FILL_STATES = """
update stepfast.task set state = 'waiting', due_at = 10 ^ 15 where place % 3 = 1;
update stepfast.task set state = 'leased', worker_id = '00000000-0000-7000-8000-000000000001' where place % 3 = 2;
insert into stepfast.wait (run_id, wait_id, tenant, generation, kind, name, path, count, opened_at, due_at)
select run_id, 1, tenant, 1, 'time', 'sleep', '', 1, 0, due_at from stepfast.task where state = 'waiting';
insert into stepfast.worker (worker_id, label, host, pid, queues, codes, lease_ms, started_at, seen_at)
values ('00000000-0000-7000-8000-000000000001', 'a', 'h', 1, '[]', '[]', 1000, 0, 0);
"""


class CountedPool:
    """Connections of which every statement's pages are counted."""

    def __init__(self, session: Session) -> None:
        self._counted = Counted(session)

    @property
    def most_pages(self) -> int:
        return self._counted.most_pages

    async def fetch(self, statement: str, arguments: Sequence[object]) -> list[asyncpg.Record]:
        return await self._counted.fetch(statement, *arguments)


@pytest.mark.parametrize("look", [reading.find_all, reading.get_backlog], ids=["findings", "backlog"])
@pytest.mark.parametrize("is_analyzed", [False, True], ids=["unknown", "analyzed"])
async def test_a_look_for_what_is_wrong_reads_no_more_than_it_reaches(session, monkeypatch, look, is_analyzed):
    monkeypatch.setattr(rows, "REACH", BATCH)
    await session.connection.execute(FILL_RUNS)
    await session.connection.execute(FILL_STATES)
    if is_analyzed:
        await session.connection.execute("analyze")
    pool: Any = CountedPool(session)
    await look(pool, BATCH)
    assert pool.most_pages < MOST_PAGES


# The first run has sixteen children; of those far behind it, every other one is the child of the one before it.
FILL_FAMILIES = """
update stepfast.run set parent_id = '01930000-0000-7000-8000-000000000001', parent_wait = 1
 where run_id between '01930000-0000-7000-8000-000000000002' and '01930000-0000-7000-8000-000000000011';
update stepfast.run
   set parent_id = (left(run_id::text, 35) || translate(right(run_id::text, 1), '13579', '02468'))::uuid,
       parent_wait = 1
 where run_id > '01930000-0000-7000-8000-000000000100' and right(run_id::text, 1) in ('1', '3', '5', '7', '9');
"""


@pytest.mark.parametrize("is_analyzed", [False, True], ids=["unknown", "analyzed"])
async def test_a_family_is_found_among_however_many_runs_there_are(session, is_analyzed):
    await session.connection.execute(FILL_RUNS)
    await session.connection.execute(FILL_FAMILIES)
    if is_analyzed:
        await session.connection.execute("analyze")
    pool: Any = CountedPool(session)
    family = await reading.get_family(pool, RunId("01930000-0000-7000-8000-000000000001"), BATCH)
    assert len(family.ready) == 17
    assert pool.most_pages < MOST_PAGES


# Each run was started with a key, and one in ten was then paused by commands for many, each of these for forty runs.
FILL_KEYS = """
insert into stepfast.idempotency (tenant, command, key, digest, run_id, at)
select tenant, 'start', 'key ' || place, 'd', run_id, 0 from stepfast.task
 union all
select tenant, 'pause', 'k' || place % 500 || '/' || run_id, 'd', run_id, 0 from stepfast.task where place % 10 = 0;
"""


@pytest.mark.parametrize("tenant", [None, "t0"])
@pytest.mark.parametrize("is_analyzed", [False, True], ids=["unknown", "analyzed"])
async def test_the_runs_of_an_earlier_command_are_found_among_however_many_keys_there_are(session, tenant, is_analyzed):
    await session.connection.execute("update stepfast.task set tenant = 't' || place % 5")
    await session.connection.execute(FILL_KEYS)
    if is_analyzed:
        await session.connection.execute("analyze")
    pool: Any = CountedPool(session)
    asked = {"tenant": tenant, "command": "pause", "key": "k10", "before": None, "limit": 1_000}
    assert len(await reading.read(pool, "list_answered", asked, tuple)) == 40
    assert pool.most_pages < 400


async def test_records_are_found_by_their_runs(session):
    held = await session.held()
    await session.connection.fetch(*_flat(save_call([step(run) for run in held], False)))
    assert await session.pages(claiming.RECORDS, [[run.run_id for run in held[:5]]]) < 100


FILL_DEFINITIONS = """
insert into stepfast.definition (definition_id, number, tenant, name, version, digest, kind, content, registered_at)
select gen_random_uuid(), i, 't' || i % 500, 'say' || i % 100, i, 'd', 'template', '{}', 0
  from generate_series(1, $1::integer) i
"""


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("definitions_after", {"after": BACKLOG - 10, "limit": BATCH}),
        ("list_definitions", {"before": BACKLOG, "tenant": "t1", "limit": BATCH}),
        ("list_definitions", {"before": BACKLOG, "tenant": "t1", "name": "say1", "version": 501, "limit": BATCH}),
    ],
)
async def test_definitions_are_found_among_however_many_there_are(session, name, asked):
    await session.connection.execute(FILL_DEFINITIONS.replace("$1::integer", str(BACKLOG)))
    text, names = definitions._statement(name, frozenset(asked))
    assert await session.pages(text, [asked[each] for each in names]) < MOST_PAGES


async def test_no_function_that_rules_out_plans_is_compiled(session):
    """What is ruled out counts as dear, and dear plans are compiled; behind a pooler no session forbids it."""
    functions = await session.connection.fetch(
        """
        select p.proname
          from pg_proc p
         where p.pronamespace = 'stepfast'::regnamespace
           and array_to_string(p.proconfig, ' ') like '%enable_%'
           and not 'jit=off' = any (p.proconfig)
        """
    )
    assert functions == []
