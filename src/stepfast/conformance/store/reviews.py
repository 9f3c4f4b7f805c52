"""Reviews: opened with their wait, answered once whatever comes together, read back, and never without an end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from stepfast.conformance.store.acts import HOUR_MS, NOON, asked, end, fail, park, told_by
from stepfast.conformance.store.harness import Harness
from stepfast.conformance.store.suite import StoreSuite, cases, on_fresh_stores
from stepfast.kernel.commands import Cancel, Changed, Command, Pause, Request, RetryRun
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import (
    IllegalMove,
    KeyReused,
    NotFound,
    RoleNotAllowed,
    StepfastError,
    TokenExpired,
    TokenForeign,
    TokenUsed,
    TokenWrong,
    VerdictNotAllowed,
)
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.review_views import NO_RUN, FiguresFilter, ReviewFilter, WholeReview
from stepfast.kernel.reviews import (
    Assign,
    Comment,
    Decide,
    Expire,
    IssueToken,
    Owner,
    ReviewId,
    ReviewState,
    TokenUse,
    Verdict,
)
from stepfast.kernel.rules import call_off, owed_event
from stepfast.kernel.states import RunState, TaskState

DAY_MS = 24 * HOUR_MS
YES = Decide(1, Verdict.CONTINUE)
ANN = IssueToken(1, "hash of ann's", "ann", HOUR_MS)
USE = TokenUse("hash of ann's")
BY_TOKEN = Decide(1, Verdict.CONTINUE, token=USE)


async def opened(harness: Harness, is_held: bool = False, **changes: Any) -> HeldRun:
    """A run with review 1, which waits for nothing else unless its holder has it still."""
    run = await harness.held()
    await harness.save(asked(run, **changes))
    if not is_held:
        await harness.save(park(run))
    return run


async def whole(harness: Harness, run_id: RunId, number: int = 1) -> WholeReview:
    found = await harness.store.review(None, ReviewId(run_id, number))
    assert found is not None, f"review {run_id}.{number} is gone"
    return found


async def state_of(harness: Harness, run_id: RunId, number: int = 1) -> ReviewState:
    return (await whole(harness, run_id, number)).view.state


async def answer_of(harness: Harness, run_id: RunId, number: int = 1) -> Any:
    """What a review brought to the run's code, if it did."""
    inbox = (await harness.look(run_id)).inbox
    texts = [message.value for message in inbox if (message.kind, message.name) == ("review", str(number))]
    assert len(texts) <= 1, texts
    return json.loads(texts[0] or "null") if texts else None


async def outcomes_told(harness: Harness, run_id: RunId) -> list[str]:
    """How each token that was shown to a run was met, by its history."""
    events = await harness.store.events(run_id)
    return [told_by(event)["outcome"] for event in events if event.type == EventType.RESUME_SUBMITTED]


async def nothing_endless(harness: Harness) -> bool:
    return (await harness.store.endless_reviews(None, None)).found == ()


@on_fresh_stores
class ReviewsSuite(StoreSuite):
    """A review has a question, answers, at most one verdict and exactly one end."""

    async def test_a_review_is_there_with_its_wait(self, harness: Harness) -> None:
        run = await opened(harness, expires_ms=HOUR_MS, owner=Owner("ann", "legal"), schema='{"type": "object"}')
        review = await whole(harness, run.run_id)
        assert (review.shown, review.schema, review.said, review.tokens) == (
            '{"total": 12}',
            '{"type": "object"}',
            (),
            (),
        )
        view = review.view
        assert (view.review_id, view.state, view.assignee, view.role) == (f"{run.run_id}.1", "open", "ann", "legal")
        assert (view.opened_at, view.due_at, view.ended_at) == (harness.now, harness.now + HOUR_MS, None)
        assert [wait.wait_id for wait in (await harness.look(run.run_id)).waits] == [1]
        assert (await harness.event_types(run.run_id))[2:4] == ["review_requested", "exception_opened"]

    async def test_a_verdict_ends_a_review_and_wakes_its_run(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.advance(5)
        await harness.change(run.run_id, YES, actor="ann")
        view = (await whole(harness, run.run_id)).view
        assert (view.state, view.verdict, view.actor, view.ended_at) == ("decided", "continue", "ann", harness.now)
        assert (await harness.standing(run.run_id))[0] is TaskState.READY
        assert (await answer_of(harness, run.run_id))["verdict"] == "continue"
        assert (await harness.event_types(run.run_id))[-2:] == ["review_decided", "exception_resolved"]

    async def test_a_run_that_is_paused_keeps_its_answer_and_is_not_woken(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, Pause())
        await harness.change(run.run_id, YES)
        assert await harness.state(run.run_id) is RunState.PAUSED
        assert (await answer_of(harness, run.run_id))["verdict"] == "continue"

    async def test_a_verdict_on_a_run_that_is_held_leaves_its_events_to_the_holder(self, harness: Harness) -> None:
        run = await opened(harness, is_held=True)
        await harness.change(run.run_id, YES)
        assert "review_decided" not in await harness.event_types(run.run_id)
        inbox = (await harness.look(run.run_id)).inbox
        assert {"review_decided", "exception_resolved", "review"} == {message.kind for message in inbox}
        assert owed_event(inbox[0]).type is EventType.REVIEW_DECIDED

    async def test_what_a_holder_had_no_time_to_tell_is_told_behind_its_end(self, harness: Harness) -> None:
        run = await opened(harness, is_held=True)
        await harness.change(run.run_id, YES)
        await harness.save(end(run))
        assert (await harness.event_types(run.run_id))[-3:] == ["completed", "review_decided", "exception_resolved"]
        assert await nothing_endless(harness)

    async def test_the_second_verdict_is_refused_and_changes_nothing(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, YES, actor="ann")
        before = await harness.contents()
        assert isinstance(await harness.refusal(run.run_id, Decide(1, Verdict.REJECT), actor="bob"), IllegalMove)
        assert await harness.contents() == before

    async def test_a_verdict_that_comes_again_with_its_key_is_answered_as_the_first_time(
        self, harness: Harness
    ) -> None:
        run = await opened(harness)
        first = await harness.change(run.run_id, YES, key="k")
        again = await harness.change(run.run_id, YES, key="k")
        assert (first.repeated, again.repeated) == (False, True)
        assert isinstance(await harness.refusal(run.run_id, Decide(1, Verdict.REJECT), key="k"), KeyReused)

    @cases(
        wrong={
            "a verdict that is not allowed": (Decide(1, Verdict.RETRY), VerdictNotAllowed),
            "a verdict that does not exist": (Decide(1, "perhaps"), VerdictNotAllowed),
            "an answer to something else": (Decide(1, Verdict.CONTINUE, digest="other"), VerdictNotAllowed),
            "a review that does not exist": (Decide(2, Verdict.CONTINUE), NotFound),
            "an expiry before its time": (Expire(1), IllegalMove),
        }
    )
    async def test_what_does_not_fit_changes_nothing(
        self, harness: Harness, wrong: tuple[Command, type[StepfastError]]
    ) -> None:
        run = await opened(harness, expires_ms=HOUR_MS)
        before = await harness.contents()
        command, kind = wrong
        assert type(await harness.refusal(run.run_id, command)) is kind
        assert await harness.contents() == before

    async def test_only_the_assignee_answers(self, harness: Harness) -> None:
        run = await opened(harness, owner=Owner("ann"))
        assert isinstance(await harness.refusal(run.run_id, YES, actor="bob"), RoleNotAllowed)
        await harness.change(run.run_id, YES, actor="ann")

    async def test_somebody_else_is_asked(self, harness: Harness) -> None:
        run = await opened(harness, owner=Owner("ann"))
        await harness.change(run.run_id, Assign(1, Owner("bob", "legal")), actor="eve", reason="ill")
        view = (await whole(harness, run.run_id)).view
        assert (view.assignee, view.role) == ("bob", "legal")
        assert told_by(await harness.last_event(run.run_id))["reason"] == "ill"

    async def test_a_quorum_needs_as_many_people(self, harness: Harness) -> None:
        run = await opened(harness, quorum=2)
        await harness.change(run.run_id, YES, actor="ann")
        assert await state_of(harness, run.run_id) is ReviewState.OPEN
        assert isinstance(await harness.refusal(run.run_id, YES, actor="ann"), TokenUsed)
        await harness.change(run.run_id, YES, actor="bob")
        assert await state_of(harness, run.run_id) is ReviewState.DECIDED
        said = (await whole(harness, run.run_id)).said
        assert [each.actor for each in said] == ["ann", "bob"]

    async def test_comments_are_kept_in_order_and_decide_nothing(self, harness: Harness) -> None:
        run = await opened(harness)
        for text in ("hm", "\x1b[31mred <script>"):
            await harness.change(run.run_id, Comment(1, text), actor="ann")
        said = (await whole(harness, run.run_id)).said
        assert [(each.verdict, each.note, each.actor) for each in said] == [
            (None, "hm", "ann"),
            (None, "\x1b[31mred <script>", "ann"),
        ]
        assert await state_of(harness, run.run_id) is ReviewState.OPEN

    async def test_an_escalation_asks_somebody_else_and_begins_the_time_anew(self, harness: Harness) -> None:
        run = await opened(harness, expires_ms=HOUR_MS)
        await harness.advance(HOUR_MS // 2)
        await harness.change(run.run_id, Decide(1, Verdict.ESCALATE, to=Owner(None, "boss")), actor="ann")
        view = (await whole(harness, run.run_id)).view
        assert (view.state, view.role, view.escalations) == ("open", "boss", 1)
        assert view.due_at == harness.now + HOUR_MS
        (wait,) = (await harness.look(run.run_id)).waits
        assert wait.due_at == view.due_at
        assert await harness.claim() == []

    async def test_a_run_is_claimed_when_its_review_falls_due_and_not_before(self, harness: Harness) -> None:
        run = await opened(harness, expires_ms=HOUR_MS)
        await harness.advance(HOUR_MS - 1)
        assert await harness.claim() == []
        await harness.advance(1)
        assert [held.run_id for held in await harness.claim()] == [run.run_id]

    async def test_an_expiry_counts_once_its_time_is_over(self, harness: Harness) -> None:
        run = await opened(harness, expires_ms=HOUR_MS)
        await harness.advance(HOUR_MS)
        await harness.change(run.run_id, Expire(1))
        view = (await whole(harness, run.run_id)).view
        assert (view.state, view.verdict, view.actor) == ("expired", None, None)
        assert (await answer_of(harness, run.run_id))["verdict"] is None
        assert isinstance(await harness.refusal(run.run_id, YES), IllegalMove)

    async def test_a_verdict_that_comes_too_late_is_refused_though_nobody_has_noticed_yet(
        self, harness: Harness
    ) -> None:
        run = await opened(harness, expires_ms=HOUR_MS)
        await harness.advance(HOUR_MS)
        assert isinstance(await harness.refusal(run.run_id, YES), TokenExpired)
        await harness.change(run.run_id, Expire(1))

    async def test_a_cancelled_run_withdraws_its_review(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, Cancel())
        view = (await whole(harness, run.run_id)).view
        assert (view.state, view.ended_at) == ("withdrawn", harness.now)
        assert isinstance(await harness.refusal(run.run_id, YES), IllegalMove)
        assert await nothing_endless(harness)

    async def test_a_wait_that_is_called_off_withdraws_its_review(self, harness: Harness) -> None:
        run = await opened(harness, is_held=True)
        opening = asked(run)
        gone = call_off(run, opening.records[0], (1,), ReviewId(run.run_id, 1))
        gone.first_seq, gone.first_event = run.last_seq, run.last_event - 1
        await harness.save(gone)
        assert await state_of(harness, run.run_id) is ReviewState.WITHDRAWN
        assert await nothing_endless(harness)

    async def test_a_token_answers_once(self, harness: Harness) -> None:
        run = await opened(harness, owner=Owner(None, "legal"))
        await harness.change(run.run_id, ANN)
        await harness.change(run.run_id, BY_TOKEN)
        assert isinstance(await harness.refusal(run.run_id, BY_TOKEN), TokenUsed)
        (token,) = (await whole(harness, run.run_id)).tokens
        assert (token.actor, token.used_at) == ("ann", harness.now)
        assert await outcomes_told(harness, run.run_id) == ["accepted", "E-REV-003"]

    @cases(
        refused={
            "never issued": (USE._replace(hash="other"), None, TokenWrong),
            "of another subject": (USE._replace(subject="other"), None, TokenForeign),
            "of another tenant": (USE._replace(tenant="other"), None, TokenForeign),
            "of another person": (USE, "bob", TokenForeign),
        }
    )
    async def test_a_token_that_is_refused_is_told_of_and_changes_nothing(
        self, harness: Harness, refused: tuple[TokenUse, str | None, type[StepfastError]]
    ) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, ANN)
        before = await whole(harness, run.run_id), (await harness.look(run.run_id)).inbox
        use, actor, kind = refused
        refusal = await harness.refusal(run.run_id, Decide(1, Verdict.CONTINUE, token=use), actor=actor)
        assert type(refusal) is kind
        assert (await whole(harness, run.run_id), (await harness.look(run.run_id)).inbox) == before
        assert await outcomes_told(harness, run.run_id) == [refusal.code]

    async def test_a_token_works_until_its_time_is_over(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, ANN)
        await harness.advance(HOUR_MS)
        assert isinstance(await harness.refusal(run.run_id, BY_TOKEN), TokenExpired)
        assert await state_of(harness, run.run_id) is ReviewState.OPEN

    async def test_a_token_works_no_longer_than_its_review(self, harness: Harness) -> None:
        run = await opened(harness, expires_ms=HOUR_MS // 2)
        await harness.change(run.run_id, ANN)
        (token,) = (await whole(harness, run.run_id)).tokens
        assert token.expires_at == harness.now + HOUR_MS // 2

    async def test_a_token_of_a_run_that_was_cancelled_works_no_more(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, ANN)
        await harness.change(run.run_id, Cancel())
        assert isinstance(await harness.refusal(run.run_id, BY_TOKEN), TokenUsed)
        assert await outcomes_told(harness, run.run_id) == ["E-REV-003"]

    async def test_a_token_of_an_earlier_generation_is_foreign(self, harness: Harness) -> None:
        run = await opened(harness, is_held=True)
        await harness.change(run.run_id, ANN)
        await harness.save(fail(run))
        await harness.change(run.run_id, RetryRun())
        assert isinstance(await harness.refusal(run.run_id, BY_TOKEN), TokenForeign)
        assert await state_of(harness, run.run_id) is ReviewState.WITHDRAWN

    async def test_of_many_answers_by_one_token_one_counts(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, ANN)
        async with harness.another() as other:
            stores = [harness.store, other] * 5
            answers = await asyncio.gather(*(store.change([Request(run.run_id, BY_TOKEN)]) for store in stores))
        kinds = sorted(type(answer).__name__ for (answer,) in answers)
        assert kinds == ["Changed", *["TokenUsed"] * 9]
        assert len((await whole(harness, run.run_id)).said) == 1

    @cases(rival={"a cancel": Cancel(), "another verdict": Decide(1, Verdict.REJECT)})
    async def test_of_a_verdict_and_what_comes_with_it_one_counts(self, harness: Harness, rival: Command) -> None:
        run = await opened(harness)
        async with harness.another() as other:
            answers = await asyncio.gather(
                harness.store.change([Request(run.run_id, YES)]), other.change([Request(run.run_id, rival)])
            )
        changed = [answer for (answer,) in answers if isinstance(answer, Changed)]
        state = await state_of(harness, run.run_id)
        # A run may be cancelled after its review was decided; the verdict counts then as well.
        assert len(changed) == 1 or (isinstance(rival, Cancel) and state is ReviewState.DECIDED)
        assert await nothing_endless(harness)

    async def test_each_command_of_one_call_sees_what_those_before_it_did(self, harness: Harness) -> None:
        run = await opened(harness)
        answers = await harness.store.change([Request(run.run_id, YES), Request(run.run_id, YES)])
        assert [isinstance(answer, Changed) for answer in answers] == [True, False]
        assert isinstance(answers[1], IllegalMove)

    async def test_reviews_are_listed_newest_run_first_and_by_page(self, harness: Harness) -> None:
        runs = [await opened(harness) for _ in range(3)]
        listed = await harness.store.reviews(ReviewFilter(limit=2))
        last = ReviewId(listed[-1].run_id, 1)
        rest = await harness.store.reviews(ReviewFilter(before=last))
        assert [view.run_id for view in (*listed, *rest)] == sorted((run.run_id for run in runs), reverse=True)

    @cases(
        where={
            "its tenant": (ReviewFilter(tenant="acme"), True),
            "another tenant": (ReviewFilter(tenant="other"), False),
            "its workflow": (ReviewFilter(workflow="order"), True),
            "another workflow": (ReviewFilter(workflow="other"), False),
            "those that are open": (ReviewFilter(state=ReviewState.OPEN), True),
            "those that are decided": (ReviewFilter(state=ReviewState.DECIDED), False),
            "its role": (ReviewFilter(role="legal", tenant="acme", state=ReviewState.OPEN), True),
            "another role": (ReviewFilter(role="other"), False),
            "its assignee": (ReviewFilter(assignee="ann"), True),
            "another assignee": (ReviewFilter(assignee="bob"), False),
            "opened before": (ReviewFilter(opened_after=Instant(NOON + 1)), False),
            "opened after": (ReviewFilter(opened_after=Instant(NOON - 1)), True),
        }
    )
    async def test_reviews_are_found_by_filters(self, harness: Harness, where: tuple[ReviewFilter, bool]) -> None:
        await opened(harness, owner=Owner("ann", "legal"))
        wanted, is_found = where
        assert bool(await harness.store.reviews(wanted)) is is_found

    async def test_reviews_are_found_by_their_run(self, harness: Harness) -> None:
        one, _ = await opened(harness), await opened(harness)
        assert [view.run_id for view in await harness.store.reviews(ReviewFilter(run_id=one.run_id))] == [one.run_id]

    async def test_the_review_of_another_tenant_is_not_seen(self, harness: Harness) -> None:
        run = await opened(harness)
        assert await harness.store.review("other", ReviewId(run.run_id, 1)) is None
        assert await harness.store.review("acme", ReviewId(run.run_id, 1)) is not None

    async def test_figures_count_what_became_of_reviews(self, harness: Harness) -> None:
        quick, slow, gone, _ = [await opened(harness, expires_ms=3 * DAY_MS) for _ in range(4)]
        await harness.change(gone.run_id, Cancel())
        await harness.advance(HOUR_MS)
        await harness.change(quick.run_id, YES)
        await harness.advance(2 * DAY_MS)
        await harness.change(slow.run_id, YES)
        figures = await harness.store.review_figures(FiguresFilter(tenant="acme"), DAY_MS)
        assert figures[:6] == (4, 2, 0, 1, 1, 0)
        assert (figures.waited_p50_ms, figures.waited_p95_ms) == (HOUR_MS, 2 * DAY_MS + HOUR_MS)
        assert (figures.due_for_target, figures.in_time, figures.refusals) == (3, 1, {})

    async def test_figures_count_refusals_by_their_code(self, harness: Harness) -> None:
        run = await opened(harness)
        await harness.change(run.run_id, ANN)
        await harness.refusal(run.run_id, Decide(1, Verdict.CONTINUE, token=TokenUse("other")))
        await harness.refusal(run.run_id, Decide(7, Verdict.CONTINUE, token=TokenUse("other")))
        await harness.change(run.run_id, BY_TOKEN)
        await harness.refusal(run.run_id, BY_TOKEN)
        await harness.store.tell("acme", EventType.RESUME_SUBMITTED, None, '{"outcome": "E-REV-001"}')
        everything, of_role = FiguresFilter(tenant="acme"), FiguresFilter(role="legal")
        assert (await harness.store.review_figures(everything, 1)).refusals == {"E-REV-001": 3, "E-REV-003": 1}
        assert (await harness.store.review_figures(of_role, 1)).refusals == {}

    async def test_figures_of_nothing_are_none(self, harness: Harness) -> None:
        figures = await harness.store.review_figures(FiguresFilter(), DAY_MS)
        assert (*figures,) == (0, 0, 0, 0, 0, 0, None, None, 0, 0, {})

    async def test_a_verdict_that_no_history_tells_of_is_noticed(self, harness: Harness) -> None:
        """As a decision of a holder that opens a review and says nothing would leave it."""
        run = await harness.held()
        opening = asked(run)
        opening.events = ()
        run.last_event -= 2
        await harness.save(opening)
        (found,) = (await harness.store.endless_reviews(None, None)).found
        assert (found.review_id, found.tenant) == (f"{run.run_id}.1", "acme")

    async def test_reviews_are_looked_through_page_by_page(self, harness: Harness) -> None:
        runs = [await opened(harness) for _ in range(3)]
        seen, page = [], await harness.store.endless_reviews(None, None, limit=1)
        while page.next is not None:
            seen.append(page.next.run_id)
            page = await harness.store.endless_reviews(None, page.next, limit=1)
        assert seen == sorted((run.run_id for run in runs), reverse=True)

    async def test_large_values_of_reviews_are_mentioned(self, harness: Harness) -> None:
        shown, corrected = (f"@blob:sha256-{digit * 64}:9" for digit in "12")
        run = await opened(harness, shown=shown, quorum=2)
        await harness.change(run.run_id, Decide(1, Verdict.CORRECT, value=corrected), actor="ann")
        mentioned = await harness.store.mentions([("acme", run.run_id)])
        assert mentioned == {(run.run_id, shown), (run.run_id, corrected)}

    async def test_events_that_belong_to_no_run_are_numbered_without_a_gap(self, harness: Harness) -> None:
        async with harness.another() as other:
            await asyncio.gather(
                *(store.tell("acme", EventType.RESUME_SUBMITTED, "ann", "{}") for store in [harness.store, other] * 5)
            )
        events = await harness.store.events(NO_RUN)
        assert [event.seq for event in events] == list(range(1, 11))
        assert {(event.tenant, event.actor, event.at) for event in events} == {("acme", "ann", harness.now)}
