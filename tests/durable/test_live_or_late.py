"""A run that nobody looked at for a while comes to what it would have come to: all goes by the stored moments."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from stepfast import IllegalMove, RunFailed, WaitTimeout, each, race, receive, sleep, step, timeout, workflow
from stepfast.kernel.decisions import Message, OpenWait
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Delivery
from stepfast.kernel.ids import RunId
from stepfast.kernel.states import WaitKind
from stepfast.testing import Engine, engine
from stepfast.workflows import child_calls, context
from stepfast.workflows.alarms import Alarms
from stepfast.workflows.child_calls import ChildrenCall
from stepfast.workflows.context import RunContext
from stepfast.workflows.mailbox import Mailbox, Waiter
from stepfast.workflows.wait_calls import WaitCall
from tests.support.turns import turn

Program = tuple[Any, ...]
Signals = dict[int, str]
"""The names of signals by the second that they are sent in."""

PROGRAMS = 400 if os.environ.get("STEPFAST_LONG") else 40
LONGEST_S = 16


@workflow
async def child(seconds: int) -> str:
    await sleep(seconds)
    return f"child of {seconds}"


@workflow
async def perform(program: Program) -> Any:
    return await do(program)


@workflow
def perform_of_def(program: Program) -> Any:
    found: list[Any] = each.sync(do, [program])
    return found[0]


async def do(program: Program) -> Any:
    """Do what a program says; what it saw."""
    kind, *parts = program
    return await KINDS[kind](*parts)


async def do_receive(name: str, limit: int | None) -> Any:
    with suppress(WaitTimeout):
        return await receive(name, timeout=limit)
    return "no word"


async def do_receives(*names: str) -> list[Any]:
    return [await receive(name) for name in names]


async def do_sleep(seconds: int) -> str:
    await sleep(seconds)
    return f"slept {seconds}"


async def do_child(seconds: int) -> str:
    return await child(seconds)


@workflow
async def child_of(ends: list[Any]) -> str:
    seconds, is_good = ends
    await sleep(seconds)
    if not is_good:
        raise ValueError(f"child of {seconds}")
    return f"child of {seconds}"


async def do_joined(join: Any, at_once: int | None, *ends: list[Any]) -> Any:
    try:
        joined: Any = await each(child_of, ends, at_once, join)
    except RunFailed as failure:
        return f"failed: {failure.__cause__}"
    if join == "settled":
        return [outcome.value if outcome.ok else f"failed: {outcome.error.__cause__}" for outcome in joined]
    return joined


async def do_started(seconds: int, name: str) -> list[Any]:
    started = await child.start(seconds)
    return [await receive(name), await started]


async def do_within(limit: int, program: Program) -> Any:
    with suppress(WaitTimeout):
        async with timeout(limit):
            return await do(program)
    return f"over after {limit}"


async def do_race(*programs: Program) -> Any:
    return await race(**{f"p{number}": do(program) for number, program in enumerate(programs)})


async def do_all(*programs: Program) -> Any:
    return await asyncio.gather(*map(do, programs))


KINDS: dict[str, Callable[..., Any]] = {
    "receive": do_receive,
    "receives": do_receives,
    "sleep": do_sleep,
    "child": do_child,
    "joined": do_joined,
    "started": do_started,
    "within": do_within,
    "race": do_race,
    "all": do_all,
}


async def results_of(database: str, flow: Any, cases: Sequence[tuple[Program, Signals]], is_late: bool) -> list[Any]:
    """What runs come to, one moment after the other, or when all of it is past before anybody looks."""
    async with engine(database=database, workflows=[perform, perform_of_def, child, child_of]) as opened:
        runs = [await opened.start(flow, program) for program, _ in cases]
        await opened.run_until_idle()
        if is_late:
            await asyncio.gather(*(run.pause() for run in runs))
        # What takes time is over at whole seconds, and signals come half a second later.
        for second in range(1, LONGEST_S + 1):
            await pass_time(opened)
            for run, (_, signals) in zip(runs, cases, strict=True):
                await send(opened, run, signals.get(second - 1))
            await opened.run_until_idle()
            await pass_time(opened)
        if is_late:
            await asyncio.gather(*(run.resume() for run in runs))
            await opened.run_until_idle()
        return [plain(await opened.result(run)) for run in runs]


async def pass_time(opened: Engine) -> None:
    opened.clock.advance("500ms")
    await opened.run_until_idle()


async def send(opened: Engine, run: Any, name: str | None) -> None:
    if name is not None:
        # A run that has ended takes no more.
        with suppress(IllegalMove):
            await opened.signal(run, name, name)


async def result_of(database: str, flow: Any, case: str, is_late: bool) -> Any:
    program, signals, _ = ORDERS[case]
    (result,) = await results_of(database, flow, [(late_after(program), signals)], is_late)
    return result


def plain(value: Any) -> Any:
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def late_after(program: Program) -> Program:
    """The program within a limit that is over before the test is, so that it ends in any case."""
    return ("within", LONGEST_S - 1, program)


ORDERS: dict[str, tuple[Program, Signals, Any]] = {
    "two signals": (("race", ("receive", "b", None), ("receive", "a", None)), {3: "a", 5: "b"}, ["p1", "a"]),
    "a signal and a child": (("race", ("receive", "b", None), ("child", 2)), {5: "b"}, ["p1", "child of 2"]),
    "a child and a signal": (("race", ("child", 4), ("receive", "a", None)), {3: "a"}, ["p1", "a"]),
    "two children": (("race", ("child", 4), ("child", 2)), {}, ["p1", "child of 2"]),
    "a child, a timer and a signal": (
        ("all", ("child", 7), ("race", ("sleep", 8), ("child", 2)), ("receive", "a", 1), ("within", 9, ("child", 6))),
        {},
        ["child of 7", ["p1", "child of 2"], "no word", "child of 6"],
    ),
    "two signals in a row before a limit": (("within", 10, ("receives", "a", "b")), {5: "a", 7: "b"}, ["a", "b"]),
    "six signals in a row before a limit": (
        ("within", 10, ("receives", *"ababab")),
        {2: "a", 3: "b", 4: "a", 5: "b", 6: "a", 7: "b"},
        [*"ababab"],
    ),
    "one of two in a row behind a limit": (("within", 6, ("receives", "a", "b")), {5: "a", 7: "b"}, "over after 6"),
    "two in a row against a timer": (
        ("race", ("receives", "a", "a"), ("sleep", 10)),
        {2: "a", 3: "a"},
        ["p0", ["a", "a"]],
    ),
    "one of two in a row that another waits for": (
        ("race", ("sleep", 14), ("receives", "a", "a"), ("receive", "a", None)),
        {1: "a", 11: "a", 12: "a"},
        ["p2", "a"],
    ),
    "a join that fails and a timer": (
        ("race", ("joined", "all", None, [7, True], [5, False], [3, True]), ("sleep", 6)),
        {},
        ["p0", "failed: child of 5"],
    ),
    "a join that one failure does not spoil and a timer": (
        ("race", ("joined", 1, None, [7, False], [5, False], [9, True]), ("sleep", 8)),
        {},
        ["p1", "slept 8"],
    ),
    "the first of several children": (
        ("joined", "any", None, [9, True], [5, True], [7, True]),
        {},
        "child of 5",
    ),
    "two of several children": (
        ("joined", 2, None, [9, True], [5, True], [3, False], [7, True]),
        {},
        ["child of 5", "child of 7"],
    ),
    "the first of several children in groups": (
        ("joined", "any", 16, *([seconds, True] for seconds in (9, 5, 7, 11))),
        {},
        "child of 5",
    ),
    "the first failure of several children": (
        ("joined", "all", None, [9, False], [5, False], [7, True]),
        {},
        "failed: child of 5",
    ),
    "a signal and then a child": (("within", 10, ("started", 6, "a")), {5: "a"}, ["a", "child of 6"]),
    "a signal and then a child that was late": (("within", 7, ("started", 8, "a")), {5: "a"}, "over after 7"),
}


@pytest.mark.parametrize("is_late", [False, True], ids=["live", "late"])
@pytest.mark.parametrize("flow", [perform, perform_of_def], ids=["async", "def"])
@pytest.mark.parametrize("case", ORDERS)
async def test_what_came_first_counts_first_whenever_somebody_looks(database, case, flow, is_late):
    assert await result_of(database, flow, case, is_late) == ORDERS[case][2]


# What a holder that dies has done so far must not give those who wait a start on calls that the code has yet to make.
TAKEN_OVER: dict[str, tuple[Program, Signals, Any]] = {
    "a call that is made later and one that waits": (
        ("race", ("receives", "a", "b"), ("receive", "a", 14)),
        {1: "a", 4: "b", 5: "a"},
        ["p0", ["a", "b"]],
    ),
    "a call that is made later and one that waits without a limit": (
        ("race", ("receives", "a", "b"), ("receive", "a", None)),
        {1: "a", 4: "b", 5: "a"},
        ["p0", ["a", "b"]],
    ),
    "a call that is made later and children of which one is late": (
        ("race", ("joined", "settled", None, [1, True], [6, False], [16, False]), ("receives", "a", "a")),
        {5: "a", 7: "a"},
        ["p1", ["a", "a"]],
    ),
}


async def results_where_it_dies(database: str, case: str) -> list[Any]:
    """What a run comes to that is taken up late by a process that dies, at whatever moment, and then by another."""
    program, signals, _ = TAKEN_OVER[case]
    results: list[Any] = []
    async with engine(database=database, workflows=[perform, child, child_of]) as opened:
        while opened.crashes == len(results):
            run = await opened.start(perform, late_after(program))
            await opened.run_until_idle()
            await run.pause()
            for second in range(1, LONGEST_S + 1):
                await pass_time(opened)
                await send(opened, run, signals.get(second - 1))
                await opened.run_until_idle()
                await pass_time(opened)
            await run.resume()
            opened.crash_after(len(results) + 1)
            results.append(plain(await opened.result(run)))
    return results


@pytest.mark.parametrize("case", TAKEN_OVER)
async def test_what_came_first_counts_first_wherever_the_process_died_that_looked_at_it(database, case):
    results = await results_where_it_dies(database, case)
    assert len(results) > 4
    assert results == [TAKEN_OVER[case][2]] * len(results)


TWINS = {
    "that lets those look first who waited first": (Mailbox, "_arrivals", lambda mailbox, newcomers: {}, "two signals"),
    "that takes signals while it reads when children ended": (
        *(Mailbox, "_may_go_on", lambda mailbox: mailbox.unheard is None),
        "a signal and a child",
    ),
    "that takes a join for decided when the last child has ended": (
        *(ChildrenCall, "_decided_at", lambda call, ended: max(outcome.ended_at for _, outcome in ended)),
        "a join that fails and a timer",
    ),
    "that takes the first in the list of all who have ended": (
        *(child_calls, "_first", lambda ended, count: ended[:count]),
        "the first of several children",
    ),
    "that begins no conclusion beside what is late": (
        *(context, "ConcludingCall", WaitCall),
        "a join that fails and a timer",
    ),
    "that lets nobody look whose call is still to be begun": (
        *(RunContext, "_newcomers", lambda context: []),
        "two signals in a row before a limit",
    ),
    "that does not wait until the code has heard": (
        # The code may hear of one in time whether anybody waits for that or not, but not of all of these.
        *(Mailbox, "note_end", lambda mailbox, call, now: None),
        "six signals in a row before a limit",
    ),
}


@pytest.mark.parametrize("twin", TWINS)
async def test_a_twin_comes_to_something_else(monkeypatch, database, twin):
    where, name, broken, case = TWINS[twin]
    monkeypatch.setattr(where, name, broken)
    assert await result_of(database, perform, case, is_late=True) != ORDERS[case][2]


class Maker:
    """Makes programs in which no two moments are the same."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._seconds = self._random.sample(range(1, LONGEST_S - 1), LONGEST_S - 2)

    def signals(self) -> Signals:
        return {self._seconds.pop(): self._random.choice("ab") for _ in range(self._random.randint(1, 5))}

    def program(self, room: int = 3) -> Program:
        kinds = ["receive", "receives", "sleep", "child", "joined", "started"]
        kind = self._random.choice([*kinds, "within", "race", "all"] if room else kinds)
        if kind in ("race", "all"):
            return (kind, *(self.program(room - 1) for _ in range(self._random.randint(2, 3))))
        if not self._seconds:
            return ("receive", self._random.choice("ab"), None)
        return (kind, *self._parts(kind, room))

    def _parts(self, kind: str, room: int) -> tuple[Any, ...]:
        names = self._random.choices("ab", k=2)
        match kind:
            case "receive":
                return (names[0], self._random.choice([None, self._seconds.pop()]))
            case "receives":
                return tuple(names)
            case "joined":
                return (self._random.choice(["all", "any", 2, "settled"]), None, *self._ends())
            case "started":
                return (self._seconds.pop(), names[0])
            case "within":
                return (self._seconds.pop(), self.program(room - 1))
            case _:
                return (self._seconds.pop(),)

    def _ends(self) -> list[list[Any]]:
        """Two children or more, and when and how each of them ends."""
        seconds = [self._seconds.pop() for _ in range(min(3, len(self._seconds)))]
        return [[each, self._random.random() < 0.7] for each in (*seconds, LONGEST_S)]


@pytest.mark.parametrize("part", range(4))
async def test_random_programs_come_to_the_same_live_and_late(database, part):
    cases = [made(seed) for seed in range(part, PROGRAMS, 4)]
    live = await results_of(database, perform, cases, is_late=False)
    for flow in (perform, perform_of_def):
        late = await results_of(database, flow, cases, is_late=True)
        differing = [(case, was, now) for case, was, now in zip(cases, live, late, strict=True) if was != now]
        assert differing == []


def made(seed: int) -> tuple[Program, Signals]:
    maker = Maker(seed)
    signals = maker.signals()
    return late_after(maker.program()), signals


LONG: dict[str, asyncio.Event] = {}


@step
async def long() -> None:
    LONG["begun"].set()
    await LONG["may_end"].wait()


@workflow
async def held_by_a_step() -> str:
    async def main() -> str:
        name, _ = await race(word=receive("word"), late=sleep("10s"))
        return name

    async def side() -> None:
        await receive("go")
        await long()

    return (await asyncio.gather(main(), side()))[0]


async def winner_without_a_hint(database: str) -> str:
    """A run that is held by a step: a word comes at nine seconds, its hint is lost, and a timer is over at ten."""
    LONG.clear()
    LONG.update(begun=asyncio.Event(), may_end=asyncio.Event())
    async with engine(database=database, workflows=[held_by_a_step]) as opened:
        run = await opened.start(held_by_a_step)
        await opened.run_until_idle()
        opened.clock.advance("3s")
        await opened.signal(run, "go")
        going = asyncio.create_task(opened.run_until_idle())
        await LONG["begun"].wait()
        opened.clock.advance("6s")
        assert opened._mortal is not None
        await opened._mortal.deliver(Delivery(RunId(run.id), "default", "signal", "word", '"x"', None, None, "d"))
        opened.clock.advance("2s")
        while len([view for view in await run.steps() if view.state in ("completed", "cancelled")]) < 2:
            await turn()
        LONG["may_end"].set()
        await going
        await opened.run_until_idle()
        return str(await run.result())


async def test_a_timer_of_a_held_run_looks_for_what_came_before_it(database):
    assert await winner_without_a_hint(database) == "word"


async def test_twin_whose_timers_do_not_look_lets_a_later_one_win(database, monkeypatch):
    monkeypatch.setattr(WaitCall, "_has_to_look", lambda call: call.looks_when_due)
    assert await winner_without_a_hint(database) == "late"


def test_of_two_timers_that_are_over_in_one_moment_the_one_that_was_set_first_goes_first():
    alarms, ended = Alarms({1, 2}), list[int]()
    waits = [OpenWait(number, WaitKind.TIME, "sleep", Instant(10), 1, 0, 1, 0, 0) for number in (1, 2)]
    for wait in waits:
        alarms.set(wait.wait_id, Instant(10))
    for wait in reversed(waits):
        alarms.ring(wait, partial(ended.append, wait.wait_id))
        alarms.give_turns()
    assert ended == [1, 2]


def test_timers_get_their_turn_behind_those_who_look():
    waits = {name: OpenWait(number, WaitKind.SIGNAL, name, None, 1, 0, 1, 0, 0) for number, name in enumerate("cab", 1)}
    waits["timer"] = OpenWait(4, WaitKind.TIME, "sleep", Instant(7), 1, 0, 1, 0, 0)
    came = {"a": 1, "b": 2, "c": 3}
    messages = [
        Message(n, "signal", name, None, None, Instant(at), True) for n, (name, at) in enumerate(came.items(), 1)
    ]
    mailbox, ended = Mailbox([], []), list[str]()

    def end(name: str) -> None:
        ended.append(name)
        mailbox.forget(waits[name].wait_id)
        mailbox.go_on()

    def look(name: str) -> None:
        if mailbox.take("signal", name, None) is not None:
            end(name)

    for name, wait in waits.items():
        mailbox.await_(wait, Waiter(partial(look, name), ("signal", name)))
    mailbox.readings = 1
    mailbox.ring(waits["timer"], partial(end, "timer"))
    mailbox.update([], messages)
    mailbox.readings = 0
    mailbox.let_look()
    assert ended == ["a", "b", "c", "timer"]


MANY = 60


@workflow
async def many_limits() -> int:
    async def one(number: int) -> int:
        with suppress(WaitTimeout):
            return await receive(f"s{number}", int, timeout="1h")
        return 0

    return sum(await asyncio.gather(*map(one, range(MANY))))


@pytest.mark.parametrize("sent", [0, MANY])
async def test_limits_that_are_over_at_once_read_together_what_has_come(database, sent):
    async with engine(database=database, workflows=[many_limits]) as opened:
        run = await opened.start(many_limits)
        await opened.run_until_idle()
        await run.pause()
        await asyncio.gather(*(run.signal(f"s{number}", 1) for number in range(sent)))
        opened.clock.advance("2h")
        await run.resume()
        assert opened._mortal is not None
        opened._mortal.calls.clear()
        assert await opened.result(run) == sent
        assert 0 < opened._mortal.calls.count("look") < 10
