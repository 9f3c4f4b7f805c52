"""Signals are kept until they are taken, also over an end of the run that a person opens again."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from stepfast import (
    Invalid,
    Retry,
    RunFailed,
    RunState,
    continue_as,
    current_run,
    each,
    race,
    receive,
    step,
    workflow,
)
from stepfast.stores.sqlite import saving
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.wait_calls import ReceiveCall
from tests.faults.test_crash_points import emptied
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


@workflow
async def first_of_two(heard: list[str]) -> list[str]:
    name, _ = await race(one=receive("one"), two=receive("two"))
    if not heard:
        continue_as([name])
    return [*heard, name]


@workflow
def first_of_two_in_a_thread(heard: list[str]) -> list[str]:
    name, _ = race.sync(one=lambda: receive("one"), two=lambda: receive("two"))
    if not heard:
        continue_as([name])
    return [*heard, name]


async def wait_for(name: str) -> str:
    await receive(name)
    return name


@workflow
async def any_of_two(heard: list[str]) -> list[str]:
    heard = [*heard, await each(wait_for, ["one", "two"], join="any")]
    if len(heard) == 1:
        continue_as(heard)
    return heard


@workflow
async def left_behind(heard: list[str]) -> list[str]:
    left = asyncio.create_task(wait_for("two"))
    one = await receive("one")
    if not heard:
        continue_as(["again"])
    return [*heard, one, await left]


LOSERS: list[Any] = [first_of_two, first_of_two_in_a_thread, any_of_two]


async def heard_by(opened: Engine, code: Any, *signals: str) -> Any:
    """A run that looks when these signals have come."""
    run = await opened.start(code, [])
    for name in signals:
        await opened.signal(run, name, name)
    await opened.run_until_idle()
    return run


@pytest.mark.parametrize("code", LOSERS, ids=["async", "def", "each"])
async def test_what_came_for_a_receive_that_lost_is_there_when_the_code_starts_over(database, code):
    async with engine(database=database, workflows=LOSERS) as opened:
        run = await heard_by(opened, code, "one", "two")
        assert await opened.result(run) == ["one", "two"]


@pytest.mark.parametrize("code", LOSERS, ids=["async", "def", "each"])
async def test_the_first_of_several_that_are_there_is_the_one_that_came_first(database, code):
    async with engine(database=database, workflows=LOSERS) as opened:
        run = await heard_by(opened, code, "two", "one")
        assert await opened.result(run) == ["two", "one"]


async def test_what_came_for_a_branch_that_the_code_left_is_there_when_it_starts_over(database):
    async with engine(database=database, workflows=[left_behind]) as opened:
        run = await heard_by(opened, left_behind, "one", "two", "one")
        assert await opened.result(run) == ["again", "one", "two"]


@workflow
async def one_of_two() -> str:
    name, value = await race(one=receive("one"), two=receive("two"))
    return f"{name}: {value}"


async def test_what_came_for_a_receive_that_lost_is_there_when_the_run_is_done_again(database):
    async with engine(database=database, workflows=[one_of_two]) as opened:
        run = await opened.start(one_of_two, delay="1m")
        for name in ("one", "two"):
            await run.signal(name, "hello")
        assert await opened.result(run) == "one: hello"
        await run.rerun()
        assert await opened.result(run) == "two: hello"
        await run.rerun()
        await opened.run_until_idle()
        assert (await run.info()).state is RunState.WAITING


async def race_and_start_over(opened: Engine) -> list[str]:
    """Two signals, each for one life of a run; told of once, whoever heard them."""
    run = await heard_by(opened, first_of_two, "one", "two")
    heard: list[str] = await opened.result(run)
    told = [event.type for event in await opened.events(run)].count("signalled")
    assert told == 2, f"P16: two signals are told of {told} times."
    return heard


async def test_what_came_for_a_receive_that_lost_outlasts_a_death_at_every_store_call(database):
    databases = {} if database.startswith("sqlite") else {"databases": emptied(database)}
    tried = await crash_points(race_and_start_over, workflows=[first_of_two], **databases)
    assert len(tried.points) > 3


@pytest.mark.parametrize("code", LOSERS, ids=["async", "def", "each"])
async def test_the_broken_twin_that_uses_up_what_nobody_has_heard_waits_for_ever(database, code, monkeypatch):
    monkeypatch.setattr(ReceiveCall, "is_heard_first", False)
    async with engine(database=database, workflows=LOSERS) as opened:
        run = await heard_by(opened, code, "one", "two")
        assert (await run.info()).state is RunState.WAITING


async def test_the_broken_twin_that_never_uses_up_what_was_heard_hears_it_twice(database, monkeypatch):
    monkeypatch.setattr(ReceiveCall, "heard", lambda *_: None)
    async with engine(database=database, workflows=[first_of_two]) as opened:
        run = await heard_by(opened, first_of_two, "one", "two")
        assert await opened.result(run) == ["one", "one"]


@step
async def bring(*names: str) -> None:
    for name in names:
        await HERE[0].app.get(current_run().id).signal(name, name, reason="as asked")


HERE: list[Engine] = []


@workflow
async def brought_while_held(lives: int) -> str:
    if lives == 1:
        await bring("two", "one")
    name, _ = await race(one=receive("one"), two=receive("two"))
    if lives == 1:
        continue_as(2)
    return name


async def test_a_signal_that_came_while_a_worker_had_the_run_is_told_of_once(database):
    async with engine(database=database, workflows=[brought_while_held]) as opened:
        HERE[:] = [opened]
        run = await opened.start(brought_while_held, 1)
        assert await opened.result(run) == "one"
        told = [json.loads(event.data or "null") for event in await opened.events(run) if event.type == "signalled"]
        assert [(signal["name"], signal["reason"]) for signal in told] == [("two", "as asked"), ("one", "as asked")]


@workflow
async def numbers_and_words() -> list[Any]:
    first = await race(one=receive("one", int), two=receive("two", int))
    return [*first, await receive("two", str)]


async def test_a_signal_that_lost_and_would_not_have_fitted_is_there_for_one_that_it_fits(database):
    async with engine(database=database, workflows=[numbers_and_words]) as opened:
        run = await opened.start(numbers_and_words)
        await opened.signal(run, "one", 1)
        await opened.signal(run, "two", "abc")
        assert await opened.result(run) == ["one", 1, "abc"]


@workflow
async def first_that_fits() -> list[Any]:
    found: list[Any] = []
    while not found:
        with suppress(Invalid):
            found.append(await receive("one", int))
    return found


async def test_a_signal_that_does_not_fit_is_used_up_by_the_receive_that_says_so(database):
    async with engine(database=database, workflows=[first_that_fits]) as opened:
        run = await opened.start(first_that_fits)
        await opened.signal(run, "one", "abc")
        await opened.run_until_idle()
        await opened.signal(run, "one", 1)
        assert await opened.result(run) == [1]
        await run.rerun()
        await opened.run_until_idle()
        assert (await run.info()).state is RunState.WAITING
