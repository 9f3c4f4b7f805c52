"""The time to answer a review: by the database's clock, whoever has the run, and whatever becomes of it meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import Rejected, RunState, TokenExpired, WaitTimeout, race, receive, review, sleep, step, workflow
from stepfast.testing import engine
from stepfast.workflows.review_calls import ReviewCall
from tests.support.apps import Bodies
from tests.support.virtual_time import timed_app, until_ran


@workflow
async def by_tomorrow() -> str:
    try:
        return (await review("Publish?", show=1, expires="24h")).verdict
    except WaitTimeout as error:
        return error.code


@workflow
async def continues() -> str:
    answer = await review("Publish?", show="a text", expires="24h", on_expiry="continue")
    return f"{answer.verdict} {answer.value} {answer.actor}"


@workflow
async def rejects() -> str:
    try:
        await review("Publish?", show=1, expires="24h", on_expiry="reject")
    except Rejected as error:
        return str(error)
    return "accepted"


@workflow
async def tries_again() -> str:
    answer = await review("Publish?", show=1, expires="24h", on_expiry="retry", verdicts=["continue", "retry"])
    return answer.verdict


EXPECTED = {
    by_tomorrow: "E-WAIT-001",
    continues: "continue a text None",
    rejects: "The review 'Publish?' was rejected by the deadline.",
    tries_again: "retry",
}


@workflow
async def escalates() -> str:
    asked = review("Publish?", show=1, role="legal", expires="24h", on_expiry="escalate", escalate_to="chief")
    try:
        return (await asked).actor or ""
    except WaitTimeout as error:
        return error.code


async def waiting(opened, flow):
    run = await opened.start(flow)
    await opened.run_until_idle()
    return run


async def told(opened, run) -> list[str]:
    return [event.type for event in await opened.events(run)]


@pytest.mark.parametrize(("flow", "expected"), EXPECTED.items(), ids=lambda flow: getattr(flow, "__name__", ""))
async def test_a_review_that_nobody_answers_ends_as_its_author_wished(database, flow, expected):
    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        await opened.expire(run)
        assert await run.result() == expected
        (view,) = await opened.app.reviews.list(state=None)
        assert view.state == "expired"
        types = await told(opened, run)
    assert types.count("review_expired") == 1
    assert types.index("review_expired") < types.index("completed")


async def test_a_review_does_not_expire_before_its_time(database):
    async with engine(database=database, workflows=[by_tomorrow]) as opened:
        run = await waiting(opened, by_tomorrow)
        opened.clock.advance(24 * 3_600 - 1)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "continue"


async def test_an_answer_that_comes_too_late_is_refused_though_no_worker_has_looked(database):
    async with engine(database=database, workflows=[by_tomorrow]) as opened:
        run = await waiting(opened, by_tomorrow)
        opened.clock.advance(24 * 3_600)
        with pytest.raises(TokenExpired):
            await opened.decide(run, "continue")
        assert await opened.result(run) == "E-WAIT-001"


async def test_an_answer_in_time_counts_though_a_worker_takes_it_up_later(database):
    async with engine(database=database, workflows=[by_tomorrow]) as opened:
        run = await waiting(opened, by_tomorrow)
        await opened.decide(run, "continue")
        opened.clock.advance(48 * 3_600)
        assert await opened.result(run) == "continue"


async def test_a_review_that_nobody_answers_is_escalated_once_and_its_time_begins_anew(database):
    async with engine(database=database, workflows=[escalates]) as opened:
        run = await waiting(opened, escalates)
        await opened.expire(run)
        (view,) = await opened.reviews(run)
        assert (view.assignee, view.role, view.escalations) == ("chief", None, 1)
        assert view.due_at == opened.clock.now() + 24 * 3_600_000
        assert (await opened.info(run)).state is RunState.WAITING
        await opened.decide(run, "continue")
        assert await opened.result(run) == "chief"


async def test_a_review_that_nobody_answers_even_then_fails(database):
    async with engine(database=database, workflows=[escalates]) as opened:
        run = await waiting(opened, escalates)
        await opened.expire(run)
        await opened.expire(run)
        assert await run.result() == "E-WAIT-001"
        types = await told(opened, run)
    assert (types.count("review_escalated"), types.count("review_expired")) == (1, 1)


async def test_whoever_is_asked_may_pass_it_on_and_the_time_begins_anew(database):
    async with engine(database=database, workflows=[by_tomorrow]) as opened:
        run = await waiting(opened, by_tomorrow)
        opened.clock.advance(23 * 3_600)
        await opened.decide(run, "escalate", actor="anna", to="chief")
        opened.clock.advance(23 * 3_600)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "continue"


async def test_a_paused_run_expires_when_it_is_resumed(database):
    async with engine(database=database, workflows=[by_tomorrow]) as opened:
        run = await waiting(opened, by_tomorrow)
        await run.pause()
        opened.clock.advance(25 * 3_600)
        await opened.run_until_idle()
        assert (await opened.info(run)).state is RunState.PAUSED
        await run.resume()
        await opened.run_until_idle()
        assert await run.result() == "E-WAIT-001"


async def test_an_answer_to_a_paused_run_is_heard_when_it_is_resumed(database):
    async with engine(database=database, workflows=[by_tomorrow]) as opened:
        run = await waiting(opened, by_tomorrow)
        await run.pause()
        await opened.decide(run, "continue")
        await opened.run_until_idle()
        assert (await opened.info(run)).state is RunState.PAUSED
        opened.clock.advance(25 * 3_600)
        await run.resume()
        assert await opened.result(run) == "continue"


async def test_a_review_expires_while_another_branch_is_busy(database):
    bodies = Bodies()
    go_on = asyncio.Event()

    @step
    async def work() -> None:
        bodies.ran("work")
        await go_on.wait()

    @step
    async def after() -> None:
        go_on.set()

    @workflow
    async def flow() -> str:
        async def asked() -> str:
            try:
                return (await review("Publish?", show=1, expires="100ms")).verdict
            except WaitTimeout:
                await after()
                return "late"

        _, said = await asyncio.gather(work(), asked())
        return str(said)

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_ran(run, bodies, "work")
        assert await time.result(run) == "late"
    assert bodies["work"] == 1


@pytest.mark.parametrize("first", ["review", "timer"])
async def test_of_a_review_and_a_timer_that_are_over_the_earlier_ends_first(database, first):
    spans = {"review": ("1h", "2h"), "timer": ("2h", "1h")}

    @workflow
    async def flow() -> str:
        expires, rests = spans[first]
        try:
            name, _ = await race(review=review("Publish?", show=1, expires=expires), timer=sleep(rests))
        except WaitTimeout:
            return "review"
        return name

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        opened.clock.advance(3 * 3_600)
        await opened.run_until_idle()
        assert await run.result() == first


async def test_a_verdict_that_came_behind_a_timer_is_heard_behind_it(database):
    @workflow
    async def flow() -> str:
        name, _ = await race(review=review("Publish?", show=1), timer=sleep("1h"))
        return name

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        opened.clock.advance(2 * 3_600)
        await opened.decide(run, "continue")
        await opened.run_until_idle()
        assert await run.result() == "timer"


async def test_two_reviews_that_are_over_at_once_both_end(database):
    @workflow
    async def flow() -> list[str]:
        async def asked(title: str, expires: str) -> str:
            try:
                return (await review(title, show=1, expires=expires)).verdict
            except WaitTimeout:
                return f"{title} is late"

        return list(await asyncio.gather(asked("one", "2h"), asked("two", "1h"), asked("three", "1h")))

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        opened.clock.advance(3 * 3_600)
        await opened.run_until_idle()
        assert await run.result() == ["one is late", "two is late", "three is late"]


async def test_a_review_may_be_waited_for_beside_a_signal(database):
    @workflow
    async def flow() -> str:
        name, _ = await race(review=review("Publish?", show=1, expires="1h"), stopped=receive("stop"))
        return name

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        await opened.signal(run, "stop")
        assert await opened.result(run) == "stopped"
        (view,) = await opened.app.reviews.list(state=None)
    assert view.state == "withdrawn"


async def test_twin_whose_holder_decides_by_itself_that_a_review_is_over_asks_nobody_else(database, monkeypatch):
    async def nothing_asked(call, wait_id) -> bool:
        return True

    monkeypatch.setattr(ReviewCall, "_expire", nothing_asked)
    monkeypatch.setattr(ReviewCall, "due", lambda call, wait: call.fail(WaitTimeout("Nobody answered.")))
    async with engine(database=database, workflows=[escalates]) as opened:
        run = await waiting(opened, escalates)
        await opened.expire(run)
        (view,) = await opened.app.reviews.list(state=None)
        assert (await run.result(), view.state, view.escalations) == ("E-WAIT-001", "withdrawn", 0)
