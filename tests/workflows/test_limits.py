"""Time limits, apart from runs: what is left for an attempt, and what becomes of a body that takes longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast.kernel.durations import Instant
from stepfast.testing import VirtualClock
from stepfast.workflows.limits import LEFT_BEHIND, Limit, Limits, OutOfTime, attempt_limit, run_within
from tests.support.turns import turn, until_idle

spans = st.none() | st.integers(1, 10**6)


@given(spans, spans, st.integers(0, 10**6))
def test_an_attempt_gets_the_shorter_of_its_own_time_and_what_is_left_of_all(attempt_ms, total_ms, passed):
    limit = attempt_limit(Limits(attempt_ms, total_ms), Instant(0), Instant(passed))
    left = [span for span in (attempt_ms, None if total_ms is None else max(total_ms - passed, 0)) if span is not None]
    assert (limit and limit.span_ms) == (min(left) if left else None)
    if limit is not None and total_ms is not None and passed + limit.span_ms >= total_ms:
        assert limit.is_final


async def within(span_ms: int, clock: VirtualClock, body) -> asyncio.Task[Any]:
    async def invoke(begun):
        begun()
        return await body()

    sleeps = asyncio.Event()
    clock.on_sleep = sleeps.set
    task = asyncio.create_task(run_within(Limit(span_ms, is_final=False), clock, invoke))
    await asyncio.wait({task, asyncio.create_task(sleeps.wait())}, return_when=asyncio.FIRST_COMPLETED)
    return task


async def test_a_body_in_time_gives_its_value_and_leaves_no_sleeper():
    clock, finish = VirtualClock(), asyncio.Event()
    task = await within(1_000, clock, finish.wait)
    clock.advance("999ms")
    finish.set()
    assert await task is True
    await until_idle()
    assert clock.spans_ahead_ms() == []


async def test_a_body_that_raises_gives_its_error():
    async def fails():
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await (await within(1_000, VirtualClock(), fails))


async def test_a_body_that_ends_the_process_ends_itself_alone():
    async def leaves():
        raise SystemExit(3)

    async def call():
        try:
            await run_within(Limit(1_000, is_final=False), VirtualClock(), invoke)
        except SystemExit as error:
            return error.code

    async def invoke(begun):
        begun()
        await leaves()

    assert await call() == 3


async def test_a_late_body_is_cancelled_and_awaited():
    clock, tidied = VirtualClock(), []

    async def tidies():
        try:
            await asyncio.Event().wait()
        finally:
            await turn()
            tidied.append(True)

    task = await within(1_000, clock, tidies)
    clock.advance("1s")
    with pytest.raises(OutOfTime):
        await task
    assert tidied == [True]


async def test_a_body_that_will_not_end_is_left_behind_until_it_does(monkeypatch):
    monkeypatch.setattr("stepfast.workflows.limits.UNWINDING_S", 0.01)
    clock, freed = VirtualClock(), asyncio.Event()

    async def stubborn():
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue

    task = await within(1_000, clock, stubborn)
    clock.advance("1s")
    with pytest.raises(OutOfTime):
        await task
    assert len(LEFT_BEHIND) == 1
    freed.set()
    await asyncio.gather(*LEFT_BEHIND)
    await until_idle()
    assert not LEFT_BEHIND


async def test_whoever_is_cancelled_while_waiting_takes_the_body_along():
    stopped = asyncio.Event()

    async def waits():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.set()
            raise

    task = await within(1_000, VirtualClock(), waits)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await stopped.wait()
