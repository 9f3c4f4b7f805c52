"""Signals are kept until they are taken, also over an end of the run that a person opens again."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Retry, RunFailed, RunState, receive, step, workflow
from stepfast.stores.sqlite import saving
from stepfast.testing import engine
from tests.support.guards import rewrite

OUTAGE: list[str] = []


@pytest.fixture
def outage():
    OUTAGE.append("away")
    yield OUTAGE
    OUTAGE.clear()


@step(retry=Retry(attempts=1))
async def reserve() -> str:
    if OUTAGE:
        raise OSError(OUTAGE[0])
    return "reserved"


@workflow
async def sale() -> str:
    return f"{await reserve()}, {await receive('paid', str)}"


@workflow
def sale_in_a_thread() -> str:
    reserved = reserve.sync()
    paid: Any = receive("paid", str)
    return f"{reserved}, {paid}"


async def retry(run) -> None:
    await run.retry()


async def rerun(run) -> None:
    await run.rerun()


@pytest.mark.parametrize("opened_again", [retry, rerun])
@pytest.mark.parametrize("code", [sale, sale_in_a_thread], ids=["async", "def"])
async def test_a_signal_that_came_before_the_run_failed_is_there_when_it_goes_on(database, outage, code, opened_again):
    async with engine(database=database, workflows=[code]) as opened:
        run = await opened.start(code, delay="1m")
        await run.signal("paid", "in full", key="payment-1")
        with pytest.raises(RunFailed):
            await opened.result(run)
        outage.clear()
        await opened_again(run)
        await run.signal("paid", "in full", key="payment-1")
        assert await opened.result(run) == "reserved, in full"


async def test_a_signal_that_came_before_the_run_failed_is_there_when_its_dead_letter_is_replayed(database, outage):
    async with engine(database=database, workflows=[sale]) as opened:
        run = await opened.start(sale, delay="1m")
        for value in ("in full", "once more"):
            await run.signal("paid", value)
        with pytest.raises(RunFailed):
            await opened.result(run)
        outage.clear()
        await opened.app.dead_letters.replay(run.id)
        assert await opened.result(run) == "reserved, in full"
        await run.rerun()
        assert await opened.result(run) == "reserved, once more"


async def test_the_broken_twin_that_empties_the_inbox_of_an_ended_run_waits_for_ever(database, outage, monkeypatch):
    text, kept = saving.SQL["delete_inboxes"], "\n   and kind <> 'signal'"
    assert kept in text
    monkeypatch.setitem(saving.SQL, "delete_inboxes", text.replace(kept, ""))
    await rewrite(database, "leave_lines", ("and m.kind <> 'signal' returning", "returning"))
    async with engine(database=database, workflows=[sale]) as opened:
        run = await opened.start(sale, delay="1m")
        await run.signal("paid", "in full")
        with pytest.raises(RunFailed):
            await opened.result(run)
        outage.clear()
        await run.retry()
        await opened.run_until_idle()
        assert (await run.info()).state is RunState.WAITING
