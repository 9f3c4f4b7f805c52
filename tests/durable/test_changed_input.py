"""A run whose stored input does not fit the code keeps all it has, and waits for code that fits."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import RunState, receive, step, workflow
from stepfast.testing import engine
from tests.support.apps import Bodies

BODIES = Bodies()


@step
async def charge(cents: int) -> str:
    BODIES.ran("charge")
    return f"receipt over {cents}"


@workflow(name="order")
async def order(cents: int) -> str:
    receipt = await charge(cents)
    return f"{receipt}, {await receive('paid', str)}"


@workflow(name="order")
async def order_of_another_type(cents: str) -> str:
    return await charge(int(cents))


@workflow(name="order")
async def order_with_more(cents: int, customer: str) -> str:
    return await charge(cents)


@workflow(name="order")
def order_by_another_name(price: int) -> str:
    return charge.sync(price)


CHANGED = [order_of_another_type, order_with_more, order_by_another_name]


@pytest.mark.parametrize("changed", CHANGED, ids=["type", "more", "name"])
async def test_it_waits_for_code_that_fits_and_goes_on_with_it(database, changed: Any):
    BODIES.clear()
    async with engine(database=database, workflows=[order]) as opened:
        run = await opened.start(order, 4_900)
        await opened.run_until_idle()
        await opened.signal(run, "paid", "in full")
    async with engine(database=database, workflows=[changed]) as opened:
        await opened.run_until_idle()
        waiting = opened.app.get(run.id)
        assert (await waiting.info()).state is RunState.WAITING
        why = str(await waiting.why())
        assert "waits for code of order@1 that fits: The stored input does not fit" in why
        assert "rollback" not in why
        assert "let a parameter keep its name and type" in why
    async with engine(database=database, workflows=[order]) as opened:
        assert await opened.result(opened.app.get(run.id)) == "receipt over 4900, in full"
    assert BODIES == {"charge": 1}


async def test_a_person_has_it_look_at_the_code_again_and_it_keeps_what_it_has(database):
    BODIES.clear()
    async with engine(database=database, workflows=[order]) as opened:
        run = await opened.start(order, 4_900)
        await opened.run_until_idle()
        await opened.signal(run, "paid", "in full")
    async with engine(database=database, workflows=[order_with_more]) as opened:
        await opened.run_until_idle()
        waiting = opened.app.get(run.id)
        assert f"`stepfast runs retry {run.id}`" in str(await waiting.why())
        assert (await waiting.retry(actor="ann")).state is RunState.RUNNING
        await opened.run_until_idle()
        info = await waiting.info()
        assert (info.state, info.generation) == (RunState.WAITING, 1)
        told = [event.type for event in await waiting.history()]
        assert told[-5:] == ["exception_resolved", "resumed", "claimed", "exception_opened", "waiting"]
        assert (await waiting.reconstruct()).differences == ()
    assert BODIES == {"charge": 1}


async def test_of_the_runs_that_wait_a_retry_of_many_takes_those_that_lack_code(database):
    async with engine(database=database, workflows=[order]) as opened:
        lacking, waiting = await opened.start(order, 1), await opened.start(order, 2)
        await opened.run_until_idle()
        await opened.signal(lacking, "paid", "in full")
    async with engine(database=database, workflows=[order_with_more]) as opened:
        await opened.run_until_idle()
        everything = await opened.app.change_many("retry", {})
        assert (everything.changed, everything.skipped, everything.refused) == ((), 2, ())
        answer = await opened.app.change_many("retry", {"state": RunState.WAITING})
        assert (answer.matched, answer.changed, answer.skipped, answer.refused) == (2, (lacking.id,), 1, ())
        assert (await opened.app.get(waiting.id).info()).state is RunState.WAITING


async def test_a_run_that_was_rolled_back_waits_for_code_no_more(database):
    async with engine(database=database, workflows=[order]) as opened:
        run = await opened.start(order, 4_900)
        await opened.run_until_idle()
        await opened.signal(run, "paid", "in full")
    async with engine(database=database, workflows=[order_with_more]) as opened:
        await opened.run_until_idle()
        taken_back = opened.app.get(run.id)
        await taken_back.rollback(to="charge")
        assert (await taken_back.reconstruct()).differences == ()
        assert await opened.app.exceptions.list() == []


@workflow(name="order", version=2)
async def order_of_a_customer(cents: int, customer: str) -> str:
    return await charge(cents)


async def test_one_that_was_begun_anew_under_a_version_that_it_does_not_fit_is_shown_the_way_back(database):
    BODIES.clear()
    async with engine(database=database, workflows=[order, order_of_a_customer]) as opened:
        run = await opened.start(order, 4_900)
        await opened.run_until_idle()
        await opened.signal(run, "paid", "in full")
        assert await opened.result(run) == "receipt over 4900, in full"
        await run.rerun(version=2)
        await opened.run_until_idle()
        assert f"`stepfast runs cancel {run.id}`, then `stepfast runs rerun {run.id} --version" in str(await run.why())
        await run.cancel()
        await run.rerun(version=1)
        await opened.signal(run, "paid", "again")
        assert await opened.result(run) == "receipt over 4900, again"
