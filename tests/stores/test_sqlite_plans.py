"""The cost of the hot statements: it follows what is asked for, never what is stored."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import apsw
import pytest

from stepfast.kernel.commands import Pause
from stepfast.kernel.decisions import Continue
from stepfast.kernel.exchange import Claim, QueueRoom, Upkeep
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.states import WaitKind
from stepfast.stores import rows
from stepfast.stores.sqlite import claiming, reading, upkeep
from stepfast.stores.sqlite.asking import statements
from stepfast.stores.statements import numbered
from tests.stores.harness import HOUR_MS, VERDICT, Harness, continued, decide, hand_back, joins, wait

FILES = ("starting", "events", "claiming", "saving", "changing", "workers")
HOT = [(file, name) for file in FILES for name in statements(file)]
# There are as many rows of `worker` as there are processes; `holder` has one row for each that holds a run.
# json_each goes through a list that the caller brings; few runs ever wait for other code. Of the groups that nobody
# will join (`unjoined`, `u`) a pass looks at no more than its limit, of a tenant's line at a piece of so many. `held`
# is what one worker holds, `served` what those of one crew do; `q`, `c` and `n` are lists again, of queues, codes and
# tenants.
SMALL = (
    "SCAN worker",
    "SCAN holder",
    "SCAN CONSTANT ROW",
    "SCAN json_each",
    "SCAN q VIRTUAL TABLE",
    "SCAN c VIRTUAL TABLE",
    "SCAN n VIRTUAL TABLE",
    "SCAN w USING COVERING INDEX wait_for_code",
    "SCAN unjoined",
    "SCAN u",
    "SCAN piece",
    "SCAN held",
    "SCAN served",
)


@pytest.fixture
def harness(sqlite_harness: Harness) -> Harness:
    return sqlite_harness


def effort(connection: apsw.Connection, work: Callable[[apsw.Connection], object]) -> int:
    """How many instructions SQLite's machine takes for some work."""
    instructions = itertools.count()
    connection.set_progress_handler(lambda: next(instructions) < 0, 1)
    try:
        work(connection)
    finally:
        connection.set_progress_handler(None)
    return next(instructions)


async def effort_of_a_claim(harness: Harness) -> int:
    await harness.enrol()
    request = Claim(WorkerId("w1"), [QueueRoom("default", 1)], ["order@1"], 1)
    store: Any = harness.store
    spent: int = await store._writer.run(lambda c: effort(c, partial(claiming.claim, request=request)))
    return spent


@pytest.mark.parametrize(("file", "name"), HOT, ids=[name for _, name in HOT])
async def test_a_hot_statement_counts_through_no_table(store, file, name):
    text = statements(file)[name]
    names = numbered(text).names
    values = dict.fromkeys(names) if names else (None,) * text.count("?")
    plan = await store._writer.run(lambda c: c.execute(f"explain query plan {text}", values).fetchall())
    assert [row[3] for row in plan if row[3].startswith("SCAN") and not row[3].startswith(SMALL)] == []


async def test_a_claim_costs_the_same_however_many_runs_are_ready(harness):
    await harness.start_many(20)
    few = await effort_of_a_claim(harness)
    await harness.start_many(2_000)
    assert await effort_of_a_claim(harness) < 1.5 * few


async def test_a_claim_costs_the_same_however_many_tenants_there_are(harness):
    for number in range(3):
        await harness.start_many(2, tenant=f"t{number}")
    few = await effort_of_a_claim(harness)
    for number in range(3, 300):
        await harness.start_many(2, tenant=f"t{number}")
    assert await effort_of_a_claim(harness) < 1.5 * few


async def test_a_claim_costs_the_same_however_many_runs_need_other_code(harness):
    await harness.start_many(2, tenant="zz")
    few = await effort_of_a_claim(harness)
    for number in range(300):
        await harness.start_many(2, tenant=f"t{number}", code="unknown@1")
    assert await effort_of_a_claim(harness) < 1.5 * few


async def test_a_claim_costs_the_same_however_many_runs_wait(harness):
    await harness.start_many(3)
    few = await effort_of_a_claim(harness)
    await harness.start_many(2_000, delay_ms=1_000)
    assert await effort_of_a_claim(harness) < 1.5 * few


async def effort_of_reading(harness: Harness, length: int) -> int:
    """What it takes to read a run that was claimed twice and has not begun, after a generation of such a length."""
    run = await harness.held()
    for _ in range(length):
        await harness.save(decide(run))
    await harness.save(continued(run, Continue(1, "order@1", "{}")))
    (again,) = await harness.claim()
    await harness.save(hand_back(again))
    (again,) = await harness.claim()
    assert (again.generation, again.claims, again.begun) == (2, 2, False)
    store: Any = harness.store
    held = partial(claiming.held_runs, leased=[again.run_id], worker_id=again.worker_id)
    spent: int = await store._writer.run(lambda c: effort(c, held))
    return spent


async def test_a_claim_costs_the_same_however_long_the_earlier_generations_were(harness):
    few = await effort_of_reading(harness, 1)
    assert await effort_of_reading(harness, 500) < 1.5 * few


async def effort_of_a_pass(harness: Harness) -> int:
    request = Upkeep(True, 3, 100, VERDICT)
    store: Any = harness.store
    spent: int = await store._writer.run(lambda c: effort(c, partial(upkeep.upkeep, request=request)))
    return spent


async def test_a_pass_costs_the_same_however_many_runs_have_a_deadline(harness):
    await harness.start_many(3, timeout_ms=HOUR_MS)
    few = await effort_of_a_pass(harness)
    await harness.start_many(2_000, timeout_ms=HOUR_MS)
    assert await effort_of_a_pass(harness) < 1.5 * few


async def test_a_pass_costs_the_same_however_many_held_runs_are_past_their_deadline(harness):
    await harness.enrol()
    await harness.start_many(500, timeout_ms=1)
    few = await effort_of_a_pass(harness)
    await harness.claim(room=500)
    await harness.advance(1)
    assert await effort_of_a_pass(harness) < 1.5 * few


async def test_a_pass_costs_the_same_however_many_children_are_waited_for(harness):
    parent = await harness.held()
    few = await effort_of_a_pass(harness)
    born = [harness.new_run(joins=joins(parent), queue="children") for _ in range(2_000)]
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN, need=2_000),), children=born))
    assert await effort_of_a_pass(harness) < 1.5 * few


async def test_a_pass_looks_up_the_children_of_a_group_among_however_many_there_are(harness):
    parent, other = await harness.held("w1"), await harness.held("w2")
    lost = harness.new_run(joins=joins(parent), queue="children")
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN),), children=(lost,)))
    await harness.save(decide(parent, closed=(1,)))
    few = await effort_of_a_pass(harness)
    born = [harness.new_run(joins=joins(other), queue="children") for _ in range(2_000)]
    await harness.save(decide(other, opened=(wait(kind=WaitKind.CHILDREN, need=2_000),), children=born))
    assert await effort_of_a_pass(harness) < 1.5 * few


async def effort_of_a_look(harness: Harness, work: Callable[[apsw.Connection], object]) -> int:
    store: Any = harness.store
    spent: int = await store._writer.run(lambda c: effort(c, work))
    return spent


@pytest.mark.parametrize(
    "work", [partial(reading.find_all, limit=100), partial(reading.get_backlog, limit=100)], ids=["findings", "backlog"]
)
async def test_a_look_for_what_is_wrong_costs_the_same_however_many_runs_there_are(harness, monkeypatch, work):
    monkeypatch.setattr(rows, "REACH", 100)
    await harness.enrol("w2")
    for options in ({}, {"delay_ms": 1_000}, {"queue": "held"}):
        await harness.start_many(150, **options)
    await harness.claim(worker="w2", room=150, queue="held")
    few = await effort_of_a_look(harness, work)
    for options in ({}, {"delay_ms": 1_000}, {"queue": "held"}):
        await harness.start_many(2_000, **options)
    await harness.claim(worker="w2", room=2_000, queue="held")
    assert await effort_of_a_look(harness, work) < 1.5 * few


async def test_a_family_costs_the_same_however_many_other_families_there_are(harness):
    parent, other = await harness.held("w1"), await harness.held("w2")
    born = [harness.new_run(joins=joins(parent), queue="children") for _ in range(10)]
    await harness.save(decide(parent, opened=(wait(kind=WaitKind.CHILDREN, need=10),), children=born))
    work = partial(reading.get_family, run_id=parent.run_id, limit=100)
    few = await effort_of_a_look(harness, work)
    born = [harness.new_run(joins=joins(other), queue="children") for _ in range(2_000)]
    await harness.save(decide(other, opened=(wait(kind=WaitKind.CHILDREN, need=2_000),), children=born))
    assert await effort_of_a_look(harness, work) < 1.5 * few


async def effort_of_looks(harness: Harness) -> int:
    request = Claim(WorkerId("w1"), [QueueRoom("default", 1), QueueRoom("quiet", 1)], ["order@1"], 1, ["t1", "t2"])
    store: Any = harness.store
    looks = (partial(claiming.look, request=request), upkeep.look)
    return sum([await store._writer.look(partial(effort, work=look)) for look in looks])


async def test_looks_of_an_idle_worker_cost_the_same_however_many_runs_there_are(harness):
    await harness.enrol("w1")
    await harness.enrol("w2")
    spent = []
    for _ in range(2):
        for options in ({}, {"delay_ms": HOUR_MS}, {"queue": "held"}, {"code": "other@1"}, {"timeout_ms": HOUR_MS}):
            await harness.start_many(500, **options)
        await harness.claim(worker="w2", room=500, queue="held")
        spent.append(await effort_of_looks(harness))
    assert spent[1] < 1.1 * spent[0]


@pytest.mark.parametrize("tenant", [None, "acme"])
async def test_the_runs_of_an_earlier_command_are_found_among_however_many_keys_there_are(harness, tenant):
    run_id = (await harness.start(key="first")).run_id
    await harness.change(run_id, Pause(), key=f"k/{run_id}")
    asked = {"tenant": tenant, "command": "pause", "key": "k", "before": None, "limit": 1_000}
    work = partial(reading.read, name="list_answered", bindings=asked, view=tuple)
    few = await effort_of_a_look(harness, work)
    started = [harness.new_run(key=f"key {number}") for number in range(2_000)]
    await harness.store.start(started, None)
    for run in started[:100]:
        await harness.change(run.run_id, Pause(), key=f"another/{run.run_id}")
    assert await effort_of_a_look(harness, work) < 1.5 * few
