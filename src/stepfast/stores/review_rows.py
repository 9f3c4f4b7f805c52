"""Rows of the statements about reviews, in their column order, as the kernel's views."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from stepfast.kernel.ids import RunId
from stepfast.kernel.review_views import (
    NO_RUN,
    EndlessPage,
    EndlessReview,
    FiguresFilter,
    ReviewFigures,
    ReviewFilter,
    ReviewView,
    SaidView,
    TokenView,
    WholeReview,
)
from stepfast.kernel.reviews import ItemKind, ReviewId, ReviewState, Verdict
from stepfast.stores.rows import ABOVE_ALL_IDS, Row

# Codes of what is no token of any run; the rest is told in the histories of runs.
LOST = "E-REV-001"


def list_parameters(where: ReviewFilter) -> dict[str, Any]:
    """The parameters of `list_reviews`; those that are open have an index of their own."""
    is_open = where.state is ReviewState.OPEN
    state = {"open": "only" if is_open else None, "state": None if is_open else where.state and where.state.value}
    return {**where._asdict(), **state, **_behind(where.before)}


def ends_parameters(tenant: str | None, before: ReviewId | None, limit: int) -> dict[str, Any]:
    """The parameters of `list_ends`."""
    return {"tenant": tenant, "limit": limit, **_behind(before)}


def figures_parameters(where: FiguresFilter, in_time_ms: int) -> dict[str, Any]:
    """The parameters of `review_figures`, and of the two statements that count refusals."""
    return {**where._asdict(), "in_time_ms": in_time_ms, "no_run": NO_RUN}


def _behind(before: ReviewId | None) -> dict[str, Any]:
    run_id, wait_id = before or (ABOVE_ALL_IDS, 0)
    return {"before_run": run_id, "before_wait": wait_id}


def review_view(row: Row) -> ReviewView:
    """A row of `list_reviews`."""
    run_id, wait_id, *rest = row
    where = ReviewId(RunId(str(run_id)), wait_id)
    facts: dict[str, Any] = dict(zip(_VIEWED, rest, strict=True))
    facts["kind"], facts["state"] = ItemKind(facts["kind"]), ReviewState(facts["state"])
    facts["verdicts"] = tuple(Verdict(each) for each in json.loads(facts["verdicts"]))
    facts["verdict"] = facts["verdict"] and Verdict(facts["verdict"])
    return ReviewView(review_id=str(where), run_id=where.run_id, **facts)


# All but the two that say where it is.
_VIEWED = tuple(field.name for field in fields(ReviewView))[2:]


def whole_review(row: Row, said: Sequence[Row], tokens: Sequence[Row]) -> WholeReview:
    """Rows of `get_review`, `list_said` and `list_tokens`."""
    *columns, shown, schema = row
    return WholeReview(
        review_view(columns),
        shown,
        schema,
        tuple(SaidView(verdict and Verdict(verdict), *rest) for verdict, *rest in said),
        tuple(TokenView(*token) for token in tokens),
    )


def figures(row: Row, refusals: Sequence[Row], lost: int) -> ReviewFigures:
    """Rows of `review_figures` and `review_refusals`, and how many were lost on the way to a run."""
    counted: Counter[str] = Counter({LOST: lost} if lost else {})
    for code, number in refusals:
        counted[code] += number
    return ReviewFigures._make([*row, dict(sorted(counted.items()))])


def endless_page(found: Sequence[Row], limit: int) -> EndlessPage:
    """The rows of `list_ends`."""
    reviews = [(ReviewId(RunId(str(run_id)), wait_id), rest) for run_id, wait_id, *rest in found]
    endless = [
        EndlessReview(str(review_id), tenant, trouble)
        for review_id, (tenant, state, *counted) in reviews
        if (trouble := _trouble(ReviewState(state), *counted))
    ]
    return EndlessPage(tuple(endless), reviews[-1][0] if len(reviews) == limit else None)


def _trouble(state: ReviewState, asked: int, ends: int, leavings: int, waits: int) -> str | None:
    """What is wrong with a review by what its run's history and waits say of it."""
    by_person_or_time = state in (ReviewState.DECIDED, ReviewState.EXPIRED)
    if asked != 1:
        return f"was opened {asked} times by the history"
    if ends != by_person_or_time:
        return f"is {state} and has {ends} verdicts or expiries in the history"
    if state is ReviewState.WITHDRAWN and not leavings:
        return "is withdrawn, though nothing was called off and its generation goes on"
    if state is ReviewState.OPEN and not waits:
        return "is open, and nobody waits for it"
    return None
