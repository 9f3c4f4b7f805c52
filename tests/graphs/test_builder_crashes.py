"""A graph whose process dies: what others have seen the end of is not done again, and the rest goes on."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Graph, Retry, StageContext, step
from stepfast.testing import crash_points
from stepfast.testing.engine import Engine
from tests.faults.test_crash_points import acknowledges_first

done: list[str] = []
"""What bodies did, in order."""


@step(retry=Retry(attempts=1))
async def refuse(text: str) -> str:
    done.append("refuse")
    raise ConnectionError(text)


scoring = Graph("scoring", input=list[str], output=list)


@scoring.stage
async def score(ctx: StageContext[list[str], None, str]) -> int:
    done.append("score")
    return len(ctx.item)


scores = scoring.each(score, over=scoring.input, key=lambda text: text, at_once=2)


@scoring.stage(reads=[scores])
async def add_up(ctx: StageContext[list[str]]) -> int:
    done.append("add up")
    return sum(ctx.require(scores)["results"])


sent = scoring.use(refuse, text=lambda add_up: str(add_up))
scoring.catch(sent, scoring.set("instead", lambda error: error["message"]))
go = scoring.receive("go", needs=[sent])


@scoring.stage(reads=[scores, go], needs=[sent])
def last(ctx: StageContext[list[str]]) -> list[Any]:
    done.append("last")
    return [ctx.require(scores)["results"], ctx.optional(sent), ctx.require(go)]


async def play(at: Engine) -> Any:
    """Items, a failure that is caught, a wait, and a stage that reads all of it."""
    done.clear()
    run = await at.start(scoring, ["a", "bb"])
    await at.run_until_idle()
    await at.signal(run, "go", "on")
    result = await at.result(run)
    assert done == sorted(done, key=["score", "add up", "refuse", "last"].index), (
        f"done again after others saw it: {done}"
    )
    return result


async def test_a_graph_gives_the_same_wherever_its_process_dies():
    tried = await crash_points(play, workflows=[scoring])
    assert len(tried.points) >= len(tried.calls)


async def test_the_broken_twin_that_answers_before_it_saves_is_found_out():
    with pytest.raises(AssertionError, match="done again"):
        await crash_points(play, workflows=[scoring], around=acknowledges_first)
