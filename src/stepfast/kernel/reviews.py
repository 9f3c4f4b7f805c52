"""Reviews as data: what a person is asked, what has been answered, and what may be asked of a review."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NamedTuple

from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import NotFound
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.texts import shown


class ReviewState(StrEnum):
    """Where a review stands; it leaves `open` once."""

    OPEN = "open"
    DECIDED = "decided"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    """Nobody waits for it any more: its run ended, began anew, or took another way."""


class Verdict(StrEnum):
    """What a person can answer."""

    CONTINUE = "continue"
    REJECT = "reject"
    CORRECT = "correct"
    RETRY = "retry"
    ESCALATE = "escalate"


class ItemKind(StrEnum):
    """Why something is in the exception queue."""

    REVIEW_REQUIRED = "review_required"
    FAILED = "failed"
    BLOCKED = "blocked"
    LOW_CONFIDENCE = "low_confidence"
    POLICY_CONFLICT = "policy_conflict"


REVIEW_KINDS = (ItemKind.REVIEW_REQUIRED, ItemKind.LOW_CONFIDENCE, ItemKind.POLICY_CONFLICT, ItemKind.BLOCKED)
"""The items that a review can be opened as."""

FAIL, ESCALATE = "fail", "escalate"
"""What happens when nobody answers in time; anything else is the verdict that counts then."""


class Owner(NamedTuple):
    """Who is to answer: a person, anybody of a role, or anybody at all."""

    assignee: str | None = None
    role: str | None = None


ANYBODY = Owner()


class NewReview(NamedTuple):
    """A review that is opened with its wait, whose number it bears; `shown` is JSON, and `digest` that of it."""

    wait_id: int
    step: str
    kind: ItemKind
    title: str
    shown: str
    digest: str
    verdicts: tuple[Verdict, ...]
    schema: str | None
    owner: Owner
    quorum: int
    quorum_reject: int
    expires_ms: int | None
    on_expiry: str
    escalate_to: Owner


class ReviewId(NamedTuple):
    """Where a review is: its run, and the number of its wait in there."""

    run_id: RunId
    wait_id: int

    def __str__(self) -> str:
        return f"{self.run_id}.{self.wait_id}"


def parse_review_id(text: str) -> ReviewId:
    """Where the review is that a person means; what is no id cannot name one."""
    run_id, _, number = str(text).rpartition(".")
    if not (number.isascii() and number.isdigit() and len(number) < MAX_DIGITS):
        raise NotFound(f"Review {shown(text)} not found: a review's id is that of its run, a dot and a number.")
    return ReviewId(parse_run_id(run_id), int(number))


# So that every store can hold it.
MAX_DIGITS = 10


class GivenVerdict(NamedTuple):
    """What one person has answered."""

    actor: str | None
    verdict: Verdict
    value: str | None
    note: str | None
    at: Instant


class IssuedToken(NamedTuple):
    """A resume token as it is known here: by its hash alone."""

    hash: str
    actor: str
    generation: int
    expires_at: Instant
    used_at: Instant | None


class LockedReview(NamedTuple):
    """A review as a command sees it while nobody else can change it."""

    review_id: ReviewId
    generation: int
    step: str
    state: ReviewState
    digest: str
    verdicts: tuple[Verdict, ...]
    owner: Owner
    quorum: int
    quorum_reject: int
    expires_ms: int | None
    on_expiry: str
    escalate_to: Owner
    escalations: int
    due_at: Instant | None
    subject: str | None
    given: tuple[GivenVerdict, ...] = ()
    token: IssuedToken | None = None
    """The one that the command names by its hash."""


class TokenUse(NamedTuple):
    """A token that somebody shows: its hash, and what its bearer takes it to be for."""

    hash: str
    subject: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    """Answer a review: by a token, or as somebody whom the application knows."""

    wait_id: int
    verdict: str
    """As it was said; whether it is one that this review takes is judged."""
    value: str | None = None
    note: str | None = None
    role: str | None = None
    """That of the person who answers."""
    to: Owner = ANYBODY
    """Who is asked instead, when it is escalated."""
    digest: str | None = None
    """Of what the person was shown; None: of what is stored."""
    token: TokenUse | None = None
    misfit: str | None = None
    """Why the value is not what this review takes."""
    name: ClassVar[str] = "decide"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Assign:
    """Ask somebody else."""

    wait_id: int
    to: Owner
    is_delegated: bool = False
    """Whoever was asked hands it on, and nobody else may."""
    role: str | None = None
    """That of the person who hands it on."""
    name: ClassVar[str] = "assign"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Comment:
    """Say something about a review without answering it."""

    wait_id: int
    text: str
    name: ClassVar[str] = "comment"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class IssueToken:
    """Let one person answer a review by a token."""

    wait_id: int
    hash: str
    bearer: str
    ttl_ms: int
    name: ClassVar[str] = "issue_token"
    needs_steps: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Expire:
    """Nobody has answered in time."""

    wait_id: int
    name: ClassVar[str] = "expire"
    needs_steps: ClassVar[bool] = False


ReviewCommand = Decide | Assign | Comment | IssueToken | Expire


class ReviewChange(NamedTuple):
    """What a command writes of a review; what is None stays as it is."""

    review_id: ReviewId
    state: ReviewState = ReviewState.OPEN
    verdict: Verdict | None = None
    owner: Owner | None = None
    due_at: Instant | None = None
    """When it has to be answered now, where that has changed."""
    escalations: int | None = None
    given: GivenVerdict | None = None
    used_token: str | None = None
    new_token: IssuedToken | None = None
    comment: str | None = None
    answer: str | None = None
    """What the run's code gets, as JSON."""
