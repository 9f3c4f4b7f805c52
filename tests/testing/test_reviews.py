"""Reviews in the hands of a test: answered as whoever was asked, or left to expire."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import Invalid, NotFound, RoleNotAllowed, WaitTimeout, review, workflow
from stepfast.testing import crash_points, engine


@workflow
async def ask_legal() -> str | None:
    try:
        return (await review("Publish?", show=1, role="legal", expires="24h")).actor
    except WaitTimeout:
        return "nobody"


@workflow
async def ask_ann() -> str | None:
    return (await review("Publish?", show=1, assignee="ann")).actor


@workflow
async def ask_two() -> list[str | None]:
    answers = await asyncio.gather(review("one", show=1), review("two", show=2))
    return [answer.actor for answer in answers]


async def test_a_review_is_answered_as_whoever_was_asked(database):
    async with engine(database=database, workflows=[ask_ann]) as opened:
        run = await opened.start(ask_ann)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "ann"


async def test_who_answers_instead_is_held_to_what_they_may(database):
    async with engine(database=database, workflows=[ask_legal]) as opened:
        run = await opened.start(ask_legal)
        await opened.run_until_idle()
        with pytest.raises(RoleNotAllowed):
            await opened.decide(run, "continue", actor="bob", role="press")
        await opened.decide(run, "continue", actor="bob")
        assert await opened.result(run) == "bob"


async def test_a_review_that_is_left_alone_expires(database):
    async with engine(database=database, workflows=[ask_legal]) as opened:
        run = await opened.start(ask_legal)
        await opened.run_until_idle()
        await opened.expire(run)
        assert await run.result() == "nobody"


async def test_the_result_of_a_run_moves_the_clock_over_the_time_to_answer(database):
    async with engine(database=database, workflows=[ask_legal]) as opened:
        begun = opened.clock.now()
        assert await opened.run(ask_legal) == "nobody"
        assert opened.clock.now() - begun == 24 * 3_600_000


async def test_one_of_several_reviews_is_named_by_its_id(database):
    async with engine(database=database, workflows=[ask_two]) as opened:
        run = await opened.start(ask_two)
        await opened.run_until_idle()
        with pytest.raises(Invalid, match=r"2 reviews: 'one' .*, 'two'"):
            await opened.decide(run, "continue")
        one, two = await opened.reviews(run)
        await opened.decide(two.review_id, "continue", actor="bob")
        await opened.decide(one, "continue", actor="ann")
        assert await opened.result(run) == ["ann", "bob"]


async def test_a_run_that_has_not_asked_yet_has_nothing_to_answer(database):
    async with engine(database=database, workflows=[ask_ann]) as opened:
        run = await opened.start(ask_ann)
        with pytest.raises(NotFound, match="Let it run first"):
            await opened.decide(run, "continue")


async def test_a_review_without_a_time_does_not_expire(database):
    async with engine(database=database, workflows=[ask_ann]) as opened:
        run = await opened.start(ask_ann)
        await opened.run_until_idle()
        with pytest.raises(Invalid, match="never expires"):
            await opened.expire(run)


async def test_an_answer_is_given_once_wherever_the_process_dies():
    async def scenario(opened):
        run = await opened.start(ask_ann)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        result = await opened.result(run)
        types = [event.type for event in await opened.events(run)]
        return result, types.count("review_decided")

    tried = await crash_points(scenario, workflows=[ask_ann])
    assert "change" in tried.calls


def test_without_an_event_loop():
    with engine(workflows=[ask_legal]) as opened:
        first, second = opened.start(ask_legal), opened.start(ask_legal)
        opened.run_until_idle()
        assert len(opened.reviews()) == 2
        opened.decide(first, "continue", actor="ann")
        assert opened.result(first) == "ann"
        opened.expire(second)
        assert opened.result(second) == "nobody"
