"""Items of a step with a queue are runs of their own, and what is said around the step holds for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast.testing import engine

LISTED = """
stepfast: 1
workflow: elsewhere
steps:
  - id: score
    each: [1, 2, 3]
    use: elsewhere.score
    with: {item: "${ item }"}
    queue: ai
    AROUND
output: "${ steps.score.output.results }"
"""


async def score(item: int) -> dict[str, Any]:
    if item == 3:
        raise ValueError("three")
    return {"item": item, "is_sure": item != 2}


@pytest.fixture
async def opened(database):
    async with engine(database=database, workflows=[]) as opened:
        opened.app.executors.register(score, "elsewhere.score")
        yield opened


async def started(opened, around):
    await opened.app.register(LISTED.replace("AROUND", around))
    run = await opened.start("elsewhere")
    await opened.run_until_idle()
    return run


async def test_an_item_is_reviewed_where_its_gate_says_so(opened):
    run = await started(opened, 'join: {first: 2}\n    retry: false\n    gate: {after: {when: "${ !output.is_sure }"}}')
    await opened.decide(run, "correct", {"item": 20, "is_sure": True}, actor="ann")
    assert await opened.result(run) == [{"item": 1, "is_sure": True}, {"item": 20, "is_sure": True}]
    assert len(await opened.app.runs("elsewhere.score")) == 3


async def test_an_item_that_failed_is_caught(opened):
    run = await started(opened, "retry: false\n    catch: [{do: [{id: instead, set: {item: 0, is_sure: true}}]}]")
    assert (await opened.result(run))[2] == {"item": 0, "is_sure": True}
    assert len(await opened.app.runs("elsewhere.score")) == 3
