"""What is read back of reviews: one, a page of them, figures over many, and the port that answers so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from stepfast.kernel.durations import Instant
from stepfast.kernel.events import EventType
from stepfast.kernel.ids import RunId
from stepfast.kernel.reviews import ItemKind, ReviewId, ReviewState, Verdict

NO_RUN = RunId("00000000-0000-0000-0000-000000000000")
"""What events that belong to no run are stored under."""


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A review without what it shows, which may be large."""

    review_id: str
    run_id: RunId
    tenant: str
    generation: int
    workflow: str
    step: str
    kind: ItemKind
    title: str
    digest: str
    """Of what is shown."""
    verdicts: tuple[Verdict, ...]
    assignee: str | None
    role: str | None
    quorum: int
    quorum_reject: int
    on_expiry: str
    escalate_to: str | None
    escalate_role: str | None
    escalations: int
    subject: str | None
    opened_at: Instant
    due_at: Instant | None
    state: ReviewState
    verdict: Verdict | None
    actor: str | None
    """Whose answer ended it."""
    ended_at: Instant | None


class SaidView(NamedTuple):
    """What somebody said of a review: an answer, or, without a verdict, a comment."""

    verdict: Verdict | None
    value: str | None
    note: str | None
    actor: str | None
    at: Instant


class TokenView(NamedTuple):
    """A resume token as it is stored; its hash leaves the process as little as the token."""

    hash: str
    actor: str
    generation: int
    issued_at: Instant
    expires_at: Instant
    used_at: Instant | None


class WholeReview(NamedTuple):
    """All that is stored of a review; `shown` and `schema` are JSON."""

    view: ReviewView
    shown: str
    schema: str | None
    said: tuple[SaidView, ...]
    tokens: tuple[TokenView, ...]


class ReviewFilter(NamedTuple):
    """Which reviews a list holds; `before` is the one that the page before ended with."""

    tenant: str | None = None
    workflow: str | None = None
    state: ReviewState | None = None
    role: str | None = None
    assignee: str | None = None
    run_id: RunId | None = None
    opened_after: Instant | None = None
    before: ReviewId | None = None
    limit: int = 100


class FiguresFilter(NamedTuple):
    """Which reviews figures are over: those opened between two moments."""

    tenant: str | None = None
    workflow: str | None = None
    role: str | None = None
    after: Instant | None = None
    before: Instant | None = None


class ReviewFigures(NamedTuple):
    """How many reviews came to what, and how long those that people decided had waited."""

    opened: int
    decided: int
    expired: int
    withdrawn: int
    open: int
    escalated: int
    waited_p50_ms: int | None
    waited_p95_ms: int | None
    due_for_target: int
    """Those that were not withdrawn, and have an end or have been open for as long as people should need."""
    in_time: int
    """How many of these people decided within that time."""
    refusals: dict[str, int]
    """How often a token was refused, by the code of the error."""


class EndlessReview(NamedTuple):
    """A review that has not exactly one end in the history of its run."""

    review_id: str
    tenant: str
    trouble: str


class EndlessPage(NamedTuple):
    """What a look through a page of reviews found, and where the next begins; None: that was all."""

    found: tuple[EndlessReview, ...]
    next: ReviewId | None


class ReviewReads(Protocol):
    """What a store tells of reviews, and the one thing that it notes beside all runs."""

    async def reviews(self, where: ReviewFilter) -> list[ReviewView]:
        """A page of reviews, those of the newest runs first."""
        ...

    async def review(self, tenant: str | None, review_id: ReviewId) -> WholeReview | None:
        """One review; a tenant sees its own only, None sees all."""
        ...

    async def review_figures(self, where: FiguresFilter, in_time_ms: int) -> ReviewFigures:
        """Figures over reviews; whoever decides within `in_time_ms` is in time."""
        ...

    async def endless_reviews(self, tenant: str | None, before: ReviewId | None, limit: int = 1_000) -> EndlessPage:
        """Of so many reviews those that have not exactly one end in the history of their run."""
        ...

    async def tell(self, tenant: str, event_type: EventType, actor: str | None, data: str) -> None:
        """Write an event of a tenant that belongs to no run: under NO_RUN, numbered without a gap, by this clock."""
        ...
