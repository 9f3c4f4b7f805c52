"""The nightly evaluation: most of the answers are enough, and a night without one before it ends in part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepfast import RunFailed, RunState
from stepfast.testing import engine

NIGHTS = ("2026-11-14", "2026-11-15")


@pytest.fixture
async def nights(imported, database):
    """An engine that has the template, in the folder of the example."""
    executors = imported("nightly_evaluation.executors")
    async with engine(database=database, workflows=[]) as opened:
        for executor in (*executors.data.list(), *executors.model.list()):
            opened.app.executors.register(executor)
        await opened.app.register(Path("nightly.yaml"))
        yield opened


async def evaluated(nights, night, **inputs):
    run = await nights.start("nightly-evaluation", night=night, **inputs)
    return await nights.result(run), run


async def test_the_first_night_ends_in_part_and_the_next_one_whole(nights):
    states = [(await nights.info((await evaluated(nights, night))[1])).state for night in NIGHTS]
    assert states == [RunState.PARTIAL, RunState.COMPLETED]


async def test_four_of_five_answers_are_enough_and_the_fifth_is_named(nights):
    score, _ = await evaluated(nights, NIGHTS[0])
    assert score == {"night": NIGHTS[0], "asked": 5, "answered": 4, "right": 3, "missing": ["q5"]}


async def test_a_night_with_too_few_answers_fails_and_keeps_no_figures(nights):
    riddles = [{"id": f"q{n}", "text": "Why?", "expected": "because"} for n in range(3)]
    Path("riddles.json").write_text(json.dumps([*riddles, {"id": "sum", "text": "1 + 1", "expected": "2"}]))
    with pytest.raises(RunFailed, match="had to come to a good end"):
        await evaluated(nights, NIGHTS[0], dataset="riddles.json")
    assert not Path("scores").exists()


async def test_a_night_that_is_worse_than_the_one_before_it_raises_an_alarm(nights):
    await evaluated(nights, NIGHTS[0])
    Path("hard.json").write_text(json.dumps([{"id": "q1", "text": "1 + 1", "expected": "3"}]))
    _, run = await evaluated(nights, NIGHTS[1], dataset="hard.json")
    told = [event for event in await nights.events(run) if event.type == "evaluation.worse"]
    assert [json.loads(event.data) for event in told] == [{"before": NIGHTS[0], "change": -3}]
