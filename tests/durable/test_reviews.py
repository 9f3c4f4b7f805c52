"""Asking a person: what is asked, what comes back, and what the code makes of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from stepfast import (
    Answered,
    Rejected,
    Retry,
    Reviewed,
    ReviewInfo,
    RunFailed,
    RunState,
    WrongCall,
    emit,
    review,
    step,
    workflow,
)
from stepfast.testing import engine
from tests.durable.test_waiting import until
from tests.support.apps import Bodies, app_on
from tests.support.asking import KEYS


class Refund(BaseModel):
    customer: str
    cents: int


@dataclass
class Plan:
    steps: list[str]


class Entry(TypedDict):
    word: str


async def told(run) -> list[str]:
    return [event.type for event in await run.history()]


async def test_a_waiting_run_holds_nothing_and_goes_on_with_the_answer(database):
    @workflow
    async def flow() -> list[Any]:
        answer = await review("Publish?", show={"words": ["a", "b"]})
        return [answer.verdict, answer.value, answer.actor, answer.note]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        assert (await run.info()).worker_id is None
        (view,) = await app.reviews.list(run_id=run.id)
        await app.reviews.decide(view.review_id, "continue", note="well done", actor="anna")
        assert await run == ["continue", {"words": ["a", "b"]}, "anna", "well done"]
        assert [each for each in await told(run) if not each.startswith("step")] == [
            "queued",
            "claimed",
            "started",
            "review_requested",
            "exception_opened",
            "waiting",
            "review_decided",
            "exception_resolved",
            "claimed",
            "completed",
        ]


async def test_a_def_workflow_asks_too(database):
    bodies = Bodies()

    @step
    def mail(info: ReviewInfo) -> None:
        bodies.ran(info["title"])

    @workflow
    def flow() -> Any:
        answer: Any = review("Publish?", show="a text", notify=mail)
        return answer.value

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "a text"
    assert bodies == {"Publish?": 1}


async def test_the_answer_tells_all_that_is_known_of_it(database):
    @workflow
    async def flow() -> Reviewed[int]:
        return await review("Publish?", show=7, type=int)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        at = opened.clock.now()
        await opened.decide(run, "continue", actor="anna", note="yes")
        answer = ("continue", 7, "anna", "yes", at, view.digest, view.review_id)
        assert await opened.result(run) == Reviewed(*answer, (Answered("anna", "continue", "yes", at),))


@pytest.mark.parametrize(
    ("hint", "show", "correction"),
    [
        (Refund, Refund(customer="anna", cents=5), {"customer": "anna", "cents": 6}),
        (Plan, Plan(["dig"]), {"steps": ["dig", "sow"]}),
        (Entry, {"word": "a"}, {"word": "b"}),
        (list[int], [1], [1, 2]),
        (int | None, 1, None),
    ],
    ids=["pydantic", "dataclass", "TypedDict", "list", "union"],
)
@pytest.mark.parametrize("verdict", ["continue", "correct"])
async def test_the_value_is_of_the_type_that_was_asked_for(database, hint, show, correction, verdict):
    got: list[Any] = []

    @workflow
    async def flow() -> None:
        got.append((await review("Right?", show=show, type=hint)).value)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, verdict, correction if verdict == "correct" else None)
        await opened.result(run)
    assert type(got[0]) is type(show) or got == [None]
    shown_or_corrected = show if verdict == "continue" else correction
    plain = getattr(got[0], "__dict__", got[0])
    assert plain == getattr(shown_or_corrected, "__dict__", shown_or_corrected)


async def test_plain_json_that_fits_the_type_may_be_shown_for_it(database):
    @workflow
    async def flow() -> str:
        answer = await review("Right?", show={"customer": "anna", "cents": 5}, type=Refund)
        return type(answer.value).__name__

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "Refund"


async def test_what_is_shown_may_be_of_another_type_where_nobody_can_continue_with_it(database):
    @workflow
    async def flow() -> int:
        asked = review("How much?", show={"letter": "..."}, type=Refund, verdicts=["correct", "reject"])
        return (await asked).value.cents

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "correct", {"customer": "anna", "cents": 6})
        assert await opened.result(run) == 6


async def test_a_json_schema_will_do_for_a_type(database):
    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}

    @workflow
    async def flow() -> Any:
        return (await review("How much?", show={"cents": 1}, type=schema)).value

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        assert (await opened.app.reviews.get(view.review_id)).schema == schema
        await opened.decide(run, "correct", {"cents": 2})
        assert await opened.result(run) == {"cents": 2}


async def test_the_json_schema_of_a_type_is_stored_with_its_review(database):
    @workflow
    async def flow() -> None:
        await review("How much?", show=Refund(customer="anna", cents=5), type=Refund)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        schema = (await opened.app.reviews.get(view.review_id)).schema
    assert schema["properties"]["cents"]["type"] == "integer"
    assert schema["required"] == ["customer", "cents"]


async def test_a_rejected_review_raises_in_the_code(database):
    @workflow
    async def flow() -> str:
        try:
            await review("Publish?", show=1)
        except Rejected as error:
            return f"{error.code} {error}"
        return "accepted"

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "reject", actor="anna", note="too long")
        assert await opened.result(run) == "E-REV-006 The review 'Publish?' was rejected by anna: too long"


async def test_a_rejection_that_the_code_lets_pass_fails_the_run(database):
    @workflow
    async def flow() -> None:
        await review("Publish?", show=1)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "reject")
        with pytest.raises(RunFailed) as failed:
            await opened.result(run)
    assert isinstance(failed.value.__cause__, Rejected)


async def test_code_that_is_told_to_try_again_asks_again(database):
    bodies = Bodies()

    @step
    async def draft(note: str | None) -> str:
        bodies.ran("draft")
        return f"a text ({note})"

    @workflow
    async def flow() -> str:
        note = None
        while True:
            answer = await review("Publish?", show=await draft(note), type=str, verdicts=["continue", "retry"])
            if answer.verdict == "continue":
                return answer.value
            note = answer.note

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "retry", note="shorter")
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == "a text (shorter)"
    assert bodies["draft"] == 2


async def test_several_people_decide_together(database):
    @workflow
    async def flow() -> list[str | None]:
        answer = await review("Publish?", show=1, quorum=2)
        return [each.actor for each in answer.answers]

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.decide(run, "continue", actor="anna")
        await opened.run_until_idle()
        assert (await opened.info(run)).state is RunState.WAITING
        await opened.decide(run, "continue", actor="bert")
        assert await opened.result(run) == ["anna", "bert"]


async def test_one_who_rejects_is_enough_unless_it_takes_more(database):
    @workflow
    async def flow() -> str:
        try:
            await review("Publish?", show=1, quorum=2, quorum_reject=2)
        except Rejected:
            return "rejected"
        return "accepted"

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        for actor in ("anna", "bert"):
            assert len(await opened.reviews(run)) == 1
            await opened.decide(run, "reject", actor=actor)
        assert await opened.result(run) == "rejected"


async def test_people_are_told_once_with_what_they_need_to_answer(database):
    told: list[ReviewInfo] = []

    @step
    async def mail(info: ReviewInfo) -> None:
        told.append(info)

    @workflow
    async def flow() -> None:
        await review("Publish?", show=1, role="legal", expires="1h", notify=mail)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.crash()
        (view,) = await opened.reviews(run)
        await opened.decide(run, "continue")
        await opened.result(run)
    assert told == [
        {
            "review_id": view.review_id,
            "run_id": run.id,
            "title": "Publish?",
            "kind": "review_required",
            "digest": view.digest,
            "role": "legal",
            "assignee": None,
            "verdicts": ["continue", "reject", "escalate"],
            "expires_ms": 3_600_000,
        }
    ]


async def test_whoever_is_told_first_may_answer_before_the_others_are_told(database):
    @workflow
    async def flow() -> str | None:
        return (await review("Publish?", show=1, notify=mail)).actor

    @step
    async def mail(info: ReviewInfo) -> None:
        await app.reviews.decide(info["review_id"], "continue", actor="anna")

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == "anna"


async def test_an_answer_counts_that_came_before_a_token_for_somebody_else_could_be_issued(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_TOKEN_KEYS", KEYS[1])

    @workflow
    async def flow() -> str | None:
        return (await review("Publish?", show=1, notify=mail)).actor

    @step(retry=Retry(attempts=1))
    async def mail(info: ReviewInfo) -> None:
        token = await app.reviews.issue_token(info["review_id"], actor="anna")
        await app.reviews.resume(token, "continue")
        await app.reviews.issue_token(info["review_id"], actor="bob")

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == "anna"


async def test_an_answer_counts_that_came_before_the_telling_failed(database):
    @step(retry=Retry(attempts=2, base="1h", cap="1h"))
    async def mail(info: ReviewInfo) -> None:
        if (await opened.app.reviews.get(info["review_id"])).state == "open":
            await opened.app.reviews.decide(info["review_id"], "continue", actor="anna")
        raise ConnectionError("no mail today")

    @workflow
    async def flow() -> str | None:
        return (await review("Publish?", show=1, notify=mail)).actor

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.crash()
        assert await opened.result(run) == "anna"


async def test_a_review_that_nobody_could_be_told_of_is_withdrawn(database):
    @step
    async def mail(info: ReviewInfo) -> None:
        raise ConnectionError("no mail today")

    @workflow
    async def flow() -> str:
        try:
            await review("Publish?", show=1, notify=mail)
        except ConnectionError:
            await emit("nobody_told", {})
            return "nobody was told"
        return "told"

    async with engine(database=database, workflows=[flow]) as opened:
        assert await opened.run(flow) == "nobody was told"
        (view,) = await opened.app.reviews.list(state=None)
    assert view.state == "withdrawn"


async def test_a_title_is_stored_as_it_was_written(database):
    title = "\x1b[31mPublish\x1b[0m\n<script>alert(1)</script>\t\u202e?"

    @workflow
    async def flow() -> None:
        await review(title, show=1)

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        assert view.title == title
        await opened.decide(run, "continue")
        await opened.result(run)


async def test_a_large_thing_may_be_shown_and_corrected(database):
    large = {"text": "x" * 1_100_000}

    @workflow
    async def flow(text: str) -> list[int]:
        first = await review("Right?", show={"text": text}, type=dict[str, str])
        second = await review("And now?", show=first.value)
        return [len(first.value["text"]), len(second.value["text"])]

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow, large["text"])
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        assert (await opened.app.reviews.get(view.review_id)).shown == large
        await opened.decide(run, "correct", {"text": "y" * 1_200_000})
        await opened.run_until_idle()
        await opened.decide(run, "continue")
        assert await opened.result(run) == [1_200_000, 1_200_000]


async def test_a_verdict_is_heard_while_another_branch_is_busy(database):
    begun, go_on = asyncio.Event(), asyncio.Event()

    @step
    async def work() -> None:
        begun.set()
        await go_on.wait()

    @step
    async def after(verdict: str) -> str:
        go_on.set()
        return verdict

    @workflow
    async def flow() -> str:
        async def asked() -> str:
            return await after((await review("Publish?", show=1)).verdict)

        _, verdict = await asyncio.gather(work(), asked())
        return str(verdict)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await begun.wait()
        while not (views := await app.reviews.list(run_id=run.id)):
            pass
        assert (await run.info()).worker_id is not None
        await app.reviews.decide(views[0].review_id, "continue", actor="anna")
        assert await run == "continue"
        types = await told(run)
    assert types.count("review_decided") == 1
    assert types.index("review_decided") < types.index("step_completed")


async def test_a_step_cannot_ask_a_person(database):
    @step
    async def ask() -> None:
        await review("Publish?", show=1)

    @workflow
    async def flow() -> None:
        await ask()

    async with engine(database=database, workflows=[flow]) as opened:
        with pytest.raises(RunFailed) as failed:
            await opened.run(flow)
    assert isinstance(failed.value.__cause__, WrongCall)


async def test_why_names_the_review_and_whom_it_asks(database):
    @workflow
    async def flow() -> None:
        await review("Publish?", show=1, role="legal", expires="24h")

    async with engine(database=database, workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        (view,) = await opened.reviews(run)
        (reason,) = (await run.why()).reasons
    assert reason.text.startswith(f"It waits for review 'Publish?' ({view.review_id}), for role legal, until ")
    assert view.review_id in reason.moved_by
