"""Time, chance and ids in workflow code."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest

from stepfast import (
    Retry,
    Stepfast,
    WaitTimeout,
    WrongCall,
    continue_as,
    current_run,
    durable,
    each,
    race,
    receive,
    sleep,
    step,
    timeout,
    workflow,
)
from stepfast.kernel.decisions import HeldRun
from stepfast.testing import engine, record, replay
from stepfast.workflows.fitting import Verdict
from tests.support.apps import PATIENT, app_on
from tests.support.virtual_time import replayed, timed_app, until_parked_in, virtual_time


async def test_now_uuid_and_random_are_the_same_on_every_replay(database):
    seen: list[list[str]] = []

    async def draw() -> list[str]:
        return [str(durable.uuid()), str(durable.random()), durable.now().isoformat()]

    @workflow
    async def flow() -> int:
        first = await asyncio.gather(draw(), draw())
        await receive("first")
        seen.append([*first[0], *first[1], durable.now().isoformat(), str(durable.uuid())])
        await receive("go")
        return 1

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_parked_in(run, "receive:first")
        await run.signal("first")
        await replayed(run, time)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][3]


async def rest(span: str) -> None:
    await sleep(span)


async def check_that_each_wait_moves_it_on(database: str, flow: Any, seen: list[list[datetime]]) -> None:
    """The moments that the code has seen are 20 ms apart, and the same on replay."""
    async with timed_app(database, flow) as (app, time):
        await replayed(await app.start(flow), time)
    assert seen[0] == seen[-1]
    assert all(after - before >= timedelta(milliseconds=20) for before, after in itertools.pairwise(seen[0]))


async def test_the_moment_goes_on_over_branches_and_time_limits(database):
    seen: list[list[datetime]] = []

    @workflow
    async def flow() -> int:
        moments = [durable.now()]
        await race(late=sleep("20ms"), never=receive("never"))
        moments.append(durable.now())
        await each(rest, ["20ms", "10ms"])
        moments.append(durable.now())
        await asyncio.gather(rest("10ms"), rest("20ms"))
        moments.append(durable.now())
        with contextlib.suppress(WaitTimeout):
            async with timeout("20ms"):
                await receive("never")
        seen.append([*moments, durable.now()])
        await receive("go")
        return 1

    await check_that_each_wait_moves_it_on(database, flow, seen)


async def test_the_moment_goes_on_over_what_a_def_workflow_waits_for(database):
    seen: list[list[datetime]] = []

    @workflow
    def flow() -> int:
        moments = [durable.now()]
        race.sync(late=lambda: sleep("20ms"), never=lambda: receive("never"))
        moments.append(durable.now())
        each.sync(rest, ["20ms", "10ms"])
        moments.append(durable.now())
        with contextlib.suppress(WaitTimeout), timeout("20ms"):
            receive("never")
        seen.append([*moments, durable.now()])
        receive("go")
        return 1

    await check_that_each_wait_moves_it_on(database, flow, seen)


async def test_a_call_that_was_moved_to_another_branch_keeps_its_place_beside_what_was_added(database):
    seen: list[datetime] = []

    @step
    async def known() -> int:
        return 1

    @step
    async def added() -> int:
        return 2

    @step
    async def note(moment: str) -> str:
        return moment

    @workflow(name="moved")
    async def before() -> None:
        await known()
        await receive("deployed")

    @workflow(name="moved")
    async def after() -> None:
        await asyncio.gather(known(), added())
        seen.append(durable.now())
        await note(durable.now().isoformat())
        await receive("deployed")
        await receive("go")

    async with virtual_time(database) as time:
        async with Stepfast(database, workflows=[before], worker=PATIENT, clock=time.clock) as app:
            run_id = (await app.start("moved")).id
            await until_parked_in(app.get(run_id), "receive:deployed")
        await time.advance("10s")
        async with Stepfast(database, workflows=[after], worker=PATIENT, clock=time.clock) as app:
            await app.get(run_id).signal("deployed")
            await asyncio.wait_for(replayed(app.get(run_id), time), 20)
    assert len(seen) == 2
    assert seen[0] == seen[1]


async def test_a_def_workflow_draws_too(database):
    @workflow
    def flow() -> float:
        return durable.random()

    async with app_on(database, [flow]) as app:
        first, second = await app.start(flow), await app.start(flow)
        assert 0 <= await first < 1
        assert await first != await second


async def test_the_current_run_is_known_in_workflow_and_step(database):
    @step
    async def inside() -> str:
        return current_run().id

    @workflow
    async def flow() -> list[str]:
        return [current_run().id, current_run().tenant, await inside()]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow, tenant="acme")
        assert await run == [run.id, "acme", run.id]


def test_outside_a_workflow_nothing_starts_over_and_no_plain_function_is_named():
    with pytest.raises(WrongCall, match="only that can start over"):
        continue_as()


def test_outside_a_run_these_calls_are_refused():
    for call in (durable.now, durable.uuid, durable.random, current_run):
        with pytest.raises(WrongCall):
            call()


KEYS: list[str] = []


@step(retry=Retry(attempts=1))
async def charge(key: str, chance: float) -> str:
    KEYS.append(key)
    if len(KEYS) == 1:
        raise OSError("the bank is away")
    return key


@step(retry=Retry(attempts=1))
async def ship(key: str) -> str:
    if len(KEYS) < 3:
        KEYS.append("away")
        raise OSError("the carrier is away")
    return key


@workflow
async def order() -> str:
    key = str(durable.uuid())
    await charge(key, durable.random())
    return await ship(key)


@workflow
def order_in_a_thread() -> str:
    key = str(durable.uuid())
    charge.sync(key, durable.random())
    return ship.sync(key)


@pytest.fixture
def keys():
    yield KEYS
    KEYS.clear()


@pytest.mark.parametrize("code", [order, order_in_a_thread], ids=["async", "def"])
async def test_ids_stay_the_same_when_a_run_is_retried_and_are_others_when_it_is_done_again(database, keys, code):
    async with engine(database=database, workflows=[code]) as opened:
        run = await opened.start(code)
        for _ in range(2):
            await opened.run_until_idle()
            await run.retry()
        assert (await opened.app.check()).verdicts == {Verdict.FITS: 1}
        assert await opened.result(run) == keys[0]
        assert keys == [keys[0], keys[0], "away"]
        await run.rerun(from_step="ship")
        assert await opened.result(run) == keys[0]
        await run.rerun()
        assert await opened.result(run) not in keys[:2]


async def test_ids_of_a_run_that_goes_on_after_a_retry_fit_what_is_recorded(database, keys):
    @workflow
    async def order() -> str:
        key = str(durable.uuid())
        await charge(key, durable.random())
        await receive("paid")
        return key

    async with engine(database=database, workflows=[order]) as opened:
        run = await opened.start(order)
        await opened.run_until_idle()
        await run.retry()
        await opened.run_until_idle()
        await run.signal("paid")
        recording = await record(run)
        assert await opened.result(run) == keys[0]
        assert (await replay(order, recording)).verdict is Verdict.FITS


async def test_ids_are_others_in_each_life_that_continue_as_begins(database):
    @workflow
    async def order(seen: list[str]) -> list[str]:
        seen = [*seen, str(durable.uuid())]
        if len(seen) < 3:
            continue_as(seen)
        return seen

    async with engine(database=database, workflows=[order]) as opened:
        assert len(set(await opened.run(order, []))) == 3


async def test_the_broken_twin_that_draws_anew_in_each_generation_charges_twice(database, keys, monkeypatch):
    monkeypatch.setattr(HeldRun, "epoch", property(lambda run: run.generation, lambda run, epoch: None))
    async with engine(database=database, workflows=[order]) as opened:
        run = await opened.start(order)
        for _ in range(2):
            await opened.run_until_idle()
            await run.retry()
        await opened.run_until_idle()
        assert len({*keys} - {"away"}) == 3
