"""Several waits whose time has passed while no worker was there: they end in the order of their moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepfast import Later, WaitTimeout, each, race, receive, sleep, step, timeout, workflow
from stepfast.kernel.decisions import CallId, Message, OpenWait
from stepfast.kernel.durations import Instant
from stepfast.kernel.states import RunState, WaitKind
from stepfast.testing import crash_points
from stepfast.workflows.alarms import Alarms
from stepfast.workflows.child_calls import ChildrenCall
from stepfast.workflows.mailbox import Mailbox, Waiter
from tests.support.apps import Bodies
from tests.support.virtual_time import Time, timed_app, until

BODIES = Bodies()


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


async def late_or_word(name: str, limit: str) -> str:
    try:
        return await receive(name, str, timeout=limit)
    except WaitTimeout:
        return "late"


@workflow
async def paid_beside_a_receive() -> str:
    return (await asyncio.gather(paid_in_time_of_one_hour(), late_or_word("other", "30m")))[0]


@workflow
async def paid_beside_a_sleep() -> str:
    return (await asyncio.gather(paid_in_time_of_one_hour(), sleep("30m")))[0]


@workflow
async def paid_twice() -> str:
    return (await asyncio.gather(late_or_word("paid", "60m"), late_or_word("other", "30m")))[0]


@workflow
def paid_beside_a_receive_of_def() -> str:
    calls = {"paid": paid_in_time_of_one_hour, "other": lambda: late_or_word("other", "30m")}
    found: list[str] = each.sync(lambda name: calls[name](), ["paid", "other"])
    return found[0]


async def paid_in_time_of_one_hour() -> str:
    name, _ = await race(paid=receive("paid", str), late=sleep("1h"))
    return name


FLOWS = [
    *(paid_or_late, paid_in_time, paid_beside_a_receive, paid_beside_a_sleep, paid_twice),
    paid_beside_a_receive_of_def,
]

EXPECTED = {
    slow_and_fast: "fast",
    slow_and_fast_of_def: "fast",
    timer_and_limit: "No signal 'never' came within 1s.",
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


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("comes", ["in time", "too late"])
async def test_a_signal_goes_before_a_timer_if_it_came_before(database, flow, comes):
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        while (await run.info()).state is not RunState.WAITING:
            pass
        await run.pause()
        await time.advance("59m" if comes == "in time" else "61m")
        await run.signal("paid", "paid")
        await time.advance("2h")
        await run.resume()
        assert await time.result(run) == ("paid" if comes == "in time" else "late")


async def within(limit: str, name: str) -> str:
    try:
        async with timeout(limit):
            return await receive(name, str)
    except WaitTimeout:
        return "late"


@workflow
async def two_who_wait() -> list[str]:
    return [*await asyncio.gather(within("20m", "word"), late_or_word("word", "60m"))]


@workflow
async def two_who_race() -> list[str]:
    async def until_an_hour() -> str:
        name, _ = await race(word=receive("word", str), late=sleep("60m"))
        return name

    return [*await asyncio.gather(within("20m", "word"), until_an_hour())]


@workflow
def two_who_wait_of_def() -> list[str]:
    calls = {"first": lambda: within("20m", "word"), "second": lambda: late_or_word("word", "60m")}
    found: list[str] = each.sync(lambda name: calls[name](), ["first", "second"])
    return found


@pytest.mark.parametrize("flow", [two_who_wait, two_who_race, two_who_wait_of_def])
async def test_what_was_called_off_gets_nothing_that_came_later(database, flow):
    """All of it is past when somebody looks: the first limit, then the signal, then the second limit."""
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        while (await run.info()).state is not RunState.WAITING:
            pass
        await run.pause()
        await time.advance("40m")
        await run.signal("word", "word")
        await time.advance("60m")
        await run.resume()
        assert await time.result(run) == ["late", "word"]


@workflow
async def slow_child() -> str:
    await sleep("50m")
    return "child"


@workflow
async def child_or_late() -> str:
    name, _ = await race(child=slow_child(), late=sleep("1h"))
    return name


@workflow
async def child_or_no_word() -> str:
    name, _ = await race(child=slow_child(), late=late_or_word("word", "1h"))
    return name


@pytest.mark.parametrize("flow", [child_or_late, child_or_no_word])
@pytest.mark.parametrize("ends", ["in time", "too late"])
async def test_a_child_goes_before_a_timer_if_it_ended_before(database, flow, ends):
    async with timed_app(database, flow, slow_child) as (app, time):
        run = await app.start(flow)
        while [view.state for view in await app.runs()] != [RunState.WAITING] * 2:
            pass
        await run.pause()
        await time.advance("55m" if ends == "in time" else "61m")
        child = next(view.run_id for view in await app.runs() if view.run_id != run.id)
        await time.result(app.get(child))
        await time.advance("2h")
        await run.resume()
        assert await time.result(run) == ("child" if ends == "in time" else "late")


async def test_twin_that_takes_children_whenever_they_ended_lets_a_late_one_win(database, monkeypatch):
    monkeypatch.setattr(ChildrenCall, "_decided_at", lambda call, ended: Instant(0))
    with pytest.raises(AssertionError, match="'child' == 'late'"):
        await test_a_child_goes_before_a_timer_if_it_ended_before(database, child_or_late, "too late")


def who_gets_what_came_between() -> list[str]:
    """Who ends how: a timer is over, then a word comes, then the second who waits for it is out of time.

    The code calls the first off when it hears of the timer. The later alarm rings first.
    """
    moments: dict[str, int | None] = {"timer": 20, "first": None, "second": 60}
    waits = {
        name: OpenWait(n, WaitKind.SIGNAL, name, None if at is None else Instant(at), 1, 0, 1, 0, 0)
        for n, (name, at) in enumerate(moments.items(), start=1)
    }
    mailbox, ended = Mailbox([], [Message(1, "signal", "word", None, None, Instant(40), True)]), list[str]()

    def end(name: str, how: str) -> None:
        if any(told.startswith(name) for told in ended):
            return
        ended.append(f"{name} {how}")
        mailbox.forget(waits[name].wait_id)
        mailbox.note_end(CallId("", name, 1), Instant(100))
        mailbox.go_on()

    def look(name: str) -> None:
        if mailbox.take("signal", "word", waits[name].due_at) is not None:
            end(name, "has it")

    for name, wait in waits.items():
        mailbox.await_(wait, Waiter(partial(look, name) if name != "timer" else lambda: None))
    mailbox.let_look()
    for name in ("second", "timer"):
        mailbox.ring(waits[name], partial(end, name, "is over"))
    mailbox.forget(waits["first"].wait_id)
    mailbox.unheard = None
    mailbox.go_on()
    return ended


def test_what_came_later_is_decided_when_the_code_has_heard_of_what_came_before():
    assert who_gets_what_came_between() == ["timer is over", "second has it"]


def test_twin_that_decides_all_that_is_past_at_once_gives_it_to_who_was_called_off(monkeypatch):
    monkeypatch.setattr(Mailbox, "note_end", lambda mailbox, call, now: None)
    assert "first has it" in who_gets_what_came_between()


def ends_beside_a_late_signal() -> list[str]:
    """The order in which two timers and a signal that came behind both end, where the later timer rings first."""
    moments: dict[str, int | None] = {"early timer": 3, "late timer": 4, "signal": None}
    waits = {
        name: OpenWait(n, WaitKind.SIGNAL, name, None if at is None else Instant(at), 1, 0, 1, 0, 0)
        for n, (name, at) in enumerate(moments.items(), start=1)
    }
    mailbox, ended = Mailbox([], [Message(1, "signal", "word", None, None, Instant(5), True)]), list[str]()

    def end(name: str) -> None:
        ended.append(name)
        mailbox.forget(waits[name].wait_id)
        mailbox.go_on()

    def look() -> None:
        if mailbox.take("signal", "word", None) is not None:
            end("signal")

    for name, wait in waits.items():
        mailbox.await_(wait, Waiter(look if name == "signal" else lambda: None))
    mailbox.let_look()
    for name in ("late timer", "early timer"):
        mailbox.ring(waits[name], partial(end, name))
    return ended


def test_a_signal_waits_for_alarms_that_have_rung_and_not_ended():
    assert ends_beside_a_late_signal() == ["early timer", "late timer", "signal"]


def test_twin_that_forgets_alarms_that_have_rung_lets_a_late_signal_win(monkeypatch):
    monkeypatch.setattr(Alarms, "next_at", Alarms.first_at)
    assert ends_beside_a_late_signal()[-1] != "signal"


@workflow
async def limit_of_the_same_time() -> str:
    try:
        async with timeout("1h"):
            await sleep("1h")
    except WaitTimeout:
        return "limit"
    return "sleep"


@workflow
def limit_of_the_same_time_of_def() -> str:
    try:
        with timeout("1h"):
            sleep("1h")
    except WaitTimeout:
        return "limit"
    return "sleep"


@pytest.mark.parametrize("flow", [limit_of_the_same_time, limit_of_the_same_time_of_def])
@pytest.mark.parametrize("is_late", [False, True], ids=["live", "late"])
async def test_of_two_that_are_over_in_one_moment_that_ends_first_which_was_set_first(database, flow, is_late):
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        while (await run.info()).state is not RunState.WAITING:
            pass
        if is_late:
            await run.pause()
        await time.advance("1h" if not is_late else "2h")
        if is_late:
            await run.resume()
        assert await time.result(run) == "limit"


@step
async def puts_itself_off() -> None:
    BODIES.ran("puts_itself_off")
    raise Later("100ms")


async def within_a_second() -> str:
    try:
        async with timeout("1s"):
            await puts_itself_off()
    except WaitTimeout:
        return "late"
    return "not reached"


@workflow
async def put_off_within_a_limit() -> str:
    return await within_a_second()


@workflow
async def put_off_against_time() -> str:
    name, _ = await race(work=puts_itself_off(), late=sleep("1s"))
    return name


@workflow
def put_off_within_a_limit_of_def() -> str:
    try:
        with timeout("1s"):
            puts_itself_off.sync()
    except WaitTimeout:
        return "late"
    return "not reached"


PUT_OFF = [put_off_within_a_limit, put_off_against_time, put_off_within_a_limit_of_def]


@asynccontextmanager
async def put_off_until_late(database: str, flow: Any) -> AsyncIterator[tuple[Any, Time]]:
    """A run whose limit is over while it is put off, when the next holder takes it up."""
    BODIES.clear()
    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        while not any(event.type == "handed_back" for event in await run.history()):
            pass
        await time.advance("2s")
        yield run, time


@pytest.mark.parametrize("flow", PUT_OFF)
async def test_a_step_whose_time_is_over_is_not_begun(database, flow):
    async with put_off_until_late(database, flow) as (run, time):
        assert await time.result(run) == "late"
    assert BODIES["puts_itself_off"] == 1


async def test_twin_that_begins_steps_beside_late_timers_runs_the_body_again(database, monkeypatch):
    monkeypatch.setattr(Mailbox, "is_late", lambda mailbox, wait, now: False)
    async with put_off_until_late(database, put_off_within_a_limit) as (run, _):
        await until(run, lambda: BODIES["puts_itself_off"] == 2)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_alarms_that_have_all_rung_are_heard_in_the_order_of_their_moments(moments, order):
    waits = [OpenWait(n, WaitKind.TIME, "sleep", Instant(at), 1, 0, 1, 0, 0) for n, at in enumerate(moments, start=1)]
    mailbox, ended = Mailbox([], []), list[int]()
    for wait in waits:
        mailbox.await_(wait, Waiter(lambda: None))

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
        alarms.give_turns()
    assert ended == [2, 1]
