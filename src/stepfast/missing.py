"""Runs that may not be there: never stored, of another tenant, or let go since."""

from __future__ import annotations

from datetime import UTC, datetime

from stepfast.kernel.errors import NotFound
from stepfast.kernel.ids import RunId
from stepfast.kernel.ports import Store
from stepfast.kernel.retention import RunGone
from stepfast.kernel.views import RunView


async def run_of(store: Store, tenant: str | None, run_id: RunId) -> RunView:
    """A run as it stands now; refuses one that is not there, or not this tenant's."""
    run = await store.run(tenant, run_id)
    if run is None:
        raise await no_run(store, tenant, run_id)
    return run


async def no_run(store: Store, tenant: str | None, run_id: RunId) -> NotFound:
    """What is said of a run that is not there."""
    pruned_at = await store.pruned_at(tenant, run_id)
    if pruned_at is None:
        return NotFound(f"Run {run_id} not found. List runs with `stepfast runs list`.")
    when = datetime.fromtimestamp(pruned_at / 1_000, UTC)
    return RunGone(
        f"Run {run_id} not found: it was pruned on {when:%Y-%m-%d}, as it had been kept long enough. "
        f"`stepfast retention list` shows how long runs are kept."
    )
