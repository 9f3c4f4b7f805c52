"""Reading what came of a transformation: of its lineage, and of the result of its run."""

from __future__ import annotations

from typing import Any

from stepfast.engine.values import Values
from stepfast.kernel.assets import LineageFilter, Role, uri_of
from stepfast.kernel.event_data import object_in
from stepfast.kernel.ports import Store
from stepfast.kernel.states import RunState
from stepfast.kernel.transformations import TransformationView, mark_of
from stepfast.kernel.views import RunView


async def transformation_of(store: Store, values: Values, run: RunView) -> TransformationView:
    """The use of a transformation that a run is, which is marked as one."""
    mark = mark_of(run)
    assert mark is not None
    rows = await store.lineage(LineageFilter(run.tenant, run.run_id, generation=run.generation))
    told = {role: tuple(uri_of(row.asset_id, row.version) for row in rows if row.role is role) for role in Role}
    result = await _result(values, run)
    return TransformationView(
        run.run_id,
        mark.name,
        mark.version,
        run.state,
        run.parent_id,
        told[Role.READ],
        told[Role.WRITE],
        result.get("confidence"),
        bool(result.get("review_required")),
        run.queued_at,
        run.ended_at,
    )


async def _result(values: Values, run: RunView) -> dict[str, Any]:
    if run.state is not RunState.COMPLETED:
        return {}
    (text,) = await values.resolve(run.tenant, run.run_id, [run.value])
    return object_in(text) or {}
