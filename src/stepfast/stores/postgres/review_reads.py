"""Reviews as people read them, and events that belong to no run."""

from __future__ import annotations

from stepfast.kernel.review_views import (
    EndlessPage,
    FiguresFilter,
    ReviewFigures,
    ReviewFilter,
    ReviewView,
    WholeReview,
)
from stepfast.kernel.reviews import ReviewId
from stepfast.stores import review_rows
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.postgres.reading import read

TELL = "select stepfast.tell($1::text, $2::text, $3::text, $4::text)"


async def list_reviews(pool: Pool, where: ReviewFilter) -> list[ReviewView]:
    """A page of reviews."""
    return await read(pool, "list_reviews", review_rows.list_parameters(where), review_rows.review_view)


async def get_review(pool: Pool, tenant: str | None, review_id: ReviewId) -> WholeReview | None:
    """One review; what is said of it later than it was read is read too, and harms nobody."""
    which = {**review_id._asdict(), "tenant": tenant}
    found = await read(pool, "get_review", which, tuple)
    if not found:
        return None
    said, tokens = await read(pool, "list_said", which, tuple), await read(pool, "list_tokens", which, tuple)
    return review_rows.whole_review(found[0], said, tokens)


async def get_figures(pool: Pool, where: FiguresFilter, in_time_ms: int) -> ReviewFigures:
    """Figures over reviews."""
    asked = review_rows.figures_parameters(where, in_time_ms)
    (counted,) = await read(pool, "review_figures", asked, tuple)
    refusals = await read(pool, "review_refusals", asked, tuple)
    lost = [] if where.workflow or where.role else await read(pool, "lost_refusals", asked, tuple)
    return review_rows.figures(counted, refusals, lost[0][0] if lost else 0)


async def list_endless(pool: Pool, tenant: str | None, before: ReviewId | None, limit: int) -> EndlessPage:
    """Of a page of reviews those without exactly one end."""
    found = await read(pool, "list_ends", review_rows.ends_parameters(tenant, before, limit), tuple)
    return review_rows.endless_page(found, limit)
