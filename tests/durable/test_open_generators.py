"""Generators and context managers that workflow code holds when it waits or ends: their `finally` is part of it."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from stepfast import Later, RunState, continue_as, race, receive, sleep, step, workflow
from stepfast.testing import engine
from stepfast.workflows import perform
from stepfast.workflows.loop import RunLoop

RELEASED: list[str] = []


@pytest.fixture(autouse=True)
def released():
    yield RELEASED
    RELEASED.clear()


@step
def release(what: str) -> str:
    RELEASED.append(what)
    return what


@step
async def give(number: int) -> int:
    return number


def pages() -> Iterator[int]:
    try:
        for number in range(3):
            yield give.sync(number)
    finally:
        release("pages")


async def pages_later() -> AsyncIterator[int]:
    try:
        for number in range(3):
            yield await give(number)
    finally:
        await release.aio("pages")


@contextlib.contextmanager
def lease() -> Iterator[None]:
    try:
        yield
    finally:
        release("lease")


@workflow
def reads_a_generator() -> int:
    source, found = pages(), 0
    for number in source:
        sleep("1m")
        found += number
    return found


@workflow
def enters_by_hand() -> int:
    held = lease()
    held.__enter__()
    sleep("1m")
    sleep("1m")
    held.__exit__(None, None, None)
    return 3


@workflow
def returns_with_it_open() -> int:
    source = pages()
    next(source)
    sleep("1m")
    return 3


@workflow
async def reads_an_async_generator() -> int:
    source, found = pages_later(), 0
    async for number in source:
        await sleep("1m")
        found += number
    return found


@workflow
async def returns_from_a_loop() -> int:
    async for number in pages_later():
        await sleep("1m")
        return number + 3
    return 0


@workflow
async def returns_with_it_held() -> int:
    source = pages_later()
    await anext(source)
    return 3


@workflow
def raises_with_it_open() -> int:
    source = pages()
    for _ in source:
        raise ValueError("no such page")
    return 0


@workflow
async def raises_in_a_loop() -> int:
    async for _ in pages_later():
        await sleep("1m")
        raise ValueError("no such page")
    return 0


@workflow
async def starts_over(lives: int) -> int:
    async for _ in pages_later():
        if lives < 3:
            continue_as(lives + 1)
        return 3
    return 0


RETURNING: list[Any] = [
    reads_a_generator,
    enters_by_hand,
    returns_with_it_open,
    reads_an_async_generator,
    returns_from_a_loop,
    returns_with_it_held,
]
RAISING: list[Any] = [raises_with_it_open, raises_in_a_loop]


async def steps_of(run: Any, name: str) -> list[str]:
    return [view.state for view in await run.steps() if view.call.name == name]


@pytest.mark.parametrize("code", RETURNING, ids=str)
async def test_a_generator_that_is_open_when_its_run_waits_is_closed_once_at_its_end(database, released, code):
    async with engine(database=database, workflows=[code]) as opened:
        run = await opened.start(code)
        await opened.run_until_idle()
        assert await opened.result(run) == 3
        gc.collect()
        assert (len(released), await steps_of(run, "release")) == (1, ["completed"])


@pytest.mark.parametrize("code", RAISING, ids=str)
async def test_a_generator_that_is_open_when_its_code_raises_is_closed_before_the_run_ends(database, released, code):
    async with engine(database=database, workflows=[code]) as opened:
        run = await opened.start(code)
        with pytest.raises(Exception, match="no such page"):
            await opened.result(run)
        gc.collect()
        assert (len(released), await steps_of(run, "release")) == (1, ["completed"])
        events = [event.type for event in await opened.events(run)]
        assert events[-1] == "failed"


HELD: list[Any] = []


async def first_page() -> int:
    HELD.append(pages_later())
    return await anext(HELD[-1])


@workflow
def holds_one_that_a_branch_has_opened() -> str:
    name, _ = race.sync(page=first_page)
    return name


async def test_a_thread_that_has_ended_does_not_keep_what_it_held_from_being_closed(database, released):
    async with engine(database=database, workflows=[holds_one_that_a_branch_has_opened]) as opened:
        run = await opened.start(holds_one_that_a_branch_has_opened)
        assert await opened.result(run) == "page"
        HELD.clear()
        assert (released, await steps_of(run, "release")) == (["pages"], ["completed"])


async def test_each_life_of_a_run_closes_what_it_has_left_open(database, released):
    async with engine(database=database, workflows=[starts_over]) as opened:
        run = await opened.start(starts_over, 1)
        assert await opened.result(run) == 3
        assert len(released) == 3


async def test_what_a_generator_waits_for_as_it_is_closed_is_waited_for(database):
    async def slow() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await receive("on")
            await release.aio("slow")

    @workflow
    async def leaves() -> int:
        async for number in slow():
            return number
        return 0

    async with engine(database=database, workflows=[leaves]) as opened:
        run = await opened.start(leaves)
        await opened.run_until_idle()
        assert (await run.info()).state is RunState.WAITING
        await run.signal("on")
        assert await opened.result(run) == 1
        assert await steps_of(run, "release") == ["completed"]


async def test_a_cancelled_run_closes_nothing(database, released):
    async with engine(database=database, workflows=[reads_a_generator, reads_an_async_generator]) as opened:
        for code in (reads_a_generator, reads_an_async_generator):
            run = await opened.start(code)
            await opened.run_until_idle()
            await run.cancel()
        await opened.run_until_idle()
        gc.collect()
        assert released == []


async def test_a_run_that_is_put_off_closes_what_it_holds_each_time_the_code_ends(database, released):
    tries = []

    @workflow
    async def comes_too_early() -> int:
        async for number in pages_later():
            tries.append(number)
            if len(tries) < 3:
                raise Later("1m")
            return number
        return 0

    async with engine(database=database, workflows=[comes_too_early]) as opened:
        assert await opened.run(comes_too_early) == 0
        assert len(released) == 1


async def test_parks_beside_generators_say_nothing_to_anybody(database, released, monkeypatch):
    said: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    async with engine(database=database, workflows=RETURNING) as opened:
        for code in RETURNING:
            assert await opened.run(code) == 3
    gc.collect()
    assert said == []


async def test_the_broken_twin_that_holds_on_to_frames_does_steps_outside_of_the_run(database, released, monkeypatch):
    monkeypatch.setattr(perform, "let_go", lambda error: None)
    async with engine(database=database, workflows=[reads_a_generator]) as opened:
        assert await opened.run(reads_a_generator) == 3
        gc.collect()
        assert len(released) > 1


async def test_the_broken_twin_that_closes_no_generator_ends_without_its_finally(database, released, monkeypatch):
    monkeypatch.setattr(RunLoop, "close_generators", lambda *_: False)
    async with engine(database=database, workflows=[returns_from_a_loop]) as opened:
        assert await opened.run(returns_from_a_loop) == 3
        assert released == []
