"""What a command means for a review: the change that it makes, or the refusal; that of a token is told of too."""

from __future__ import annotations

import json
from typing import Any, assert_never

from stepfast.kernel.commands import Change, LockedRun, Request
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import (
    IllegalMove,
    NotFound,
    RoleNotAllowed,
    StepfastError,
    TokenExpired,
    TokenForeign,
    TokenUsed,
    TokenWrong,
    VerdictNotAllowed,
)
from stepfast.kernel.events import Event, EventType
from stepfast.kernel.reviews import (
    ESCALATE,
    FAIL,
    Assign,
    Comment,
    Decide,
    Expire,
    GivenVerdict,
    IssuedToken,
    IssueToken,
    LockedReview,
    Owner,
    ReviewChange,
    ReviewCommand,
    ReviewState,
    Verdict,
)
from stepfast.kernel.states import TaskState

APPROVALS = frozenset({Verdict.CONTINUE, Verdict.CORRECT})


def judge(run: LockedRun, request: Request, command: ReviewCommand, now: Instant) -> Change:
    """The change that a command makes of a review."""
    review = run.review
    if review is None:
        if isinstance(command, Decide) and command.token is not None:
            return _refused(run, request, None, _wrong(), now)
        raise NotFound(f"Run {run.run_id} has no review {command.wait_id}. List them with `stepfast reviews list`.")
    match command:
        case Decide():
            return decide(run, review, request, command, now)
        case Assign(_, to):
            return assign(run, review, request, to, now)
        case Comment(_, text):
            change = ReviewChange(review.review_id, comment=text)
            return _told(run, [_event(EventType.REVIEW_COMMENTED, review, request.actor, now)], change)
        case IssueToken():
            return issue(run, review, request, command, now)
        case Expire():
            return expire(run, review, now)
        case _:
            assert_never(command)


def decide(run: LockedRun, review: LockedReview, request: Request, command: Decide, now: Instant) -> Change:
    """Somebody answers. Who shows a token is heard of in any case; other refusals leave no trace."""
    refusal = _why_not(run, review, request, command, now)
    if refusal is not None:
        if command.token is None:
            raise refusal
        return _refused(run, request, review, refusal, now)
    return _answered(run, review, request, command, now)


def _why_not(
    run: LockedRun, review: LockedReview, request: Request, command: Decide, now: Instant
) -> StepfastError | None:
    """The first reason why this answer does not count."""
    if command.token is not None and (wrong := _token_trouble(run, review, request, command, now)) is not None:
        return wrong
    if review.state is not ReviewState.OPEN:
        return IllegalMove(
            f"Review {review.review_id} is {review.state}, so it cannot be answered. "
            f"See it with `stepfast reviews show {review.review_id}`."
        )
    if review.due_at is not None and review.due_at <= now:
        return TokenExpired(f"The time to answer review {review.review_id} is over.")
    if command.token is None and (refusal := _not_theirs(review, request.actor, command.role)) is not None:
        return refusal
    if command.verdict not in review.verdicts:
        allowed = ", ".join(review.verdicts)
        return VerdictNotAllowed(f"{command.verdict} is no answer to review {review.review_id}; allowed are {allowed}.")
    if command.digest is not None and command.digest != review.digest:
        return VerdictNotAllowed(
            f"The answer to review {review.review_id} is about something else than what is shown now: "
            f"its digest is {review.digest}, the answer names {command.digest}. Look at it again."
        )
    actor = _actor(review, request, command)
    if actor is not None and any(given.actor == actor for given in review.given):
        return TokenUsed(f"{actor} has answered review {review.review_id} already; others have to.")
    if actor is None and review.quorum > 1:
        return RoleNotAllowed(f"Review {review.review_id} takes {review.quorum} people: say who answers (actor).")
    return None


def _token_trouble(
    run: LockedRun, review: LockedReview, request: Request, command: Decide, now: Instant
) -> StepfastError | None:
    token, shown = review.token, command.token
    assert shown is not None
    if token is None:
        return _wrong()
    if token.generation != run.generation or review.generation != run.generation:
        return TokenForeign("The token is for an earlier generation of its run, which has begun anew since.")
    if shown.subject not in (None, review.subject) or request.actor not in (None, token.actor):
        return TokenForeign("The token is for another person or subject.")
    if token.used_at is not None:
        return TokenUsed("The token was used before; it works once.")
    if token.expires_at <= now or review.state is ReviewState.EXPIRED:
        return TokenExpired("The token has expired. Ask for a new one.")
    if review.state is not ReviewState.OPEN:
        return TokenUsed(f"The review of this token is {review.state} already.")
    return None


def _wrong() -> TokenWrong:
    return TokenWrong("The token is wrong. Copy it whole, or ask for a new one.")


def _not_theirs(review: LockedReview, actor: str | None, role: str | None) -> StepfastError | None:
    assignee, wanted = review.owner
    if assignee is not None and actor != assignee:
        return RoleNotAllowed(
            f"Review {review.review_id} is assigned to {assignee}, and {actor or 'nobody'} answers. "
            "Have it reassigned, or answer as that person."
        )
    if assignee is None and wanted is not None and role != wanted:
        return RoleNotAllowed(f"Review {review.review_id} is for the role {wanted}, and {actor or 'nobody'} is {role}.")
    return None


def _answered(run: LockedRun, review: LockedReview, request: Request, command: Decide, now: Instant) -> Change:
    actor = _actor(review, request, command)
    given = GivenVerdict(actor, command.verdict, command.value, command.note or request.reason, now)
    used = None if command.token is None else command.token.hash
    submitted = _submitted(review, actor, now, "accepted") if used else None
    if command.verdict is Verdict.ESCALATE:
        change = _escalated(review, command.to, now)._replace(given=given, used_token=used)
        told = _event(EventType.REVIEW_ESCALATED, review, actor, now, **_owner_data(command.to), note=given.note)
        return _told(run, [submitted, told], change)
    change = ReviewChange(review.review_id, given=given, used_token=used)
    verdict = _verdict_of((*review.given, given), review)
    facts: dict[str, Any] = {"verdict": command.verdict, "digest": review.digest, "note": given.note}
    if verdict is None:
        told = _event(EventType.REVIEW_ANSWERED, review, actor, now, **facts)
        return _told(run, [submitted, told], change)
    answer = answer_text(review, verdict, (*review.given, given), now)
    change = change._replace(state=ReviewState.DECIDED, verdict=verdict, answer=answer)
    told = _event(EventType.REVIEW_DECIDED, review, actor, now, **facts | {"verdict": verdict})
    return _told(run, [submitted, told, _resolved(review, actor, now, verdict)], change)


def _verdict_of(given: tuple[GivenVerdict, ...], review: LockedReview) -> Verdict | None:
    """What the answers so far amount to; None while more are needed."""
    newest = given[-1].verdict
    if newest is Verdict.RETRY:
        return newest
    if sum(each.verdict is Verdict.REJECT for each in given) >= review.quorum_reject:
        return Verdict.REJECT
    approvals = [each.verdict for each in given if each.verdict in APPROVALS]
    if len(approvals) < review.quorum:
        return None
    return Verdict.CORRECT if Verdict.CORRECT in approvals else Verdict.CONTINUE


def answer_text(review: LockedReview, verdict: Verdict | None, given: tuple[GivenVerdict, ...], now: Instant) -> str:
    """What the run's code is given; the newest correction is the value that counts."""
    corrections = [each.value for each in given if each.verdict is Verdict.CORRECT]
    last = given[-1] if given else None
    answers = [{"actor": each.actor, "verdict": each.verdict, "note": each.note, "at": each.at} for each in given]
    told = {
        "review_id": str(review.review_id),
        "verdict": verdict,
        "actor": last and last.actor,
        "note": last and last.note,
        "at": now,
        "digest": review.digest,
        "answers": answers,
        "corrected": bool(corrections) and verdict is Verdict.CORRECT,
    }
    text = json.dumps(told)
    # What a person wrote is JSON already, and may be too large to be taken apart for nothing.
    return text[:-1] + f', "value": {corrections[-1] or "null"}}}' if told["corrected"] else text


def _escalated(review: LockedReview, to: Owner, now: Instant) -> ReviewChange:
    due_at = None if review.expires_ms is None else Instant(now + review.expires_ms)
    return ReviewChange(review.review_id, owner=to, due_at=due_at, escalations=review.escalations + 1)


def assign(run: LockedRun, review: LockedReview, request: Request, to: Owner, now: Instant) -> Change:
    """Somebody else is asked; the time to answer goes on."""
    _check_open(review)
    told = _event(EventType.REVIEW_ASSIGNED, review, request.actor, now, **_owner_data(to), reason=request.reason)
    return _told(run, [told], ReviewChange(review.review_id, owner=to))


def issue(run: LockedRun, review: LockedReview, request: Request, command: IssueToken, now: Instant) -> Change:
    """One more person can answer by a token, no longer than the review is open."""
    _check_open(review)
    ends_at = now + command.ttl_ms if review.due_at is None else min(now + command.ttl_ms, review.due_at)
    token = IssuedToken(command.hash, command.bearer, run.generation, Instant(ends_at), None)
    told = _event(EventType.TOKEN_ISSUED, review, request.actor, now, bearer=command.bearer, expires_at=ends_at)
    return _told(run, [told], ReviewChange(review.review_id, new_token=token))


def expire(run: LockedRun, review: LockedReview, now: Instant) -> Change:
    """The time is over by the database's clock: as its author wished, it fails, escalates, or a verdict counts."""
    _check_open(review)
    if review.due_at is None or review.due_at > now:
        raise IllegalMove(f"Review {review.review_id} is open and its time is not over, so it cannot expire.")
    if review.on_expiry == ESCALATE and review.escalations == 0:
        to = review.escalate_to
        told = _event(EventType.REVIEW_ESCALATED, review, None, now, **_owner_data(to), note="nobody answered in time")
        return _told(run, [told], _escalated(review, to, now))
    verdict = None if review.on_expiry in (FAIL, ESCALATE) else Verdict(review.on_expiry)
    answer = answer_text(review, verdict, review.given, now)
    change = ReviewChange(review.review_id, state=ReviewState.EXPIRED, verdict=verdict, answer=answer)
    told = _event(EventType.REVIEW_EXPIRED, review, None, now, verdict=verdict)
    return _told(run, [told, _resolved(review, None, now, "expired")], change)


def _check_open(review: LockedReview) -> None:
    if review.state is not ReviewState.OPEN:
        raise IllegalMove(
            f"Review {review.review_id} is {review.state}, so it stays as it is. "
            f"See it with `stepfast reviews show {review.review_id}`."
        )


def _actor(review: LockedReview, request: Request, command: Decide) -> str | None:
    if command.token is not None and review.token is not None:
        return review.token.actor
    return request.actor


def _told(run: LockedRun, events: list[Event | None], change: ReviewChange | None) -> Change:
    """Events of a run that a worker holds are left for it to tell."""
    told = tuple(event for event in events if event is not None)
    if run.task is TaskState.LEASED:
        return Change(run.state, owed=told, review=change)
    return Change(run.state, told, review=change)


def _refused(
    run: LockedRun, request: Request, review: LockedReview | None, refusal: StepfastError, now: Instant
) -> Change:
    """Nothing changes, but it is told that somebody tried."""
    return _told(run, [_submitted(review, request.actor, now, refusal.code)], None)._replace(refusal=refusal)


def _submitted(review: LockedReview | None, actor: str | None, now: Instant, outcome: str) -> Event:
    if review is not None:
        return _event(EventType.RESUME_SUBMITTED, review, actor, now, outcome=outcome)
    return Event(EventType.RESUME_SUBMITTED, now, actor=actor, data=json.dumps({"outcome": outcome}))


def _event(event_type: EventType, review: LockedReview, actor: str | None, now: Instant, **data: Any) -> Event:
    told = {"review_id": str(review.review_id), **data}
    text = json.dumps({name: value for name, value in told.items() if value is not None})
    return Event(event_type, now, review.step, actor=actor, data=text)


def _resolved(review: LockedReview, actor: str | None, now: Instant, resolution: str) -> Event:
    return _event(EventType.EXCEPTION_RESOLVED, review, actor, now, resolution=resolution)


def _owner_data(owner: Owner) -> dict[str, str | None]:
    return {"assignee": owner.assignee, "role": owner.role}
