"""Code that is changed while people are asked: what still fits, and what a deploy check says of the rest."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from stepfast import ReviewInfo, RunState, review, step, workflow
from stepfast.testing import Verdict, engine
from tests.support.apps import app_on


class Draft(BaseModel):
    text: str


class LongerDraft(BaseModel):
    text: str
    language: str = "en"


class OtherDraft(BaseModel):
    words: int


@step
async def mail(info: ReviewInfo) -> None:
    """Tells people."""


@step
async def audit() -> None:
    """Something new."""


def publish(function):
    return workflow(name="publish")(function)


async def original() -> str:
    return (await review("Publish?", show=Draft(text="a"), type=Draft, role="legal", notify=mail)).value.text


async def for_others() -> str:
    asked = review("Publish?", show=Draft(text="a"), type=Draft, role="press", expires="1h", quorum=2, notify=mail)
    return (await asked).value.text


async def with_a_new_field() -> str:
    answer = await review("Publish?", show=LongerDraft(text="a"), type=LongerDraft, role="legal", notify=mail)
    return f"{answer.value.text} in {answer.value.language}"


async def with_an_added_step() -> str:
    await audit()
    return await original()


async def under_another_title() -> str:
    return (await review("Print?", show=Draft(text="a"), type=Draft, role="legal", notify=mail)).value.text


async def with_another_thing() -> str:
    return (await review("Publish?", show=Draft(text="b"), type=Draft, role="legal", notify=mail)).value.text


async def of_another_type() -> str:
    answer = await review("Publish?", show=OtherDraft(words=1), type=OtherDraft, role="legal", notify=mail)
    return str(answer.value.words)


async def without_a_review() -> str:
    return "a"


CHANGES = {
    "the same code": (original, Verdict.FITS, None),
    "a field with a default": (with_a_new_field, Verdict.FITS, None),
    "an added step": (with_an_added_step, Verdict.ADDED_STEP, "audit#1"),
    "another title": (under_another_title, Verdict.MISMATCH, "ask#1"),
    "another thing": (with_another_thing, Verdict.MISMATCH, "ask#1"),
    "another type": (of_another_type, Verdict.MISMATCH, "ask#1"),
    "no review": (without_a_review, Verdict.MISMATCH, "ask#1"),
}


@pytest.mark.parametrize(("changed", "verdict", "at"), CHANGES.values(), ids=CHANGES)
async def test_a_deploy_check_says_how_open_reviews_get_on_with_the_code(database, changed, verdict, at):
    async with engine(database=database, workflows=[publish(original)]) as opened:
        await opened.start("publish")
        await opened.run_until_idle()
    async with app_on(database, [publish(changed)], worker=False) as app:
        report = await app.check()
    assert report.verdicts == {verdict: 1}
    assert [checked.fit.step for checked in report.runs] == ([] if at is None else [at])


async def test_new_code_gets_what_was_approved_as_its_own_type(database):
    async with engine(database=database, workflows=[publish(original)]) as opened:
        run = await opened.start("publish")
        await opened.run_until_idle()
    async with engine(database=database, workflows=[publish(with_a_new_field)]) as opened:
        await opened.decide(run.id, "continue")
        assert await opened.result(run.id) == "a in en"


async def test_what_was_asked_stays_as_it_was_asked(database):
    async with engine(database=database, workflows=[publish(original)]) as opened:
        run = await opened.start("publish")
        await opened.run_until_idle()
    async with engine(database=database, workflows=[publish(for_others)]) as opened:
        (view,) = await opened.reviews(run.id)
        assert (view.role, view.quorum, view.due_at) == ("legal", 1, None)
        await opened.decide(run.id, "continue")
        assert await opened.result(run.id) == "a"


async def test_a_run_whose_code_asks_for_something_else_waits_for_code_and_its_review_stays_open(database):
    async with engine(database=database, workflows=[publish(original)]) as opened:
        run = await opened.start("publish")
        await opened.run_until_idle()
        await opened.decide(run, "continue")
    async with engine(database=database, workflows=[publish(with_another_thing)]) as opened:
        await opened.run_until_idle()
        assert (await opened.info(run.id)).state is RunState.WAITING
    async with engine(database=database, workflows=[publish(original)]) as opened:
        assert await opened.result(run.id) == "a"
