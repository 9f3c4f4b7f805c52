"""A review that is asked for in a way that cannot work is refused at once, and leaves nothing behind."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from stepfast import Invalid, NotShowable, review, step, workflow
from stepfast.testing import engine


class Refund(BaseModel):
    cents: int


class Login(BaseModel):
    password: SecretStr


async def asked_with(options: dict[str, Any]) -> tuple[BaseException | None, int]:
    """What the code is told that asks so, and how many reviews there are then."""
    raised: list[BaseException] = []

    @workflow
    async def flow() -> None:
        try:
            await review(**{"title": "Publish?", "show": 1, "expires": "1h", **options})
        except Invalid as error:
            raised.append(error)

    async with engine(workflows=[flow]) as opened:
        await opened.start(flow)
        await opened.run_until_idle()
        return (raised[0] if raised else None), len(await opened.app.reviews.list(state=None))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"title": ""}, "0 characters"),
        ({"title": "x" * 1_001}, "1,001 characters"),
        ({"title": "a\0b"}, "NUL"),
        ({"title": "\ud800"}, "surrogate"),
        ({"title": 7}, "must be text"),
        ({"verdicts": ["approve"]}, "'approve'; allowed are continue, reject, correct, retry, escalate"),
        ({"verdicts": []}, "names none that could end it"),
        ({"verdicts": ["escalate"]}, "names none that could end it"),
        ({"verdicts": "continue"}, "give a list"),
        ({"verdicts": 7}, "give a list"),
        ({"verdicts": [["continue"]]}, "allowed are"),
        ({"on_expiry": "explode"}, "allowed here are fail, escalate, continue, reject"),
        ({"on_expiry": "correct", "type": int}, "allowed here are"),
        ({"on_expiry": "retry"}, "allowed here are"),
        ({"on_expiry": "continue", "verdicts": ["reject", "correct"]}, "allowed here are fail, escalate, reject"),
        ({"on_expiry": "continue", "expires": None}, "never expires"),
        ({"on_expiry": "escalate"}, "needs somebody to turn to"),
        ({"on_expiry": None}, "allowed here are"),
        ({"quorum": 0}, "from 1 to 1,000"),
        ({"quorum": 10**30}, "from 1 to 1,000"),
        ({"quorum": True}, "from 1 to 1,000"),
        ({"quorum": 1.5}, "from 1 to 1,000"),
        ({"quorum_reject": 0}, "quorum_reject of a review"),
        ({"expires": 0}, "nobody could answer in time"),
        ({"expires": -1}, "between 0 and 100 years"),
        ({"expires": timedelta(days=-1)}, "between 0 and 100 years"),
        ({"expires": "soon"}, "write seconds"),
        ({"expires": math.nan}, "write seconds"),
        ({"role": ""}, "The role of a review"),
        ({"assignee": "a\0"}, "The assignee of a review"),
        ({"escalate_to": ""}, "escalate_to of a review"),
        ({"escalate_role": 5}, "escalate_role of a review"),
        ({"kind": "failed"}, "allowed are review_required, low_confidence, policy_conflict"),
        ({"notify": print}, "Mark it @step"),
        ({"type": {"type": {1, 2}}}, "JSON Schema"),
        ({"type": {"type": "strng"}}, "JSON Schema"),
        ({"type": {"$schema": 3}}, "JSON Schema"),
        ({"type": {"$schema": ["x"]}}, "JSON Schema"),
        ({"type": math}, "type of a review"),
    ],
    ids=str,
)
async def test_wrong_arguments_are_refused_in_the_code_and_nothing_is_stored(options, words):
    error, reviews = await asked_with(options)
    assert isinstance(error, Invalid)
    assert words in str(error)
    assert reviews == 0


@pytest.mark.parametrize(
    ("show", "words"),
    [
        ({"items": [1, {2, 3}]}, "at .items[1] is"),
        ({"at": datetime(2025, 6, 15, tzinfo=UTC)}, "at .at is"),
        (Refund(cents=5), "give its type with type=..."),
        ({"share": math.nan}, "at .share is nan"),
        ({1: "a"}, "keys that are not strings"),
        ({"text": "\ud800"}, "lone surrogate"),
        (object(), "an object"),
        (b"bytes", "bytes"),
    ],
    ids=["set", "datetime", "model", "nan", "keys", "surrogate", "object", "bytes"],
)
async def test_what_is_no_json_is_refused_with_the_path_to_it(show, words):
    error, reviews = await asked_with({"show": show})
    assert isinstance(error, NotShowable)
    assert error.code == "E-REV-007"
    assert words in str(error)
    assert reviews == 0


async def test_what_contains_itself_is_refused():
    endless: list[Any] = []
    endless.append(endless)
    error, _ = await asked_with({"show": endless})
    assert isinstance(error, NotShowable)


@pytest.mark.parametrize(
    ("show", "hint", "words"),
    [
        ({"cents": "many"}, Refund, "cents"),
        ([1, "two"], list[int], "1"),
        (Refund.model_construct(cents={1}), Refund, "cents"),
        (Login(password=SecretStr("secret")), Login, "at .password is"),
        ("a text", Refund, "name verdicts without `continue`"),
    ],
    ids=["field", "item", "unchecked", "secret", "another thing"],
)
async def test_what_does_not_fit_the_type_is_refused_where_the_code_could_get_it_back(show, hint, words):
    error, reviews = await asked_with({"show": show, "type": hint})
    assert isinstance(error, NotShowable)
    assert words in str(error)
    assert "secret'" not in str(error)
    assert reviews == 0


async def test_a_call_that_is_wrong_raises_when_it_is_made_and_not_when_it_is_awaited():
    raised: list[BaseException] = []

    @workflow
    async def flow() -> None:
        try:
            review("")
        except Invalid as error:
            raised.append(error)

    async with engine(workflows=[flow]) as opened:
        await opened.run(flow)
    assert raised


async def test_a_step_that_tells_people_may_be_a_def():
    told: list[str] = []

    @step
    def mail(info: dict[str, Any]) -> None:
        told.append(info["title"])

    @workflow
    async def flow() -> None:
        await review("Publish?", notify=mail)

    async with engine(workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        await opened.result(run)
    assert told == ["Publish?"]
