"""A run as of any event or moment, and the way back to where it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stepfast import IllegalMove, Invalid, Later, Retry, RunState, moments, receive, review, sleep, step, workflow
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import EventNotFound, StepNotFound
from stepfast.testing import Engine, engine

RAN: list[str] = []


@step(retry=Retry(attempts=1))
async def note(name: str) -> int:
    RAN.append(name)
    return len(RAN)


@workflow
async def walk() -> int:
    first = await note("first")
    await receive("go")
    await sleep("1h")
    return first + await note("last")


@step(name="waiting")
async def a_step_of_that_name() -> str:
    return "waited"


@workflow
async def confusing() -> None:
    await a_step_of_that_name()
    await receive("go")
    await note("last")


@workflow
async def asking() -> str:
    await note("first")
    return (await review("Go on?", show={})).verdict


@step
async def put_off() -> None:
    raise Later("1h")


@workflow
async def put_off_while_asking() -> None:
    await asyncio.gather(receive("go"), put_off())


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Engine]:
    RAN.clear()
    async with engine(database=database, workflows=[walk, confusing, asking, put_off_while_asking]) as opened:
        yield opened


async def ended(opened: Engine) -> Any:
    run = await opened.start(walk)
    await opened.run_until_idle()
    await opened.signal(run, "go")
    await opened.result(run)
    return run


async def number_of(run: Any, event_type: str, nth: int = 0) -> int:
    numbers: list[int] = [event.seq for event in await run.history() if event.type == event_type]
    return numbers[nth]


async def test_each_event_has_its_state(opened):
    run = await ended(opened)
    last = (await run.history())[-1].seq
    states = [(await run.at(event)).state.state for event in range(1, last + 1)]
    assert list(dict.fromkeys(states)) == [
        RunState.PENDING,
        RunState.RUNNING,
        RunState.WAITING,
        RunState.COMPLETED,
    ]


async def test_steps_have_the_values_that_they_had_then(opened):
    run = await ended(opened)
    await run.rerun(actor="ann")
    await opened.run_until_idle()
    then = await run.at(await number_of(run, "completed"))
    now = await run.at(await number_of(run, "waiting", -1))
    values = [{record.call.address: record.value for record in moment.records} for moment in (then, now)]
    assert (values[0]["note#1"], values[0]["note#2"]) == ("1", "2")
    assert (values[1]["note#1"], "note#2" in values[1]) == ("3", False)


async def test_what_a_run_waited_for_is_known(opened):
    run = await ended(opened)
    moment = await run.at(await number_of(run, "waiting"))
    assert [(wait.kind, wait.name) for wait in moment.state.waits] == [("signal", "go")]


async def test_a_moment_is_the_last_event_up_to_it(opened):
    run = await ended(opened)
    begun = datetime.fromtimestamp((await run.history())[0].at / 1_000, UTC)
    half = await run.at(time=begun + timedelta(minutes=30))
    assert (half.state.state, [wait.kind for wait in half.state.waits]) == (RunState.WAITING, ["time"])
    assert (await run.at(time=begun + timedelta(days=1))).state.state is RunState.COMPLETED


async def test_a_wait_that_is_over_may_have_woken_the_run(opened):
    run = await opened.start(walk)
    await opened.signal(run, "go")
    await opened.run_until_idle()
    begun = datetime.fromtimestamp((await run.history())[0].at / 1_000, UTC)
    opened.clock.advance(7_200)
    early, late = await run.at(time=begun + timedelta(minutes=1)), await run.at(time=begun + timedelta(hours=2))
    assert (early.state.possible, late.state.possible) == (
        {RunState.WAITING},
        {RunState.WAITING, RunState.RUNNING},
    )


async def test_an_event_behind_the_end_is_refused_with_how_many_there_are(opened):
    run = await ended(opened)
    last = (await run.history())[-1].seq
    with pytest.raises(EventNotFound, match=rf"no event {last + 1}: there are {last}\."):
        await run.at(last + 1)


@pytest.mark.parametrize("event", [0, -1, 1.5, "1", True, 2**40])
async def test_what_is_no_number_of_an_event_is_refused(opened, event):
    run = await opened.start(walk)
    with pytest.raises(Invalid, match="event is"):
        await run.at(event)


@pytest.mark.parametrize("time", ["1999-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
async def test_a_moment_before_the_start_is_refused(opened, time):
    run = await opened.start(walk)
    with pytest.raises(EventNotFound, match="it was stored at"):
        await run.at(time=datetime.fromisoformat(time))


async def test_what_is_told_later_is_not_in_a_state_without_what_stands_before_it(opened):
    run = await ended(opened)
    events = [event._replace(at=at) for event, at in zip(await run.history(), (10, 30, 20), strict=False)]
    walked = moments.Walk()
    walked.add(events, None, Instant(25))
    assert (walked.seen, walked.rebuilding.rebuilt().event, walked.last) == (1, 1, 3)


@pytest.mark.parametrize("time", [datetime(2030, 1, 1, tzinfo=UTC).replace(tzinfo=None), "2030-01-01", 7])
async def test_a_moment_that_is_none_is_refused(opened, time):
    run = await opened.start(walk)
    with pytest.raises(Invalid, match="time is"):
        await run.at(time=time)


@pytest.mark.parametrize("given", [{}, {"event": 1, "time": datetime(2030, 1, 1, tzinfo=UTC)}])
async def test_as_of_when_is_said_once(opened, given):
    run = await opened.start(walk)
    with pytest.raises(Invalid, match="as of when"):
        await run.at(**given)


async def test_a_run_is_taken_back_to_where_it_was_in_a_state(opened):
    run = await ended(opened)
    changed = await run.rollback("waiting", actor="ann")
    told = json.loads((await run.history())[-1].data)
    assert (changed.state, told["to"], told["event"]) == (
        RunState.PAUSED,
        "waiting",
        await number_of(run, "waiting", -1),
    )
    assert RAN == ["first", "last"]
    await run.resume()
    await opened.result(run)
    assert RAN == ["first", "last", "last"]


async def test_the_present_state_is_no_earlier_one(opened):
    run = await opened.start(walk)
    await opened.run_until_idle()
    with pytest.raises(EventNotFound, match="never waiting before"):
        await run.rollback("waiting")


async def test_a_state_that_never_was_is_refused_and_changes_nothing(opened):
    run = await ended(opened)
    before = await run.history()
    with pytest.raises(EventNotFound, match="never failed before"):
        await run.rollback("failed")
    assert await run.history() == before


async def test_a_step_that_has_the_name_of_a_state_is_meant(opened):
    run = await opened.start(confusing)
    await opened.signal(run, "go")
    await opened.result(run)
    await run.rollback("waiting")
    told = json.loads((await run.history())[-1].data)
    assert (told["to"], "event" in told) == ("waiting", False)


async def test_a_rollback_to_a_state_with_a_key_happens_once(opened):
    run = await ended(opened)
    first = await run.rollback("waiting", key="k")
    again = await run.rollback("waiting", key="k")
    assert (first.generation, again.generation, again.repeated) == (2, 2, True)


async def test_a_run_that_a_worker_holds_is_refused(opened):
    run = await opened.start(walk)
    with pytest.raises(IllegalMove):
        await run.rollback("pending")


async def test_what_is_taken_back_asks_nobody_any_more(opened):
    run = await opened.start(asking)
    await opened.run_until_idle()
    (asked,) = await opened.reviews(run)
    await run.rollback("note")
    assert await opened.reviews(run) == []
    found = await run.reconstruct()
    assert [(each.view.state, each.view.review_id) for each in found.reviews] == [("withdrawn", asked.review_id)]
    assert ([item.resolution for item in found.exceptions], found.differences) == (["withdrawn"], ())


async def test_a_run_that_is_put_off_stays_so_when_its_other_waits_are_taken_back(opened):
    run = await opened.start(put_off_while_asking)
    await opened.run_until_idle()
    await run.rollback(1)
    await run.resume()
    found = await run.reconstruct()
    assert (found.run.state, found.state.state, found.differences) == (RunState.PENDING, RunState.PENDING, ())


@pytest.mark.parametrize("to", ["9" * 5_000, 10**5_000, "0", True], ids=["text", "number", "zero", "bool"])
async def test_what_is_no_number_of_an_event_is_not_gone_back_to(opened, to):
    run = await opened.start(walk)
    with pytest.raises(Invalid, match="to is"):
        await run.rollback(to)


@pytest.mark.parametrize("named", ["²", "٣", "9" * 5_000], ids=["superscript", "arabic", "long"])
async def test_a_step_by_a_number_that_is_none_is_not_found(opened, named):
    run = await ended(opened)
    with pytest.raises((StepNotFound, Invalid)):
        await run.rerun(named)
