"""Every point at which a process can die, enumerated: what was answered holds, nothing is done twice for nothing.

A checker compares three recordings: what callers were answered, what bodies really did, and what the store has.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import asyncpg
import pytest

from stepfast import Retry, Run, RunState, StepState, receive, sleep, step, workflow
from stepfast.kernel.exchange import Saving
from stepfast.kernel.ports import Store
from stepfast.kernel.views import StepView
from stepfast.testing import Engine, crash_points
from tests.support.owing import OwingStore

IS_LONG = bool(os.environ.get("STEPFAST_LONG"))
# Rows are deleted, table by table: to truncate so many tables makes some two hundred files, and all of them have to be
# planned anew. The trail is guarded by triggers, and some rows by others, which this session goes without.
EMPTY = """
set session_replication_role = replica;
do $$
declare
    name text;
begin
    for name in
        select tablename
          from pg_tables
         where schemaname = 'stepfast'
           and tablename not in ('migration', 'virtual_time')
    loop
        execute format('delete from stepfast.%I', name);
    end loop;
end
$$
"""


class Done(NamedTuple):
    """One run of a step's body: what it was given, and what it gave, which is another thing each time."""

    name: str
    given: tuple[str, ...]
    gave: str | None


BODIES: list[Done] = []


def done(name: str, *given: str, fails: bool = False) -> str:
    gave = f"{name}-{len(BODIES)}"
    BODIES.append(Done(name, given, None if fails else gave))
    if fails:
        raise ConnectionError(f"{name} is away")
    return gave


@step
async def charge(order: str) -> str:
    return done("charge", order)


@step
async def bill(paid: str) -> str:
    return done("bill", paid)


@step
def pack(paid: str, side: str) -> str:
    return done(f"pack_{side}", paid)


@step
async def label(left: str, right: str) -> str:
    return done("label", left, right)


@step(retry=Retry(attempts=5, base="10s", jitter=0))
async def confirm(shipped: str, word: str) -> str:
    is_first = not any(body.name == "confirm" for body in BODIES)
    return done("confirm", shipped, word, fails=is_first)


@workflow
async def ship(left: str, right: str) -> str:
    return await label(left, right)


@workflow
async def sell(order: str) -> list[str]:
    paid = await charge(order)
    await bill(paid)
    await sleep("1h")
    left, right = await asyncio.gather(pack.aio(paid, "left"), pack.aio(paid, "right"))
    shipped = await ship(left, right)
    word = await receive("word", str)
    return [paid, left, right, shipped, word, await confirm(shipped, word)]


MENDED = asyncio.Event()


@step(retry=Retry(attempts=1))
async def deliver(shipped: str) -> str:
    return done("deliver", shipped, fails=not MENDED.is_set())


@workflow
async def ask() -> str:
    return await receive("answer", str)


@workflow
async def ask_by_child() -> str:
    return await ask()


@workflow
async def send(order: str) -> str:
    return await deliver(await charge(order))


class Recorded(NamedTuple):
    """What the store has of a run."""

    steps: list[StepView]
    state: RunState
    value: Any
    events: list[str]
    event_numbers: list[int]
    tokens: list[int]


async def recorded(engine: Engine, run_id: str) -> Recorded:
    view, events = await engine.info(run_id), await engine.events(run_id)
    value = json.loads(view.value or "null")
    types, numbers = [event.type for event in events], [event.seq for event in events]
    return Recorded(await engine.steps(run_id), view.state, value, types, numbers, [event.token for event in events])


async def scenario(engine: Engine) -> list[str]:
    """Sell something, and check every promise; what is returned is the same whoever ran which body when."""
    BODIES.clear()
    run = await engine.start(sell, "order-1", tenant="acme")
    await engine.run_until_idle()
    await engine.signal(run, "word", "go")
    result = await engine.result(run)
    await check(engine, run, result)
    return [value.rpartition("-")[0] or value for value in result]


async def call_off(engine: Engine) -> list[str]:
    """Cancel a run whose child waits: both end, once, and nothing comes after it."""
    run = await engine.start(ask_by_child)
    await engine.run_until_idle()
    await engine.insist(lambda: run.cancel(key="cancel"))
    await engine.run_until_idle()
    held = [await recorded(engine, view.run_id) for view in await engine.app.runs()]
    for each in held:
        assert each.events.count("cancelled") == 1, f"P12: cancelled {each.events.count('cancelled')} times."
        assert each.events[-1] == "cancelled", f"P14: {each.events[-1]} came after the end."
        assert each.event_numbers == list(range(1, len(each.events) + 1)), "P16: events have gaps."
    return [each.state for each in held]


async def mend(engine: Engine) -> str:
    """A run fails, what it needs is mended, and it is retried: what was done before the failure is not done again."""
    BODIES.clear()
    MENDED.clear()
    run = await engine.start(send, "order-1")
    await engine.run_until_idle()
    MENDED.set()
    await engine.insist(lambda: run.retry(key="retry"))
    result: str = await engine.result(run)
    held = await recorded(engine, run.id)
    assert [held.events.count(name) for name in ("failed", "retried", "completed")] == [1, 1, 1], f"P12: {held.events}."
    assert held.events.count("started") == 2, (
        f"P16: two generations began, and {held.events.count('started')} are told."
    )
    charges = [body for body in BODIES if body.name == "charge"]
    assert len(charges) <= 1 + engine.crashes, f"P9: charge ran {len(charges)} times."
    assert {body.given for body in BODIES if body.name == "deliver"} <= {(gave,) for gave in values_of(held)}, "P8"
    return result.rpartition("-")[0]


async def check(engine: Engine, run: Run[Any], result: list[str]) -> None:
    views = await engine.app.runs()
    parent = await recorded(engine, run.id)
    children = [await recorded(engine, view.run_id) for view in views if view.run_id != run.id]
    held = [parent, *children]
    values = {value for each in held for value in values_of(each)}
    check_answers(engine, run, result, parent, len(children))
    check_bodies(engine, held, values)
    for each in held:
        check_store(each)


def check_answers(engine: Engine, run: Run[Any], result: list[str], parent: Recorded, children: int) -> None:
    assert parent.state is RunState.COMPLETED, f"P1: {run.id} was answered with a result and is {parent.state}."
    assert parent.value == result, f"P12: the caller was given {result}, the store has {parent.value}."
    assert children == 1, f"P2: one child was asked for, and {children} were started."


def check_bodies(engine: Engine, held: list[Recorded], values: set[str]) -> None:
    from_elsewhere = {"order-1", "go"}
    for body in BODIES:
        lost = set(body.given) - values - from_elsewhere
        assert not lost, f"P8: {body.name} was given {lost}, which no record holds."
    failures = Counter(each.call.name for run in held for each in run.steps if each.state is StepState.PENDING)
    for name, times in Counter(body.name for body in BODIES).items():
        allowed = 1 + failures[name] + engine.crashes
        assert times <= allowed, f"P9: {name} ran {times} times, where {allowed} are allowed."
    gave = {body.gave for body in BODIES}
    assert values - from_elsewhere <= gave, "P1: a record holds what no body gave."


def check_store(run: Recorded) -> None:
    ends = Counter(each.call for each in run.steps if each.state in (StepState.COMPLETED, StepState.FAILED))
    assert all(times == 1 for times in ends.values()), f"P7: several results for one call: {ends}."
    assert [each.seq for each in run.steps] == list(range(1, len(run.steps) + 1)), "P7: records have gaps."
    assert run.events.count("completed") == 1, f"P12: {run.events.count('completed')} ends."
    assert run.events[-1] == "completed", f"P12: {run.events[-1]} came after the end."
    assert run.event_numbers == list(range(1, len(run.events) + 1)), "P16: events have gaps."
    assert run.events.count("started") == 1, f"P16: it began once, and {run.events.count('started')} times it is told."
    assert run.tokens == sorted(run.tokens), f"P4: tokens went back: {run.tokens}."


def values_of(run: Recorded) -> set[str]:
    """What the store has as results of bodies: of steps, and of children, which are joined as lists."""
    found = {json.loads(each.value) for each in run.steps if each.kind == "step" and each.value is not None}
    return found | {
        json.loads(each.value)[0] for each in run.steps if each.kind == "children" and each.value is not None
    }


class AcknowledgesFirst(OwingStore):
    """The broken twin: a store that says a commit is saved, and saves it when it is next asked for something."""

    async def save(self, decisions: list[Any], again: bool = False) -> list[Saving]:
        await self._pay()
        self._owed = [lambda: self._store.save(decisions)]
        return [Saving.SAVED] * len(decisions)


def acknowledges_first(store: Store) -> Store:
    return cast(Store, AcknowledgesFirst(store))


def emptied(url: str) -> Any:
    """One PostgreSQL database, as good as new each time."""

    @asynccontextmanager
    async def databases() -> AsyncIterator[str]:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(EMPTY)
        finally:
            await connection.close()
        yield url

    return databases


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    """Every point on SQLite; on PostgreSQL a spread of them in the short form."""
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}
    return {"workflows": [sell, ship, ask, ask_by_child, send], "every": 1 if is_sqlite or IS_LONG else 7, **databases}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("commanded", [call_off, mend])
async def test_a_command_is_carried_out_once_wherever_the_process_dies(options, commanded):
    tried = await crash_points(commanded, **options)
    assert {"start", "claim", "save", "change"} <= set(tried.calls)
    assert len(tried.points) * options["every"] >= len(tried.calls)


@pytest.mark.timeout(900)
async def test_a_process_may_die_at_any_point_and_every_promise_holds(options):
    tried = await crash_points(scenario, **options)
    assert {"enrol", "start", "claim", "save", "beat", "upkeep", "deliver", "histories"} <= set(tried.calls)
    assert len(tried.points) * options["every"] >= len(tried.calls)


async def test_the_broken_twin_that_answers_before_it_saves_is_found_out(options):
    with pytest.raises(AssertionError, match=r"P\d"):
        await crash_points(scenario, around=acknowledges_first, **options | {"every": 1})
