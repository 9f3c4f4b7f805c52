"""What a command means for a review: the change that it makes, or the refusal; that of a token is told of too."""

from __future__ import annotations

import json
from typing import Any, assert_never

from stepfast.kernel.commands import Change, LockedRun, Request, telling
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import (
    IllegalMove,
    Invalid,
    NotFound,
    ReviewEnded,
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
    ANYBODY,
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
    ReviewId,
    ReviewState,
    Verdict,
)
from stepfast.kernel.texts import shown
from stepfast.kernel.verdicts import answer_text, verdict_of


def judge(run: LockedRun, request: Request, command: ReviewCommand, now: Instant) -> Change:
    """The change that a command makes of a review."""
    review = run.review
    if review is None:
        if isinstance(command, Decide) and command.token is not None:
            return _refused(run, request, None, wrong_token(), now)
        raise no_review(ReviewId(run.run_id, command.wait_id))
    match command:
        case Decide():
            return decide(run, review, request, command, now)
        case Assign():
            return assign(run, review, request, command, now)
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
        return ReviewEnded(
            f"Review {review.review_id} is {review.state}, so it cannot be answered. "
            f"See it with `stepfast reviews show {review.review_id}`."
        )
    if review.due_at is not None and review.due_at <= now:
        return TokenExpired(f"The time to answer review {review.review_id} is over.")
    if command.token is None and (refusal := _not_theirs(review, request.actor, command.role)) is not None:
        return refusal
    if command.verdict not in review.verdicts:
        allowed = ", ".join(review.verdicts)
        said = shown(str(command.verdict))
        return VerdictNotAllowed(f"{said} is no answer to review {review.review_id}; allowed are {allowed}.")
    if command.digest is not None and command.digest != review.digest:
        return VerdictNotAllowed(
            f"The answer to review {review.review_id} is about something else than what is shown now: "
            f"its digest is {review.digest}, the answer names {command.digest}. Look at it again."
        )
    if command.misfit is not None:
        return Invalid(f"The value does not fit review {review.review_id}: {command.misfit}")
    if command.verdict == Verdict.ESCALATE and _escalates_to(review, command) == ANYBODY:
        return Invalid(f"Review {review.review_id} names nobody to escalate to: say to whom (to, to_role).")
    return _not_again(review, _actor(review, request, command))


def _not_again(review: LockedReview, actor: str | None) -> StepfastError | None:
    """Each person answers once, and of several each must be known."""
    if actor is not None and any(given.actor == actor for given in review.given):
        return TokenUsed(f"{actor} has answered review {review.review_id} already; others have to.")
    if actor is None and review.quorum > 1:
        return RoleNotAllowed(f"Review {review.review_id} takes {review.quorum} people: say who answers (actor).")
    return None


def _token_trouble(
    run: LockedRun, review: LockedReview, request: Request, command: Decide, now: Instant
) -> StepfastError | None:
    token, use = review.token, command.token
    assert use is not None
    if token is None:
        return wrong_token()
    if token.generation != run.generation or review.generation != run.generation:
        return TokenForeign("The token is for an earlier generation of its run, which has begun anew since.")
    if use.tenant not in (None, run.tenant) or use.subject not in (None, review.subject):
        return TokenForeign("The token is for another tenant or subject.")
    if request.actor not in (None, token.actor):
        return TokenForeign("The token is for another person.")
    if token.used_at is not None:
        return TokenUsed("The token was used before; it works once.")
    if token.expires_at <= now or review.state is ReviewState.EXPIRED:
        return TokenExpired("The token has expired. Ask for a new one.")
    if review.state is not ReviewState.OPEN:
        return TokenUsed(f"The review of this token is {review.state} already.")
    return None


def is_stranger(run: LockedRun, request: Request) -> bool:
    """Whether a command comes with a token that nobody was given for this review, or that is for another tenant.

    Whoever sends it must not hear which keys the tenant of the run has used.
    """
    command = request.command
    if not isinstance(command, Decide) or command.token is None:
        return False
    return run.review is None or run.review.token is None or command.token.tenant not in (None, run.tenant)


def no_review(review_id: ReviewId) -> NotFound:
    """There is no such review, or not for this tenant."""
    return NotFound(f"Review {review_id} not found. List those that are open with `stepfast reviews list`.")


def wrong_token() -> TokenWrong:
    """What somebody shows is no token that was issued."""
    return TokenWrong("The token is wrong. Copy it whole, or ask for a new one.")


def _not_theirs(review: LockedReview, actor: str | None, role: str | None) -> StepfastError | None:
    assignee, wanted = review.owner
    if assignee is not None and actor != assignee:
        return RoleNotAllowed(
            f"Review {review.review_id} is assigned to {assignee}, and {actor or 'nobody'} answers. "
            "Have it reassigned, or answer as that person."
        )
    if assignee is None and wanted is not None and role != wanted:
        answers = f"{actor or 'nobody'} answers {f'as {role}' if role else 'without a role'}"
        return RoleNotAllowed(
            f"Review {review.review_id} is for the role {wanted}, and {answers}. Answer in that role."
        )
    return None


def _answered(run: LockedRun, review: LockedReview, request: Request, command: Decide, now: Instant) -> Change:
    actor = _actor(review, request, command)
    given = GivenVerdict(actor, Verdict(command.verdict), command.value, command.note or request.reason, now)
    used = None if command.token is None else command.token.hash
    submitted = _submitted(review, actor, now, "accepted") if used else None
    if given.verdict is Verdict.ESCALATE:
        to = _escalates_to(review, command)
        change = _escalated(review, to, now)._replace(given=given, used_token=used)
        told = _event(EventType.REVIEW_ESCALATED, review, actor, now, **_owner_data(to), note=given.note)
        return _told(run, [submitted, told], change)
    change = ReviewChange(review.review_id, given=given, used_token=used)
    verdict = verdict_of((*review.given, given), review)
    facts: dict[str, Any] = {"verdict": given.verdict, "digest": review.digest, "note": given.note}
    if verdict is None:
        told = _event(EventType.REVIEW_ANSWERED, review, actor, now, **facts)
        return _told(run, [submitted, told], change)
    answer = answer_text(review, verdict, (*review.given, given), given, now)
    change = change._replace(state=ReviewState.DECIDED, verdict=verdict, answer=answer)
    told = _event(EventType.REVIEW_DECIDED, review, actor, now, **facts | {"verdict": verdict})
    return _told(run, [submitted, told, _resolved(review, actor, now, verdict)], change)


def _escalates_to(review: LockedReview, command: Decide) -> Owner:
    return review.escalate_to if command.to == ANYBODY else command.to


def _escalated(review: LockedReview, to: Owner, now: Instant) -> ReviewChange:
    due_at = None if review.expires_ms is None else Instant(now + review.expires_ms)
    return ReviewChange(review.review_id, owner=to, due_at=due_at, escalations=review.escalations + 1)


def assign(run: LockedRun, review: LockedReview, request: Request, command: Assign, now: Instant) -> Change:
    """Somebody else is asked; the time to answer goes on. Who may answer may hand it on."""
    _check_open(review)
    if command.is_delegated and (refusal := _not_theirs(review, request.actor, command.role)) is not None:
        raise refusal
    # Whoever gets it from a member of a role answers for that role.
    to = command.to._replace(role=review.owner.role) if command.is_delegated else command.to
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
    answer = answer_text(review, verdict, review.given, None, now)
    change = ReviewChange(review.review_id, state=ReviewState.EXPIRED, verdict=verdict, answer=answer)
    told = _event(EventType.REVIEW_EXPIRED, review, None, now, verdict=verdict)
    return _told(run, [told, _resolved(review, None, now, "expired")], change)


def _check_open(review: LockedReview) -> None:
    if review.state is not ReviewState.OPEN:
        raise ReviewEnded(
            f"Review {review.review_id} is {review.state}, so it stays as it is. "
            f"See it with `stepfast reviews show {review.review_id}`."
        )


def _actor(review: LockedReview, request: Request, command: Decide) -> str | None:
    if command.token is not None and review.token is not None:
        return review.token.actor
    return request.actor


def _told(run: LockedRun, events: list[Event | None], change: ReviewChange | None) -> Change:
    told = tuple(event for event in events if event is not None)
    return telling(run, told)._replace(review=change)


def _refused(
    run: LockedRun, request: Request, review: LockedReview | None, refusal: StepfastError, now: Instant
) -> Change:
    """Nothing changes, but it is told that somebody tried: who they say they are, or else whose token it is."""
    bearer = review.token.actor if review is not None and review.token is not None else None
    told = _submitted(review, request.actor or bearer, now, refusal.code)
    return _told(run, [told], None)._replace(refusal=refusal)


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
