"""Reviews and exception items by the names that people give them: a run, or the first digits of it, and more."""

from __future__ import annotations

from collections.abc import Sequence

from stepfast.app import Stepfast
from stepfast.cli.client import Client
from stepfast.kernel.errors import Invalid, NotFound


async def review_named(client: Client, app: Stepfast, name: str, key: str | None = None) -> str:
    """The id of a review; a run alone stands for its only open one, and with a key else for the last that was."""
    run, rest = await _parted(client, app, name)
    if rest:
        return f"{run}.{rest}"
    found = await app.reviews.list(run_id=run, tenant=client.tenant, limit=2)
    if key is not None and not found:
        # What was sent before with this key may have ended it: sent again, it is answered as the first time.
        found = await app.reviews.list(run_id=run, tenant=client.tenant, state=None, limit=1)
    return _only(run, [review.review_id for review in found], "review")


async def item_named(client: Client, app: Stepfast, name: str, key: str | None = None) -> str:
    """The id of an exception item; a run alone stands for its only open one, and with a key else for the last."""
    run, rest = await _parted(client, app, name)
    if rest:
        return f"{run}.{rest}"
    found = await app.exceptions.list(run_id=run, tenant=client.tenant, limit=2)
    if key is not None and not found:
        ended = await app.exceptions.list(run_id=run, tenant=client.tenant, resolved=True)
        found = sorted(ended, key=lambda item: item.opened_at)[-1:]
    return _only(run, [item.id for item in found], "exception item")


async def _parted(client: Client, app: Stepfast, name: str) -> tuple[str, str]:
    run, _, rest = name.partition(".")
    return (await client.find(app, run)).run_id, rest


def _only(run: str, found: Sequence[str], what: str) -> str:
    if not found:
        raise NotFound(f"Run {run} has no open {what}.")
    if len(found) > 1:
        raise Invalid(f"Run {run} has several open {what}s, as {found[1]} and {found[0]}: say which.")
    return found[0]
