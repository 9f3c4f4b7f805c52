"""Items in a queue whose executor marks its output: people look at them as they do without a queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.plans import fanning
from tests.faults.test_crash_points import emptied

LISTED = """
stepfast: 1
workflow: marked
steps:
  - {id: score, each: [1, 2, 3], use: marked.score, with: {item: "${ item }"}, queue: ai, retry: false, JOIN}
output: "${ steps.score.output }"
"""

RAN: Counter[int] = Counter()


async def score(item: int) -> dict[str, Any]:
    RAN[item] += 1
    if item == 3:
        raise ValueError("three")
    return {"item": item, "review_required": item == 2}


async def begun(opened: Engine, join: str) -> Any:
    RAN.clear()
    opened.app.executors.register(score, "marked.score")
    await opened.insist(lambda: opened.app.register(LISTED.replace("JOIN", join)))
    run = await opened.start("marked")
    await opened.run_until_idle()
    return run


@pytest.fixture
async def opened(database):
    async with engine(database=database, workflows=[]) as opened:
        yield opened


async def test_a_marked_item_waits_for_a_person(opened):
    run = await begun(opened, "join: settled")
    (question,) = await opened.reviews(run)
    assert (question.kind, question.step) == ("review_required", "score[1].score/ask#1")
    await opened.decide(run, "correct", {"item": 20}, actor="ann")
    result = await opened.result(run)
    assert result["results"] == [{"item": 1, "review_required": False}, {"item": 20}]
    assert [each["key"] for each in result["failed"]] == ["2"]


async def test_a_marked_item_that_is_rejected_has_failed(opened):
    run = await begun(opened, "join: settled")
    await opened.decide(run, "reject", actor="ann")
    result = await opened.result(run)
    assert [each["key"] for each in result["failed"]] == ["1", "2"]


async def test_a_marked_item_that_is_retried_is_a_run_once_more(opened):
    run = await begun(opened, "join: settled")
    await opened.decide(run, "retry", actor="ann")
    await opened.run_until_idle()
    await opened.decide(run, "continue", actor="ann")
    assert len((await opened.result(run))["results"]) == 2
    assert RAN == {1: 1, 2: 2, 3: 1}


async def test_the_join_may_be_met_without_a_marked_item(opened):
    run = await begun(opened, "join: any")
    assert (await opened.result(run))["results"] == [{"item": 1, "review_required": False}]
    assert await opened.reviews(run) == []


async def test_a_page_that_a_marked_item_decided_goes_on_with_the_others(opened, monkeypatch):
    async def all_marked(item: int) -> dict[str, Any]:
        RAN[item] += 1
        return {"item": item, "review_required": item != 3}

    monkeypatch.setitem(globals(), "score", all_marked)
    run = await begun(opened, "join: {first: 2}")
    while questions := await opened.reviews(run):
        await opened.decide(questions[0], "reject" if questions[0].step.startswith("score[0]") else "continue")
        await opened.run_until_idle()
    result = await opened.result(run)
    assert [each["item"] for each in result["results"]] == [2, 3]
    assert [each["key"] for each in result["failed"]] == ["0"]


async def look_at_all(opened: Engine) -> Any:
    run = await begun(opened, "join: settled")
    while not (questions := await opened.reviews(run)):
        await opened.run_until_idle()
    await opened.decide(questions[0], "correct", {"item": 20}, actor="ann")
    result = await opened.result(run)
    assert max(RAN.values()) <= 1 + opened.crashes
    return result["results"], [each["key"] for each in result["failed"]]


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    databases = {} if database.startswith("sqlite") else {"databases": emptied(database)}
    return {"workflows": [], "every": 5 if database.startswith("sqlite") else 11, **databases}


@pytest.mark.timeout(600)
async def test_a_person_is_asked_wherever_the_process_died(options):
    tried = await crash_points(look_at_all, **options)
    assert len(tried.points) > 3


async def test_a_mark_that_nobody_looks_for_is_seen_by_the_test(opened, monkeypatch):
    monkeypatch.setattr(fanning, "is_marked", lambda output: False)
    run = await begun(opened, "join: settled")
    assert await opened.reviews(run) == []
    assert {"item": 2, "review_required": True} in (await opened.result(run))["results"]
