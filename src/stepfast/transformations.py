"""The transformations of an app's runs: which versions each has made of which, and how sure it was."""

from __future__ import annotations

import builtins
from collections.abc import Iterable

from stepfast.base import AppBase
from stepfast.filters import page_size
from stepfast.kernel.assets import LineageFilter, check_name, check_version
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId, parse_run_id
from stepfast.kernel.texts import check_text
from stepfast.kernel.transformations import TransformationView, mark_of
from stepfast.kernel.views import RunView
from stepfast.missing import run_of
from stepfast.parts import Parts
from stepfast.transformation_reads import transformation_of

PAGE = 1_000


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
            found = await _used_by(parts, whose, parse_run_id(run_id), most)
        else:
            found = await _around(parts, whose, check_name("The asset's id", asset), check_version(version))
        uses = [run for run in found if mark_of(run) is not None]
        ordered = sorted(uses, key=lambda run: (run.queued_at, run.run_id))
        return [await transformation_of(parts.store, parts.values, run) for run in ordered[:most]]


async def _used_by(parts: Parts, tenant: str, run_id: RunId, limit: int) -> Iterable[RunView]:
    await run_of(parts.store, tenant, run_id)
    return await parts.store.transformations(run_id, limit)


async def _around(parts: Parts, tenant: str, asset_id: str, version: int | None) -> Iterable[RunView]:
    rows = await parts.store.lineage(LineageFilter(tenant, None, asset_id, version, PAGE))
    runs = [await parts.store.run(tenant, run_id) for run_id in dict.fromkeys(row.run_id for row in rows)]
    return [run for run in runs if run is not None]
