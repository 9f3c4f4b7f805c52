"""Assets and steps' storage in the SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from stepfast.kernel.artifacts import Artifact, ArtifactFilter, ArtifactView, Keeping
from stepfast.kernel.assets import AssetFilter, AssetView, LineageFilter, LineageView, MadeBy, NewAsset, Role
from stepfast.kernel.blobs import Reference
from stepfast.kernel.ids import RunId
from stepfast.kernel.lineage import GraphFilter, LineageEdge
from stepfast.stores import assets
from stepfast.stores.assets import Work
from stepfast.stores.sqlite.asking import Row, fetch, statements
from stepfast.stores.sqlite.connection import Reader, Writer
from stepfast.stores.statements import asset_statements, narrowed, unprefixed

T = TypeVar("T")

SQL = {name: unprefixed(text) for name, text in asset_statements().items()} | statements("assets")


class SqliteAssets:
    """What a store of this kind does for assets."""

    _writer: Writer
    _views: Reader

    async def put_asset(self, new: NewAsset, content: Reference) -> AssetView:
        """Add a version of an asset."""
        return await self._writer.run(_work(assets.put_asset(new, content)))

    async def asset(self, tenant: str, asset_id: str, version: int | None = None) -> AssetView | None:
        """One version, or the newest."""
        return await self._views.run(_work(assets.get_asset(tenant, asset_id, version)))

    async def assets(self, where: AssetFilter) -> list[AssetView]:
        """A page of assets."""
        return await self._views.run(_work(assets.list_assets(where)))

    async def collect_assets(self, tenant: str, name: str, ids: Sequence[str], actor: str | None) -> list[str]:
        """Fill a collection anew."""
        return await self._writer.run(_work(assets.collect_assets(tenant, name, ids, actor)))

    async def collected_assets(self, tenant: str, name: str) -> list[AssetView] | None:
        """What a collection holds."""
        return await self._views.run(_work(assets.collected_assets(tenant, name)))

    async def trace(
        self, tenant: str, made_by: MadeBy, role: Role, found: Sequence[tuple[AssetView, str]], anew: bool = False
    ) -> None:
        """Write down what a step has read or written."""
        await self._writer.run(_work(assets.trace(tenant, made_by, role, found, anew)))

    async def has_read(self, tenant: str, made_by: MadeBy, asset: AssetView) -> bool:
        """Whether a step has read a version."""
        return await self._views.run(_work(assets.has_read(tenant, made_by, asset)))

    async def lineage(self, where: LineageFilter) -> list[LineageView]:
        """Who has read and written what."""
        return await self._views.run(_work(assets.list_lineage(where)))

    async def lineage_edges(self, where: GraphFilter) -> list[LineageEdge]:
        """The graph of a version."""
        return await self._views.run(_work(assets.list_edges(where)))

    async def last_try(self, tenant: str, run_id: RunId, step: str) -> MadeBy | None:
        """A step as who makes assets."""
        return await self._views.run(_work(assets.last_try(tenant, run_id, step)))

    async def keep_artifact(self, keeping: Keeping, artifact: Artifact) -> None:
        """Keep something of a step."""
        await self._writer.run(_work(assets.keep_artifact(keeping, artifact)))

    async def kept_artifacts(self, keeping: Keeping, name: str | None = None) -> list[ArtifactView]:
        """What a step finds in its storage."""
        return await self._views.run(_work(assets.kept_artifacts(keeping, name)))

    async def artifacts(self, where: ArtifactFilter) -> list[ArtifactView]:
        """What the steps of a run have kept."""
        return await self._views.run(_work(assets.list_artifacts(where)))


def _work(work: Work[T]) -> Callable[[apsw.Connection], T]:
    def perform(connection: apsw.Connection) -> T:
        rows: list[Row] | None = None
        try:
            while True:
                name, bindings = next(work) if rows is None else work.send(rows)
                rows = _fetch(connection, name, bindings)
        except StopIteration as end:
            answer: T = end.value
            return answer

    return perform


def _fetch(connection: apsw.Connection, name: str, bindings: dict[str, Any]) -> list[Row]:
    given = {parameter for parameter, value in bindings.items() if value is not None}
    return fetch(connection, narrowed(SQL[name], given), bindings)
