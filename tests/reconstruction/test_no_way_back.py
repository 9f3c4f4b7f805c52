"""A run that began anew is not taken back to what came before: nothing of that is left to go on from."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import IllegalMove, RunState, continue_as, moments, receive, step, workflow
from stepfast.kernel.commands import Rollback
from stepfast.testing import Engine, engine

RAN: list[str] = []


@step
async def turn(name: str) -> None:
    RAN.append(name)


@workflow
async def rounds(number: int) -> int:
    await turn(f"first of {number}")
    if number == 1:
        await receive("go")
    if number < 3:
        continue_as(number + 1)
    await turn(f"last of {number}")
    return number


@workflow
def rounds_of_threads(number: int) -> int:
    turn.sync(f"first of {number}")
    if number == 1:
        receive("go")
    if number < 3:
        continue_as(number + 1)
    turn.sync(f"last of {number}")
    return number


FLOWS = pytest.mark.parametrize("flow", [rounds, rounds_of_threads], ids=["async", "def"])


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Engine]:
    RAN.clear()
    async with engine(database=database, workflows=[rounds, rounds_of_threads]) as opened:
        yield opened


async def ended(opened: Engine, flow: Any = rounds) -> Any:
    run = await opened.start(flow, 1)
    await opened.run_until_idle()
    await opened.signal(run, "go")
    assert await opened.result(run) == 3
    RAN.clear()
    return run


async def numbers_of(run: Any, event_type: str) -> list[int]:
    return [event.seq for event in await run.history() if event.type == event_type]


async def refusal(run: Any, to: int | str) -> str:
    """What is said of a rollback that is refused, and changes nothing."""
    before = await run.history()
    with pytest.raises(IllegalMove) as refused:
        await run.rollback(to)
    assert await run.history() == before
    return str(refused.value)


async def rounds_taken_back(run: Any, opened: Engine, to: int) -> list[str]:
    await run.rollback(to)
    await run.resume()
    await opened.result(run)
    return RAN


@FLOWS
async def test_an_event_before_a_continue_as_is_refused_and_the_first_that_is_reached_is_named(opened, flow):
    run = await ended(opened, flow)
    _, last = await numbers_of(run, "continued")
    said = await refusal(run, (await numbers_of(run, "step_completed"))[0])
    assert f"began anew with event {last} (continue_as)" in said
    assert f"{last} is the earliest" in said
    assert "start another run" in said


@FLOWS
async def test_the_event_that_is_named_is_reached(opened, flow):
    run = await ended(opened, flow)
    _, last = await numbers_of(run, "continued")
    assert f"{last} is the earliest" in await refusal(run, last - 1)
    assert await rounds_taken_back(run, opened, last) == ["first of 3", "last of 3"]


async def test_an_event_of_the_newest_life_is_reached(opened):
    run = await ended(opened)
    completed = await numbers_of(run, "step_completed")
    assert await rounds_taken_back(run, opened, completed[-2]) == ["last of 3"]


async def test_an_event_before_a_rerun_of_the_whole_is_refused_and_a_rerun_is_named(opened):
    run = await ended(opened)
    await run.rerun()
    await opened.result(run)
    [rerun] = await numbers_of(run, "rerun")
    said = await refusal(run, rerun - 1)
    assert f"began anew with event {rerun} (rerun)" in said
    assert f"`stepfast runs rerun {run.id}`" in said


async def test_an_event_before_a_rerun_from_a_step_or_a_rollback_is_reached(opened):
    run = await ended(opened)
    kept = (await numbers_of(run, "step_completed"))[-2]
    await run.rerun("turn#2")
    await opened.result(run)
    await run.rollback("turn#1")
    await run.resume()
    await opened.result(run)
    RAN.clear()
    assert await rounds_taken_back(run, opened, kept) == ["last of 3"]


async def test_a_state_that_the_run_was_in_before_it_began_anew_is_refused(opened):
    run = await ended(opened)
    _, last = await numbers_of(run, "continued")
    assert f"{last} is the earliest" in await refusal(run, "waiting")


async def test_a_step_is_that_of_the_newest_life(opened):
    run = await ended(opened)
    await run.rollback("turn#1")
    await run.resume()
    await opened.result(run)
    assert RAN == ["last of 3"]


async def test_a_rollback_with_a_key_has_its_first_answer_also_when_nothing_leads_back_any_more(opened):
    run = await ended(opened)
    [*_, number] = await numbers_of(run, "step_completed")
    first = await run.rollback(number, key="k")
    await run.resume()
    await opened.result(run)
    await run.rerun()
    await opened.result(run)
    again = await run.rollback(number, key="k")
    assert (again.generation, again.repeated) == (first.generation, True)


async def test_a_run_that_began_anew_while_its_history_was_read_is_not_taken_back(opened, monkeypatch):
    run = await ended(opened)
    [*_, number] = await numbers_of(run, "step_completed")
    looked_up = moments.rollback_to

    async def and_run_again(*asked: Any) -> Rollback:
        command = await looked_up(*asked)
        await run.rerun()
        await opened.result(run)
        return command

    monkeypatch.setattr(moments, "rollback_to", and_run_again)
    with pytest.raises(IllegalMove, match="began another life"):
        await run.rollback(number)
    assert (await run.info()).state is RunState.COMPLETED


async def test_broken_twin_that_takes_every_life_for_one_goes_back_to_another_input(opened, monkeypatch):
    monkeypatch.setattr(moments, "epoch_of", lambda lives: 1)
    run = await ended(opened)
    number = (await numbers_of(run, "step_completed"))[0]
    assert json.loads((await run.at(number)).records[0].input)
    assert await rounds_taken_back(run, opened, number) == ["first of 3", "last of 3"]
