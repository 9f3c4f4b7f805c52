"""Reviews of runs that end, begin anew, or meet other code: none stays open, and people are asked anew where needed."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import (
    IllegalMove,
    Rejected,
    Retry,
    ReviewInfo,
    RunCancelled,
    RunFailed,
    RunState,
    continue_as,
    race,
    review,
    sleep,
    step,
    workflow,
)
from stepfast.testing import engine
from stepfast.workflows.review_calls import ReviewCall
from tests.support.apps import Bodies
from tests.support.turns import turn


async def states(opened) -> list[str]:
    """How all reviews stand, oldest first."""
    views = await opened.app.reviews.list(state=None)
    return [str(view.state) for view in sorted(views, key=lambda view: int(view.review_id.rpartition(".")[2]))]


bodies = Bodies()


@pytest.fixture(autouse=True)
def nothing_has_run():
    bodies.clear()


@step
async def mail(info: ReviewInfo) -> None:
    bodies.ran(info["review_id"].rpartition(".")[2])


@step(retry=Retry(attempts=1))
async def stumble_once() -> None:
    bodies.ran("stumble")
    if bodies["stumble"] == 1:
        raise ValueError("stumbled")


@workflow
async def asks() -> str:
    return (await review("Publish?", show=1, notify=mail)).verdict


@workflow
async def stumbles_beside() -> str:
    """Fails while people are asked."""

    async def stumble() -> None:
        await sleep("1h")
        await stumble_once()

    answer, _ = await asyncio.gather(review("Publish?", show=1, notify=mail), stumble())
    return str(answer.verdict)


async def waiting(opened, flow):
    run = await opened.start(flow)
    await opened.run_until_idle()
    return run


async def test_a_cancelled_run_withdraws_its_review_and_hears_of_no_answer(database):
    async with engine(database=database, workflows=[asks]) as opened:
        run = await waiting(opened, asks)
        (view,) = await opened.reviews(run)
        await run.cancel()
        with pytest.raises(IllegalMove, match="withdrawn"):
            await opened.decide(view, "continue")
        with pytest.raises(RunCancelled):
            await opened.result(run)
        assert await states(opened) == ["withdrawn"]


async def test_a_rejected_run_that_is_retried_asks_people_anew(database):
    async with engine(database=database, workflows=[asks]) as opened:
        run = await waiting(opened, asks)
        await opened.decide(run, "reject")
        with pytest.raises(RunFailed):
            await opened.result(run)
        await run.retry()
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        assert view.generation == 2
        await opened.decide(view, "continue")
        assert await opened.result(run) == "continue"
        assert await states(opened) == ["decided", "decided"]
    assert len(bodies) == 2, "people were told of each review"
    assert set(bodies.values()) == {1}


async def test_a_review_that_was_open_when_its_run_failed_is_asked_for_anew(database):
    async with engine(database=database, workflows=[stumbles_beside]) as opened:
        run = await waiting(opened, stumbles_beside)
        (old,) = await opened.reviews(run)
        with pytest.raises(RunFailed):
            await opened.result(run)
        await run.retry()
        await opened.run_until_idle()
        (new,) = await opened.reviews(run)
        assert new.review_id != old.review_id
        with pytest.raises(IllegalMove, match="withdrawn"):
            await opened.decide(old, "continue")
        await opened.decide(new, "continue")
        assert await opened.result(run) == "continue"
        assert await states(opened) == ["withdrawn", "decided"]


async def test_twin_that_does_not_ask_anew_waits_for_what_nobody_can_answer(database, monkeypatch):
    def begin(call, asked, record) -> None:
        call._asked, call._opened_as, call._started_at = asked, asked.call, asked.context.host.clock.now()

    async with engine(database=database, workflows=[stumbles_beside]) as opened:
        run = await waiting(opened, stumbles_beside)
        with pytest.raises(RunFailed):
            await opened.result(run)
        monkeypatch.setattr(ReviewCall, "begin", begin)
        await run.retry()
        await opened.run_until_idle()
        assert await opened.reviews(run) == []


async def test_a_retried_run_tells_people_of_the_review_that_is_open_and_of_no_other(database):
    told: list[str] = []

    @step(retry=Retry(attempts=1))
    async def tell(info: ReviewInfo) -> None:
        told.append(info["review_id"])
        if len(told) == 1:
            raise ConnectionError("no mail today")

    @workflow
    async def flow() -> str:
        return (await review("Publish?", show=1, notify=tell)).verdict

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        await run.retry()
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        await opened.crash()
        await opened.decide(view, "continue")
        assert await opened.result(run) == "continue"
    assert told[1:] == [view.review_id]
    assert told[0] != view.review_id


async def test_a_run_that_is_tried_again_by_its_own_policy_asks_anew(database):
    @workflow(retry=Retry(attempts=2))
    async def flow() -> str:
        return (await review("Publish?", show=1, notify=mail)).verdict

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        await opened.decide(run, "reject")
        await opened.run_until_idle()
        opened.clock.advance(60)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "continue"


async def test_an_answer_that_was_given_before_the_failure_is_kept_by_a_retry(database):
    async with engine(database=database, workflows=[stumbles_beside]) as opened:
        run = await waiting(opened, stumbles_beside)
        await opened.decide(run, "continue")
        with pytest.raises(RunFailed):
            await opened.result(run)
        await run.retry()
        assert await opened.result(run) == "continue"
        assert await states(opened) == ["decided"]


async def test_a_retried_run_goes_on_asking_where_it_was_after_every_crash(database):
    @workflow
    async def flow() -> list[str | None]:
        first = await review("One?", show=1)
        second = await review("Two?", show=2, notify=mail)
        third = await review("Three?", show=3)
        return [first.actor, second.actor, third.actor]

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        await opened.decide(run, "continue", actor="anna")
        await opened.run_until_idle()
        for _ in range(2):
            await opened.decide(run, "reject")
            with pytest.raises(RunFailed):
                await opened.result(run)
            await run.retry()
            await opened.crash()
            await opened.run_until_idle()
        for actor in ("bert", "carl"):
            await opened.decide(run, "continue", actor=actor)
            await opened.crash()
            await opened.run_until_idle()
        assert await run.result() == ["anna", "bert", "carl"]


async def test_a_rerun_asks_for_everything_anew(database):
    async with engine(database=database, workflows=[asks]) as opened:
        run = await waiting(opened, asks)
        await opened.decide(run, "continue")
        await opened.result(run)
        await run.rerun()
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "continue"
        assert await states(opened) == ["decided", "decided"]


async def test_a_rerun_from_behind_a_review_keeps_its_answer(database):
    @workflow
    async def flow() -> str:
        answer = await review("Publish?", show=1)
        await stumble_once()
        return answer.verdict

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        await opened.decide(run, "continue")
        with pytest.raises(RunFailed):
            await opened.result(run)
        await run.rerun(from_step="stumble_once")
        assert await opened.result(run) == "continue"
        assert await states(opened) == ["decided"]


async def test_code_that_starts_over_withdraws_what_it_left_open(database):
    @workflow
    async def flow(round_no: int) -> str:
        if round_no == 1:
            await race(review=review("Publish?", show=round_no), late=sleep("1h"))
            continue_as(round_no + 1)
        return (await review("Publish?", show=round_no)).verdict

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow, 1)
        await opened.run_until_idle()
        opened.clock.advance(3_600)
        await opened.run_until_idle()
        assert await states(opened) == ["withdrawn", "open"]
        await opened.decide(run, "continue")
        assert await opened.result(run) == "continue"


async def test_code_that_ends_beside_an_open_review_withdraws_it(database):
    @workflow
    async def flow() -> str:
        beside = asyncio.ensure_future(review("Publish?", show=1))
        await turn()
        await sleep("1h")
        assert not beside.done()
        return "done"

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        assert await states(opened) == ["open"]
        assert await opened.result(run) == "done"
        assert await states(opened) == ["withdrawn"]


async def test_a_run_that_is_out_of_time_withdraws_its_review(database):
    @workflow(timeout="1h")
    async def flow() -> None:
        await review("Publish?", show=1)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        opened.clock.advance(3_601)
        await opened.run_until_idle()
        assert (await opened.info(run)).state is RunState.FAILED
        assert await states(opened) == ["withdrawn"]


async def test_a_rejection_that_was_handled_is_not_asked_for_anew_by_a_retry(database):
    @workflow
    async def flow() -> str:
        try:
            await review("Publish?", show=1)
        except Rejected:
            await stumble_once()
            return "rejected"
        return "accepted"

    async with engine(database=database, workflows=[flow]) as opened:
        run = await waiting(opened, flow)
        await opened.decide(run, "reject")
        with pytest.raises(RunFailed):
            await opened.result(run)
        await run.retry()
        assert await opened.result(run) == "rejected"
        assert await states(opened) == ["decided"]
