"""The transformations of an app's runs: which versions each has made of which, and how sure it was."""

from __future__ import annotations

import builtins
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from stepfast.base import AppBase
from stepfast.filters import page_size
from stepfast.kernel.assets import LineageFilter, Role, check_name, check_version, uri_of
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid, NotFound
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.states import RunState
from stepfast.kernel.texts import check_text
from stepfast.kernel.views import RunFilter, RunView
from stepfast.parts import Parts

MARK = "transformation"
PAGE = 1_000


class TransformationView(NamedTuple):
    """One use of a transformation: a run of its own, and what came of it."""

    run_id: RunId
    name: str
    version: int
    state: RunState
    parent_id: RunId | None
    """The run that has used it."""
    inputs: tuple[str, ...]
    """The addresses of the versions that it was given."""
    outputs: tuple[str, ...]
    """The addresses of the assets that were made of it; none until it counts."""
    confidence: float | None
    """How sure it was of the least sure of its outputs; None until it has made them."""
    review_required: bool
    queued_at: Instant
    ended_at: Instant | None

    @property
    def duration_ms(self) -> int | None:
        """From when it was asked for to its end."""
        return None if self.ended_at is None else self.ended_at - self.queued_at


class Transformations:
    """The transformations that runs have used."""

    def __init__(self, app: AppBase) -> None:
        self._app = app

    async def list(
        self,
        *,
        run_id: str | None = None,
        asset: str | None = None,
        version: int | None = None,
        limit: int = 100,
        tenant: str | None = None,
    ) -> builtins.list[TransformationView]:
        """Those that a run has used, or that have read or made an asset; oldest first."""
        if (run_id is None) is (asset is None):
            raise Invalid("Say whose transformations are meant: those of a run, by run_id=, or of an asset, by asset=.")
        parts, most = self._app._open_parts(), page_size(limit)
        whose = self._app.tenant if tenant is None else check_text("tenant", tenant)
        if run_id is not None:
            found = await _used_by(parts, whose, parse_run_id(run_id))
        else:
            found = await _around(parts, whose, check_name("The asset's id", asset), check_version(version))
        # The metadata of other runs is their callers' own.
        marked = [run for run in found if run.kind == "step" and MARK in json.loads(run.metadata or "{}")]
        ordered = sorted(marked, key=lambda run: (run.queued_at, run.run_id))
        return [await _view(parts, run) for run in ordered[:most]]


async def _used_by(parts: Parts, tenant: str, run_id: RunId) -> Iterable[RunView]:
    run = await parts.store.run(tenant, run_id)
    if run is None:
        raise NotFound(f"Run {run_id} not found. List runs with `stepfast runs list`.")
    # Children have the correlation id of their parent, or else its id.
    family = RunFilter(tenant=tenant, correlation_id=run.correlation_id or run_id, limit=PAGE)
    found: list[RunView] = []
    before: RunId | None = None
    while page := await parts.store.runs(family._replace(before=before)):
        found += [each for each in page if each.parent_id == run_id]
        before = page[-1].run_id
    return found


async def _around(parts: Parts, tenant: str, asset_id: str, version: int | None) -> Iterable[RunView]:
    rows = await parts.store.lineage(LineageFilter(tenant, None, asset_id, version, PAGE))
    runs = [await parts.store.run(tenant, run_id) for run_id in dict.fromkeys(row.run_id for row in rows)]
    return [run for run in runs if run is not None]


async def _view(parts: Parts, run: RunView) -> TransformationView:
    known = json.loads(run.metadata or "{}")[MARK]
    rows = await parts.store.lineage(LineageFilter(run.tenant, run.run_id))
    of_this = [row for row in rows if row.generation == run.generation]
    told = {role: tuple(uri_of(row.asset_id, row.version) for row in of_this if row.role is role) for role in Role}
    result = await _result(parts, run)
    return TransformationView(
        run.run_id,
        known["name"],
        known["version"],
        run.state,
        run.parent_id,
        told[Role.READ],
        told[Role.WRITE],
        result.get("confidence"),
        bool(result.get("review_required")),
        run.queued_at,
        run.ended_at,
    )


async def _result(parts: Parts, run: RunView) -> dict[str, Any]:
    if run.state is not RunState.COMPLETED:
        return {}
    (text,) = await parts.values.resolve(run.tenant, run.run_id, [run.value])
    result: dict[str, Any] = json.loads(text or "{}")
    return result
