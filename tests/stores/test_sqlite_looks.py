"""A worker looks with one statement whether there is anything to do, and only then takes the file's lock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, NamedTuple

import apsw
import pytest

from stepfast.kernel.exchange import Claimed, UpkeepReport
from stepfast.kernel.ids import WorkerId
from stepfast.stores.sqlite import claiming, upkeep, workers
from tests.stores.harness import LEASE_MS, Harness, end
from tests.stores.test_sqlite_writes import statements_of

HOLDERS = "not exists (select 1 from worker w where w.worker_id = holder.worker_id and w.dead_at is null)"
READY_OF_ALL = "where :tenants is null\n              and t.state = 'ready'"


@pytest.fixture
def harness(sqlite_harness: Harness) -> Harness:
    return sqlite_harness


class Work(NamedTuple):
    """Something to do: how it comes about, whether an answer tells of it, and its condition in the question."""

    comes: Callable[[Harness], Awaitable[Any]]
    ask: Callable[[Harness], Awaitable[Any]]
    is_found: Callable[[Any], bool]
    condition: str
    statements: dict[str, str]


async def silent(harness: Harness) -> None:
    await harness.enrol()
    await harness.advance(LEASE_MS + 1)


async def silent_with_a_run(harness: Harness) -> None:
    await harness.held()
    await harness.advance(LEASE_MS + 1)


async def run_of_the_dead(harness: Harness) -> None:
    """More than one pass gives back."""
    await harness.enrol()
    await harness.start_many(3)
    await harness.claim()
    await harness.bury(limit=1)


async def overdue(harness: Harness) -> None:
    await harness.start(timeout_ms=1)
    await harness.advance(1)


async def unjoined(harness: Harness) -> None:
    parent, _ = await harness.parent(children=1, need=1)
    await harness.save(end(parent))


async def suspect(harness: Harness) -> None:
    await harness.held("dead")
    await harness.bury("dead")
    await harness.enrol()


async def due(harness: Harness) -> None:
    await harness.enrol()
    await harness.start(delay_ms=1)
    await harness.advance(1)


async def ready(harness: Harness) -> None:
    await harness.enrol()
    await harness.start()


async def ask_upkeep(harness: Harness) -> UpkeepReport:
    return await harness.upkeep()


async def ask_upkeep_that_may_not_bury(harness: Harness) -> UpkeepReport:
    return await harness.upkeep(may_bury=False)


async def ask_runs(harness: Harness) -> Claimed:
    return await harness.ask()


async def ask_runs_of_a_tenant(harness: Harness) -> Claimed:
    return await harness.ask(tenants=("acme", "other"))


def has_runs(claimed: Claimed) -> bool:
    return bool(claimed.runs)


UPKEEP, CLAIMING = upkeep.SQL, claiming.SQL
SILENT = "min(seen_at + lease_ms)"
WORK = {
    "a worker whose lease is over": Work(silent, ask_upkeep, lambda told: bool(told.buried), SILENT, UPKEEP),
    "what a worker holds whose lease is over": Work(
        silent_with_a_run, ask_upkeep_that_may_not_bury, lambda told: told.silent_holds, SILENT, UPKEEP
    ),
    "the run of a dead worker": Work(run_of_the_dead, ask_upkeep, lambda told: bool(told.returned), HOLDERS, UPKEEP),
    "a run past its deadline": Work(
        overdue, ask_upkeep, lambda told: bool(told.overdue), "deadline_at <= (select now_ms())", UPKEEP
    ),
    "children that nobody joins": Work(
        unjoined, ask_upkeep, lambda told: bool(told.unjoined), "exists (select 1 from unjoined)", UPKEEP
    ),
    "a ready run": Work(ready, ask_runs, has_runs, READY_OF_ALL, CLAIMING),
    "a ready run of a tenant": Work(ready, ask_runs_of_a_tenant, has_runs, "t.tenant = n.value", CLAIMING),
    "a suspect": Work(suspect, ask_runs, lambda claimed: claimed.suspects_wait, "t.crashes > 0", CLAIMING),
    "a waiting run that is due": Work(due, ask_runs, has_runs, "min(t.due_at)", CLAIMING),
}


async def is_found(harness: Harness, work: Work) -> bool:
    await work.comes(harness)
    return work.is_found(await work.ask(harness))


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_a_look_finds(harness, work):
    assert await is_found(harness, work)


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
async def test_the_broken_twin_that_does_not_ask_for_it_overlooks(harness, monkeypatch, work):
    question = work.statements["look"]
    asks_for_nothing = "null" if work.condition.startswith("min(") else "false"
    twin = question.replace(work.condition, asks_for_nothing if work.condition != READY_OF_ALL else "where false")
    assert twin != question
    monkeypatch.setitem(work.statements, "look", twin)
    assert not await is_found(harness, work)


@pytest.mark.parametrize("work", [WORK["a ready run"], WORK["a waiting run that is due"]], ids=["ready", "due"])
async def test_what_a_worker_may_not_take_is_no_reason_to_lock_the_file(harness, work):
    await work.comes(harness)
    with statements_of(harness.store._writer._connection) as seen:
        await harness.ask(queue="other")
        await harness.ask(codes=("other@1",)) if work is WORK["a ready run"] else await harness.ask(queue="third")
    assert len(seen) == 2


async def keep(harness: Harness, worker_id: WorkerId) -> object:
    await harness.advance(LEASE_MS // 2)
    return await harness.upkeep(by=worker_id)


async def claim(harness: Harness, worker_id: WorkerId) -> object:
    return await harness.ask(worker=worker_id)


async def make_pass(harness: Harness, worker_id: WorkerId) -> object:
    return await harness.upkeep()


async def beat(harness: Harness, worker_id: WorkerId) -> object:
    return await harness.store.beat(worker_id)


@pytest.mark.parametrize("act", [claim, make_pass, keep, beat])
async def test_an_idle_worker_does_everything_with_one_statement(harness, act):
    store: Any = harness.store
    worker_id = await harness.enrol()
    await harness.start_many(3, queue="other", delay_ms=LEASE_MS)
    with statements_of(store._writer._connection) as written, statements_of(store._beats._connection) as beaten:
        await act(harness, worker_id)
    assert len(written) + len(beaten) == 1


async def test_a_look_is_answered_while_somebody_else_writes(harness):
    worker_id = await harness.enrol()
    store: Any = harness.store
    other = apsw.Connection(str(store._path))
    other.execute("begin immediate")
    with closing(other), store._writer._turnstile.turn():
        assert await harness.ask(worker=worker_id) == Claimed([], None)
        assert (await harness.upkeep()).buried == []


async def test_a_pass_that_keeps_a_lease_sees_to_what_it_finds(harness):
    worker_id = await harness.enrol()
    await harness.advance(LEASE_MS // 2)
    await harness.start(timeout_ms=1)
    await harness.advance(1)
    report = await harness.upkeep(by=worker_id)
    assert (report.kept, len(report.overdue)) == (True, 1)


async def test_a_pass_does_not_keep_the_lease_of_a_worker_that_it_has_to_bury(harness):
    worker_id = await harness.enrol()
    await harness.advance(LEASE_MS + 1)
    report = await harness.upkeep(by=worker_id)
    assert (report.kept, report.buried) == (False, [worker_id])


async def test_a_heartbeat_lists_what_is_held_in_order(harness):
    worker_id = await harness.enrol()
    ids = await harness.start_many(3)
    await harness.claim()
    assert [held.run_id for held in (await harness.store.beat(worker_id)).holdings] == ids
    assert workers.unheard(harness.store._writer._connection, WorkerId("unknown")).holdings == []
