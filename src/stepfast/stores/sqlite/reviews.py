"""Reviews as people read them, and events that belong to no run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from stepfast.kernel.events import EventType
from stepfast.kernel.review_views import (
    NO_RUN,
    EndlessPage,
    FiguresFilter,
    ReviewFigures,
    ReviewFilter,
    ReviewView,
    WholeReview,
)
from stepfast.kernel.reviews import ReviewId
from stepfast.stores import review_rows
from stepfast.stores.sqlite.asking import Row, fetch, moment
from stepfast.stores.sqlite.pending import last_event, write_events
from stepfast.stores.sqlite.reading import SQL
from stepfast.stores.statements import narrowed


def list_reviews(connection: apsw.Connection, where: ReviewFilter) -> list[ReviewView]:
    found = _ask(connection, "list_reviews", review_rows.list_parameters(where))
    return [review_rows.review_view(row) for row in found]


def get_review(connection: apsw.Connection, tenant: str | None, review_id: ReviewId) -> WholeReview | None:
    which = {**review_id._asdict(), "tenant": tenant}
    with connection:
        found = _ask(connection, "get_review", which)
        said, tokens = _ask(connection, "list_said", which), _ask(connection, "list_tokens", which)
    return review_rows.whole_review(found[0], said, tokens) if found else None


def get_figures(connection: apsw.Connection, where: FiguresFilter, in_time_ms: int) -> ReviewFigures:
    asked = review_rows.figures_parameters(where, in_time_ms)
    with connection:
        (counted,) = _ask(connection, "review_figures", asked)
        refusals = _ask(connection, "review_refusals", asked)
        lost = 0 if where.workflow or where.role else _ask(connection, "lost_refusals", asked)[0][0]
    return review_rows.figures(counted, refusals, lost)


def list_endless(connection: apsw.Connection, tenant: str | None, before: ReviewId | None, limit: int) -> EndlessPage:
    found = _ask(connection, "list_ends", review_rows.ends_parameters(tenant, before, limit))
    return review_rows.endless_page(found, limit)


def tell(connection: apsw.Connection, tenant: str, event_type: EventType, actor: str | None, data: str) -> None:
    seq, now = last_event(connection, NO_RUN) + 1, moment(connection)
    write_events(connection, [(NO_RUN, seq, tenant, 1, event_type.value, now, None, None, 0, actor, data)])


def _ask(connection: apsw.Connection, name: str, bindings: dict[str, Any]) -> Sequence[Row]:
    given = {parameter for parameter, value in bindings.items() if value is not None}
    return fetch(connection, narrowed(SQL[name], given), bindings)
