"""Several waits whose time has passed while no worker was there: they end in the order of their moments."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast import WaitTimeout, race, receive, sleep, timeout, workflow
from stepfast.kernel.decisions import OpenWait
from stepfast.kernel.durations import Instant
from stepfast.kernel.states import RunState, WaitKind
from stepfast.testing import crash_points
from stepfast.workflows.alarms import Alarms
from stepfast.workflows.mailbox import Mailbox
from tests.support.virtual_time import timed_app


@workflow
async def slow_and_fast() -> str:
    name, _ = await race(slow=sleep("3s"), fast=sleep("1s"))
    return name


@workflow
async def timer_and_limit() -> str:
    try:
        async with timeout("3s"):
            await receive("never", timeout="1s")
    except WaitTimeout as error:
        return str(error)
    return "not reached"


@workflow
def slow_and_fast_of_def() -> str:
    return race.sync(slow=lambda: sleep("3s"), fast=lambda: sleep("1s"))[0]


@workflow
async def paid_or_late() -> str:
    name, _ = await race(paid=receive("paid", str), late=sleep("1h"))
    return name


@workflow
async def paid_in_time() -> str:
    try:
        async with timeout("1h"):
            return await receive("paid", str)
    except WaitTimeout:
        return "late"


EXPECTED = {
    slow_and_fast: "fast",
    slow_and_fast_of_def: "fast",
    timer_and_limit: "No signal 'never' came within 1000 ms.",
}


@pytest.mark.parametrize(("flow", "expected"), EXPECTED.items(), ids=lambda flow: getattr(flow, "__name__", ""))
async def test_what_was_over_first_ends_first_whenever_the_process_dies(flow, expected):
    async def scenario(opened):
        result = await opened.run(flow)
        assert result == expected
        return result

    await crash_points(scenario, workflows=[flow])


async def test_twin_without_turns_a_crash_changes_what_was_over_first(monkeypatch):
    monkeypatch.setattr(Alarms, "ring", lambda alarms, wait, end: end())
    monkeypatch.setattr(Mailbox, "by_time", lambda mailbox, calls: calls)

    async def scenario(opened):
        return await opened.run(slow_and_fast)

    with pytest.raises(AssertionError, match="changed the result: 'slow'"):
        await crash_points(scenario, workflows=[slow_and_fast])


@pytest.mark.parametrize(("flow", "late"), [(paid_or_late, "late"), (paid_in_time, "late")])
@pytest.mark.parametrize("comes", ["in time", "too late"])
async def test_a_signal_goes_before_a_timer_if_it_came_before(database, flow, late, comes):
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        while (await run.info()).state is not RunState.WAITING:
            pass
        await run.pause()
        await time.advance("59m" if comes == "in time" else "61m")
        await run.signal("paid", "paid")
        await time.advance("2h")
        await run.resume()
        assert await time.result(run) == ("paid" if comes == "in time" else late)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_alarms_that_have_all_rung_are_heard_in_the_order_of_their_moments(moments, order):
    waits = [OpenWait(n, WaitKind.TIME, "sleep", Instant(at), 1, 0, 1, 0, 0) for n, at in enumerate(moments, start=1)]
    mailbox, ended = Mailbox([], []), list[int]()
    for wait in waits:
        mailbox.await_(wait, lambda: None)

    def end(wait: OpenWait) -> None:
        ended.append(wait.due_at or 0)
        mailbox.forget(wait.wait_id)
        mailbox.go_on()

    for wait in order.sample(waits, len(waits)):
        mailbox.ring(wait, partial(end, wait))
    assert ended == sorted(moments)


def test_an_alarm_that_this_process_set_too_early_keeps_nobody_waiting():
    alarms, ended = Alarms({1, 2}), list[int]()
    alarms.set(1, Instant(10))
    alarms.set(2, Instant(12))
    alarms.move(1, Instant(15))
    for wait_id, due_at in ((2, 12), (1, 15)):
        wait = OpenWait(wait_id, WaitKind.TIME, "sleep", Instant(due_at), 1, 0, 1, 0, 0)
        alarms.ring(wait, partial(ended.append, wait_id))
    assert ended == [2, 1]
