"""Every point at which a process can die while work goes on outside: it is started once, and one end counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from stepfast import (
    CallbackUsed,
    Outside,
    Pending,
    Retry,
    RunFailed,
    StepfastError,
    callback_token,
    step,
    step_key,
    workflow,
)
from stepfast.kernel import outside_judging
from stepfast.kernel.commands import Changed, Request
from stepfast.kernel.decisions import Record
from stepfast.kernel.ports import Store
from stepfast.kernel.states import RunState, StepState
from stepfast.stores import reviewing
from stepfast.testing import Engine, ProcessDied, crash_points, engine
from stepfast.workflows.step_calls import StepCall
from tests.faults.test_crash_points import IS_LONG, emptied
from tests.faults.test_review_crash_points import Lines
from tests.support.asking import KEYS
from tests.support.dumps import dump
from tests.support.owing import OwingStore
from tests.support.review_promises import places_with_secrets


class OtherSide:
    """What does the work: it knows a second start of the same work by its key, and counts what was asked of it."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.after_record: list[str] = []
        self.recorded: set[str] = set()
        self.asked = 0
        self.stopped: list[str] = []
        self.tokens: list[str] = []

    def start(self, key: str) -> str:
        if key in self.recorded:
            self.after_record.append(key)
        self.starts.append(key)
        return f"job-{sorted(set(self.starts)).index(key)}"


SIDES: list[OtherSide] = []


@step(retry=Retry(attempts=2, base="1s", jitter=0))
async def glance(handle: str) -> Pending | int:
    side = SIDES[-1]
    # Whoever asks knows the handle from its record.
    side.recorded.update(side.starts)
    side.asked += 1
    return Pending() if side.asked < 3 else 7


@step
async def halt(handle: str) -> None:
    SIDES[-1].stopped.append(handle)


@step(retry=Retry(attempts=5, base="1s", jitter=0))
async def launch() -> Outside[int]:
    return Outside(SIDES[-1].start(step_key()), poll=glance, every="30s", deadline="30d", cancel=halt)


@step(retry=Retry(attempts=5, base="1s", jitter=0))
async def commission() -> Outside[int]:
    SIDES[-1].tokens.append(await callback_token())
    return Outside(SIDES[-1].start(step_key()), callback=True, deadline="30d")


@workflow
async def compute() -> int:
    return await launch()  # type: ignore[return-value]


@workflow
async def be_called() -> int:
    return await commission()  # type: ignore[return-value]


WORKFLOWS = [compute, be_called]


@asynccontextmanager
async def other_side(hand: Engine) -> AsyncIterator[OtherSide]:
    """A fresh other side; afterwards nothing was started again that was recorded, and no token was written down."""
    side, lines = OtherSide(), Lines()
    SIDES.append(side)
    logging.getLogger("stepfast").addHandler(lines)
    try:
        yield side
    finally:
        logging.getLogger("stepfast").removeHandler(lines)
        SIDES.pop()
    assert len(set(side.starts)) == 1, "P9: one call was started under two keys."
    assert not side.after_record, "P9: work was started again after its handle was recorded."
    places = await dump(hand.app.database) | {"the log": lines.text.encode()}
    broken = places_with_secrets(side.tokens, places)
    assert not broken, "\n".join(broken)


async def asked_after(hand: Engine) -> int:
    """Nobody calls back, and it is asked after three times or more."""
    async with other_side(hand):
        result: int = await hand.result(await hand.start(compute))
        return result


async def called_back(hand: Engine) -> int:
    """The other side calls back as a patient caller does, and once more when it is done."""
    async with other_side(hand) as side:
        run = await hand.start(be_called)
        await hand.run_until_idle()
        side.recorded.update(side.starts)
        heard = [await call_back(hand, side.tokens[-1], 7), await call_back(hand, side.tokens[-1], 8)]
        assert heard[0] in ("accepted", "E-CALL-003"), "P13: a good token was refused."
        assert heard[1] == "E-CALL-003", "P13: a used token works again."
        result: int = await hand.result(run)
        assert await call_back(hand, side.tokens[-1], 9) == "E-CALL-003", "P13: a token works after the end."
        return result


async def cancelled(hand: Engine) -> tuple[RunState, list[str]]:
    """The run is cancelled while its work goes on, which is stopped then, by one run of its own."""
    async with other_side(hand) as side:
        run = await hand.start(compute)
        await hand.run_until_idle()
        await hand.insist(lambda: run.cancel(key="cancel"))
        await hand.run_until_idle()
        assert set(side.stopped) == {"job-0"}, "P14: nobody stopped the outside work of a cancelled run."
        stops = [view for view in await hand.app.runs() if view.workflow == "halt"]
        return (await hand.info(run)).state, [str(view.state) for view in stops]


async def call_back(hand: Engine, token: str, value: int) -> str:
    async def once() -> str:
        try:
            await hand.app.callbacks.complete(token, value)
        except ProcessDied:
            raise
        except StepfastError as error:
            return error.code
        return "accepted"

    return await hand.insist(once)


EVERY = {"sqlite": 1, "postgres": 1} if IS_LONG else {"sqlite": 2, "postgres": 9}


@pytest.fixture
def options(database: str, monkeypatch) -> dict[str, Any]:
    """Every point in the long form, a spread of them in the short one."""
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    if database.startswith("sqlite"):
        return {"workflows": WORKFLOWS, "every": EVERY["sqlite"]}
    return {"workflows": WORKFLOWS, "every": EVERY["postgres"], "databases": emptied(database)}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", [asked_after, called_back, cancelled])
async def test_work_is_started_once_and_ends_once_wherever_the_process_dies(options, scenario):
    tried = await crash_points(scenario, **options)
    assert {"start", "claim", "save"} <= set(tried.calls)
    assert len(tried.points) * options["every"] >= len(tried.calls)


def begin_anew(call: StepCall, asked: Any, record: Record | None) -> None:
    """The broken twin of `begin`: what is recorded of outside work is looked at by nobody."""
    asked.context.busy.add(asked.call)
    known = None if record is not None and record.state is StepState.WAITING else record
    call._task = asked.context.outer.create_task(call._perform(asked, known), context=asked.variables)


async def test_the_broken_twin_that_forgets_what_it_started_is_found_out(options, monkeypatch):
    monkeypatch.setattr(StepCall, "begin", begin_anew)
    with pytest.raises(AssertionError, match="P9"):
        await crash_points(called_back, **options)


class AcceptsFirst(OwingStore):
    """The broken twin: whoever calls back is told that it counts before it is stored."""

    async def change(self, requests: Sequence[Request]) -> list[Changed | StepfastError]:
        if any(request.command.name != "callback" for request in requests):
            return await self._store.change(requests)
        self._owed.append(lambda: self._store.change(requests))
        now = await self._store.now()
        return [Changed(request.run_id, RunState.WAITING, 1, "default", now) for request in requests]


async def test_the_broken_twin_that_answers_before_it_stores_is_found_out(options):
    with pytest.raises(AssertionError, match="P13"):
        await crash_points(called_back, around=lambda store: cast(Store, AcceptsFirst(store)), **options)


@pytest.fixture
async def hand(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])
    async with engine(database=database, workflows=WORKFLOWS) as hand:
        yield hand


async def rivals(hand: Engine) -> tuple[list[object], int]:
    """Many call back at once; what each heard, and what came of it."""
    async with other_side(hand) as side:
        run = await hand.start(be_called)
        await hand.run_until_idle()
        calls = [hand.app.callbacks.complete(side.tokens[-1], number) for number in range(20)]
        heard = await asyncio.gather(*calls, return_exceptions=True)
        result: int = await hand.result(run)
        return list(heard), result


async def test_of_many_that_call_back_at_once_one_is_accepted_and_its_value_counts(hand):
    heard, result = await rivals(hand)
    accepted = [number for number, each in enumerate(heard) if isinstance(each, Changed)]
    assert accepted == [result]
    assert sum(isinstance(each, CallbackUsed) for each in heard) == 19


async def test_the_broken_twin_that_does_not_look_for_an_earlier_end_accepts_several(hand, monkeypatch):
    locked = reviewing.locked_call
    monkeypatch.setattr(reviewing, "locked_call", lambda row: locked(row)._replace(is_answered=False))
    heard, _ = await rivals(hand)
    assert sum(isinstance(each, Changed) for each in heard) > 1


async def at_the_deadline(hand: Engine) -> tuple[bool, bool]:
    """A call back comes in the moment in which the time is over; whether it was accepted, and whether it counts."""
    async with other_side(hand) as side:
        run = await hand.start(be_called)
        await hand.run_until_idle()
        hand.clock.advance("30d")
        working = asyncio.create_task(hand.run_until_idle())
        heard = await asyncio.gather(hand.app.callbacks.complete(side.tokens[-1], 7), return_exceptions=True)
        await working
        try:
            return isinstance(heard[0], Changed), await hand.result(run) == 7
        except RunFailed:
            return isinstance(heard[0], Changed), False


async def test_a_call_back_at_the_deadline_counts_just_when_it_is_accepted(hand):
    is_accepted, counts = await at_the_deadline(hand)
    assert is_accepted == counts


async def test_the_broken_twin_that_takes_call_backs_at_any_time_accepts_what_does_not_count(hand, monkeypatch):
    monkeypatch.setattr(outside_judging, "_why_not", lambda run, command, now: None)
    async with other_side(hand) as side:
        run = await hand.start(be_called)
        await hand.run_until_idle()
        hand.clock.advance("30d")
        await hand.run_until_idle()
        answer = await hand.app.callbacks.complete(side.tokens[-1], 7)
        with pytest.raises(RunFailed):
            await hand.result(run)
    assert isinstance(answer, Changed)
