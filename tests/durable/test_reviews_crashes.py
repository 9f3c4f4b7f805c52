"""A process that dies at any point while people are asked: each is asked once, and each answer counts once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from stepfast import ReviewInfo, WaitTimeout, race, review, sleep, step, workflow
from stepfast.kernel.reviews import ReviewId
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.review_calls import AskCall
from tests.faults.test_crash_points import IS_LONG, emptied


@step
async def draft(note: str | None) -> str:
    return f"a text ({note})"


@step
async def mail(info: ReviewInfo) -> str:
    return info["review_id"]


@workflow
async def publish() -> list[Any]:
    """Every way in which a review can end, side by side."""

    async def drafted() -> list[str]:
        note, verdicts = None, list[str]()
        while not verdicts or verdicts[-1] == "retry":
            asked = review("draft", show=await draft(note), verdicts=["correct", "retry"], notify=mail)
            answer = await asked
            verdicts.append(answer.verdict)
            note = answer.note
        return verdicts

    async def escalated() -> str:
        try:
            asked = review("law", show=1, expires="2h", on_expiry="escalate", escalate_role="chief", notify=mail)
            return (await asked).verdict
        except WaitTimeout as error:
            return error.code

    async def voted() -> list[str | None]:
        return [each.actor for each in (await review("vote", show=1, quorum=2)).answers]

    async def lost() -> str:
        name, _ = await race(review=review("slow", show=1, notify=mail), late=sleep("1h"))
        return name

    return list(await asyncio.gather(drafted(), escalated(), voted(), lost()))


async def answer_all(opened: Engine) -> list[Any]:
    run = await opened.start(publish)
    await opened.run_until_idle()
    for title, verdict, who in (
        ("draft", "retry", {"note": "shorter"}),
        ("vote", "continue", {"actor": "anna"}),
        ("draft", "correct", {"value": "a text"}),
        ("vote", "continue", {"actor": "bert"}),
    ):
        views = {view.title: view for view in await opened.reviews(run)}
        await opened.decide(views[title], verdict, **who)
        await opened.run_until_idle()
    result = await opened.result(run)
    all_views = await opened.app.reviews.list(run_id=run.id, state=None)
    ends = Counter((view.title, str(view.state)) for view in all_views)
    events = Counter(event.type for event in await opened.events(run))
    assert await opened.app.reviews.check() == []
    told = {name: events[name] for name in ("review_requested", "review_decided", "review_expired", "review_escalated")}
    return [result, sorted(ends.items()), told]


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    """Every point on SQLite; on PostgreSQL a spread of them in the short form."""
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}
    return {"workflows": [publish], "every": (1 if IS_LONG else 3) if is_sqlite else 11, **databases}


@pytest.mark.timeout(900)
async def test_every_review_has_one_end_and_the_code_the_same_answers_wherever_the_process_dies(options):
    tried = await crash_points(answer_all, **options)
    assert {"save", "change", "look", "claim"} <= set(tried.calls)


@workflow
async def ask_two() -> list[str]:
    answers = await asyncio.gather(review("one", show=1), review("two", show=2))
    return [answer.verdict for answer in answers]


async def reviews_after_a_restart(opened: Engine) -> int:
    run = await opened.start(ask_two)
    await opened.run_until_idle()
    await opened.crash()
    await opened.decide((await opened.reviews(run))[0], "continue")
    await opened.run_until_idle()
    return len(await opened.app.reviews.list(run_id=run.id, state=None))


async def test_a_review_that_is_open_is_not_opened_again_by_the_next_process(database):
    async with engine(database=database, workflows=[ask_two]) as opened:
        assert await reviews_after_a_restart(opened) == 2


async def test_twin_that_does_not_go_by_its_records_asks_again(database, monkeypatch):
    def recalled(call, asked, record) -> None:
        call._review_id = ReviewId(asked.context.run.run_id, record.seq)
        asked.context.mailbox.forget(record.seq)

    monkeypatch.setattr(AskCall, "recalled", recalled)
    async with engine(database=database, workflows=[ask_two]) as opened:
        assert await reviews_after_a_restart(opened) > 2
