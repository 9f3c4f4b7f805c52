"""Reviews in the model: what is asked, what people have said of it, and what a command does to it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from stepfast.kernel.commands import Change, Request
from stepfast.kernel.decisions import Decision
from stepfast.kernel.durations import Instant
from stepfast.kernel.ids import RunId
from stepfast.kernel.reviews import (
    GivenVerdict,
    LockedReview,
    NewReview,
    Owner,
    ReviewChange,
    ReviewId,
    ReviewState,
    Verdict,
)
from stepfast.kernel.states import TaskState
from tests.stores.model_rows import Life, Mail

Row = tuple[Any, ...]


@dataclass
class Said:
    """What somebody said of a review; a comment has no verdict."""

    actor: str | None
    verdict: Verdict | None
    given: GivenVerdict | None = None


@dataclass
class Asked:
    """A review."""

    review: NewReview
    generation: int
    owner: Owner
    due_at: int | None
    state: ReviewState = ReviewState.OPEN
    verdict: Verdict | None = None
    actor: str | None = None
    escalations: int = 0
    said: list[Said] = field(default_factory=list)


Reviews = dict[ReviewId, Asked]


def open_reviews(reviews: Reviews, decision: Decision, now: int) -> None:
    """A decision asks somebody."""
    for review in decision.reviews:
        due_at = None if review.expires_ms is None else now + review.expires_ms
        where = ReviewId(decision.fence.run_id, review.wait_id)
        reviews[where] = Asked(review, decision.generation, review.owner, due_at)


def withdraw(reviews: Reviews, lives: dict[RunId, Life]) -> None:
    """Nobody is asked any more for what nobody waits for."""
    for where, asked in reviews.items():
        if asked.state is ReviewState.OPEN and where.wait_id not in lives[where.run_id].waits:
            asked.state = ReviewState.WITHDRAWN


def locked_review(reviews: Reviews, request: Request) -> LockedReview | None:
    """The review that a command is about."""
    where = ReviewId(request.run_id, getattr(request.command, "wait_id", -1))
    asked = reviews.get(where)
    if asked is None:
        return None
    review = asked.review
    given = [said.given for said in asked.said if said.given is not None and said.verdict is not Verdict.ESCALATE]
    return LockedReview(
        where,
        asked.generation,
        review.step,
        asked.state,
        review.digest,
        review.verdicts,
        asked.owner,
        review.quorum,
        review.quorum_reject,
        review.expires_ms,
        review.on_expiry,
        review.escalate_to,
        asked.escalations,
        None if asked.due_at is None else Instant(asked.due_at),
        None,
        tuple(given),
    )


def write(reviews: Reviews, life: Life, request: Request, decided: Change, now: int) -> None:
    """What a change leaves in an inbox, and makes of a review."""
    for event in decided.owed:
        put(life, Mail(str(event.type), event.step or "", now, False))
    if decided.review is not None:
        _write_review(reviews[decided.review.review_id], life, request, decided.review, now)


def _write_review(asked: Asked, life: Life, request: Request, change: ReviewChange, now: int) -> None:
    actor = request.actor
    if change.given is not None:
        actor = change.given.actor
        asked.said.append(Said(actor, change.given.verdict, change.given))
    if change.comment is not None:
        asked.said.append(Said(actor, None))
    if change.owner is not None:
        asked.owner = change.owner
    if change.escalations is not None:
        asked.escalations, asked.due_at = change.escalations, change.due_at
        _move(life, change.review_id.wait_id, change.due_at)
    if change.state is not ReviewState.OPEN:
        asked.state, asked.verdict, asked.actor = change.state, change.verdict, actor
    if change.answer is not None:
        put(life, Mail("review", str(change.review_id.wait_id), now, True))
        life.wake(now)


def put(life: Life, mail: Mail) -> None:
    """Something comes for a run that has not ended."""
    if life.task is not None:
        life.task.wakes += 1
        life.inbox[life.task.wakes] = mail


def _move(life: Life, wait_id: int, due_at: int | None) -> None:
    life.waits[wait_id] = replace(life.waits[wait_id], due_at=due_at)
    if life.task is not None and life.task.state is TaskState.WAITING:
        life.task.due_at = life.alarm


def review_rows(reviews: Reviews) -> list[Row]:
    return [
        (
            *where,
            asked.generation,
            asked.state,
            asked.verdict,
            asked.actor,
            *asked.owner,
            asked.escalations,
            asked.due_at,
        )
        for where, asked in sorted(reviews.items())
    ]


def answer_rows(reviews: Reviews) -> list[Row]:
    return [
        (*where, n, said.verdict, said.actor)
        for where, asked in sorted(reviews.items())
        for n, said in enumerate(asked.said, start=1)
    ]


def item_rows(reviews: Reviews) -> list[Row]:
    """What the exception queue has of reviews."""
    rows = []
    for (run_id, wait_id), asked in reviews.items():
        is_open = asked.state is ReviewState.OPEN
        resolution = asked.verdict or (None if is_open else asked.state)
        rows.append((run_id, f"review:{wait_id}", asked.review.kind, asked.owner.assignee, is_open, resolution))
    return sorted(rows)
