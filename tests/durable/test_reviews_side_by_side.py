"""Several reviews at once: each keeps its place, and one that the code no longer waits for is withdrawn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import (
    ReviewInfo,
    RunFailed,
    RunState,
    WaitTimeout,
    each,
    race,
    receive,
    review,
    sleep,
    step,
    timeout,
    workflow,
)
from stepfast.kernel import rules
from stepfast.testing import crash_points, engine
from stepfast.workflows.review_calls import AskCall, ReviewCall
from tests.support.apps import Bodies, app_on

TITLES = ["law", "money", "style"]


async def asked(title: str) -> str:
    answer = await review(title, show={"of": title})
    return f"{title}: {answer.actor}"


@workflow
async def gathered() -> list[str]:
    return list(await asyncio.gather(*(asked(title) for title in TITLES)))


@workflow
async def grouped() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(asked(title)) for title in TITLES]
    return [task.result() for task in tasks]


@workflow
async def of_each() -> list[str]:
    return await each(asked, TITLES)


@workflow
def of_each_in_def() -> list[str]:
    return each.sync(asked, TITLES)


@pytest.mark.parametrize("flow", [gathered, grouped, of_each, of_each_in_def], ids=lambda flow: flow.__name__)
async def test_reviews_in_parallel_branches_keep_their_places_whoever_answers_first(database, flow):
    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        for title in reversed(TITLES):
            views = {view.title: view for view in await opened.reviews(run)}
            await opened.decide(views[title], "continue", actor=f"who knows {title}")
            await opened.crash()
            await opened.run_until_idle()
        assert await run.result() == [f"{title}: who knows {title}" for title in TITLES]


async def test_equal_reviews_side_by_side_are_two(database):
    @workflow
    async def flow() -> list[str | None]:
        answers = await asyncio.gather(review("Publish?", show=1), review("Publish?", show=1))
        return [answer.actor for answer in answers]

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        first, second = await opened.reviews(run)
        await opened.decide(second, "continue", actor="bert")
        await opened.run_until_idle()
        await opened.decide(first, "continue", actor="anna")
        assert sorted(await opened.result(run)) == ["anna", "bert"]


@workflow
async def raced() -> str:
    name, _ = await race(review=review("Publish?", show=1), late=sleep("1h"))
    await sleep("1h")
    return name


@workflow
def raced_in_def() -> str:
    name, _ = race.sync(review=lambda: review("Publish?", show=1), late=lambda: sleep("1h"))
    sleep("1h")
    return name


@workflow
async def within_an_hour() -> str:
    try:
        async with timeout("1h"):
            await review("Publish?", show=1)
    except WaitTimeout:
        await sleep("1h")
        return "late"
    return "in time"


@workflow
def within_an_hour_in_def() -> str:
    try:
        with timeout("1h"):
            review("Publish?", show=1)
    except WaitTimeout:
        sleep("1h")
        return "late"
    return "in time"


LOSING = [raced, raced_in_def, within_an_hour, within_an_hour_in_def]


@pytest.mark.parametrize("flow", LOSING, ids=lambda flow: flow.__name__)
async def test_a_review_that_loses_its_race_is_withdrawn_while_the_run_goes_on(database, flow):
    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        opened.clock.advance(3_600)
        await opened.run_until_idle()
        (view,) = await opened.app.reviews.list(state=None)
        assert ((await opened.info(run)).state, view.state) == (RunState.WAITING, "withdrawn")
        assert await opened.result(run) == "late"


async def test_a_review_that_wins_its_race_leaves_nothing_to_wake_the_run(database):
    @workflow
    async def flow() -> str:
        name, answer = await race(review=review("Publish?", show=1), late=sleep("1h"))
        await receive("go")
        return f"{name} {answer.verdict}"

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        await opened.run_until_idle()
        opened.clock.advance(7_200)
        await opened.run_until_idle()
        assert [event.type for event in await opened.events(run)].count("claimed") == 2
        await opened.signal(run, "go")
        assert await opened.result(run) == "review continue"


@pytest.fixture
def mail_is_stuck():
    """A step that tells people and does not get to its end while the test wishes; and the workflow that calls it."""
    begun, go_on, bodies = asyncio.Event(), asyncio.Event(), Bodies()

    @step
    async def mail(info: ReviewInfo) -> None:
        bodies.ran("mail")
        begun.set()
        await go_on.wait()

    @step
    async def wait_for_mail() -> None:
        await begun.wait()

    @workflow
    async def flow() -> str:
        name, _ = await race(review=review("Publish?", show=1, notify=mail), other=wait_for_mail())
        await receive("go")
        return name

    return flow


async def test_a_review_whose_race_is_lost_while_people_are_told_is_withdrawn(database, mail_is_stuck):
    async with app_on(database, [mail_is_stuck]) as app:
        run = await app.start(mail_is_stuck)
        while (await run.info()).state is not RunState.WAITING:
            pass
        (view,) = await app.reviews.list(state=None)
        assert view.state == "withdrawn"
        await run.signal("go")
        assert await run == "other"


async def test_twin_without_the_withdrawal_people_are_asked_for_what_nobody_wants(database, mail_is_stuck, monkeypatch):
    monkeypatch.setattr(ReviewCall, "call_off", lambda call, asked: call._stop_waiting(call._wait))
    async with app_on(database, [mail_is_stuck]) as app:
        run = await app.start(mail_is_stuck)
        while (await run.info()).state is not RunState.WAITING:
            pass
        (view,) = await app.reviews.list(state=None)
        assert view.state == "open"


@step
async def quick() -> None:
    """Something that ends while the review is just being opened."""


@step
async def tell(info: ReviewInfo) -> None:
    """Mails go out."""


@step
async def before() -> None:
    """Something that must be done before people are asked."""


@workflow
async def lost_when_open() -> str:
    winner, _ = await race(quick=quick(), review=review("Publish?", show=1, notify=tell))
    await sleep("1h")
    return winner


@workflow
async def lost_while_opening() -> str:
    async def asked_then() -> None:
        await before()
        await review("Publish?", show=1, notify=tell)

    winner, _ = await race(review=asked_then(), quick=quick())
    await sleep("1h")
    return winner


def losing(flow):
    async def scenario(opened) -> Any:
        run = await opened.start(flow)
        while (await opened.info(run)).state is not RunState.WAITING:
            await opened.run_until_idle()
        views = await opened.app.reviews.list(state=None)
        assert {view.state for view in views} <= {"withdrawn"}, "a review that nobody waits for is open"
        return await opened.result(run)

    return scenario


@pytest.mark.parametrize("flow", [lost_when_open, lost_while_opening], ids=lambda flow: flow.__name__)
async def test_a_review_that_nobody_waits_for_is_withdrawn_wherever_the_process_dies(flow):
    await crash_points(losing(flow), workflows=[flow])


def leave_open(call, asked, *_) -> None:
    asked.context.busy.discard(asked.call)


@pytest.mark.parametrize(
    ("flow", "kind", "guard", "broken"),
    [
        (lost_when_open, ReviewCall, "withdrawal", lambda call, run, record: rules.call_off(run, record)),
        (lost_while_opening, AskCall, "_withdraw", leave_open),
        (lost_while_opening, AskCall, "abandon", leave_open),
    ],
    ids=["when open", "while opening", "opened by a dead process"],
)
async def test_twin_without_a_guard_some_review_stays_open_that_nobody_waits_for(
    monkeypatch, flow, kind, guard, broken
):
    monkeypatch.setattr(kind, guard, broken)
    with pytest.raises(AssertionError, match="nobody waits for is open"):
        await crash_points(losing(flow), workflows=[flow])


async def test_code_that_fails_beside_a_review_withdraws_it(database):
    @step
    async def stumble() -> None:
        raise ValueError("stumbled")

    @workflow
    async def flow() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asked("law"))
            group.create_task(stumble())

    async with engine(database=database, workflows=[flow]) as opened:
        with pytest.raises(RunFailed):
            await opened.run(flow)
        views = await opened.app.reviews.list(state=None)
    assert {view.state for view in views} <= {"withdrawn"}
