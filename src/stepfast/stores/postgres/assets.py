"""Assets and steps' storage in the PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from stepfast.kernel.artifacts import Artifact, ArtifactFilter, ArtifactView, Keeping
from stepfast.kernel.assets import AssetFilter, AssetView, LineageFilter, LineageView, MadeBy, NewAsset, Role
from stepfast.kernel.blobs import Reference
from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.kernel.lineage import GraphFilter, LineageEdge
from stepfast.stores import assets
from stepfast.stores.assets import Work
from stepfast.stores.postgres.driver import Connection, Row
from stepfast.stores.postgres.lines import Pool
from stepfast.stores.statements import Numbered, asset_statements, narrowed, numbered

T = TypeVar("T")

# Lists in JSON are taken apart in a way of this database's own, and so are graphs kept in the order of their depth.
OWN = {
    "downstream": "select * from stepfast.downstream(:tenant, :asset_id, :version, :limit)",
    "fill_collection": "select stepfast.fill_collection(:tenant, :name, :ids)",
    "missing_assets": "select stepfast.missing_assets(:tenant, :ids)",
    "upstream": "select * from stepfast.upstream(:tenant, :asset_id, :version, :limit)",
    "tag_asset": "select stepfast.tag_asset(:tenant, :asset_id, :tags)",
}
# Without the lock a holder that is losing its run could still write behind the loss.
LOCK = " for no key update"


class PostgresAssets:
    """What a store of this kind does for assets."""

    _cold: Pool

    async def put_asset(self, new: NewAsset, content: Reference) -> AssetView:
        """Add a version of an asset."""
        return await self._work(lambda: assets.put_asset(new, content))

    async def asset(self, tenant: str, asset_id: str, version: int | None = None) -> AssetView | None:
        """One version, or the newest."""
        return await self._work(lambda: assets.get_asset(tenant, asset_id, version))

    async def assets(self, where: AssetFilter) -> list[AssetView]:
        """A page of assets."""
        return await self._work(lambda: assets.list_assets(where))

    async def collect_assets(self, tenant: str, name: str, ids: Sequence[str], actor: str | None) -> list[str]:
        """Fill a collection anew."""
        return await self._work(lambda: assets.collect_assets(tenant, name, ids, actor))

    async def collected_assets(self, tenant: str, name: str) -> list[AssetView] | None:
        """What a collection holds."""
        return await self._work(lambda: assets.collected_assets(tenant, name))

    async def trace(
        self, tenant: str, made_by: MadeBy, role: Role, found: Sequence[tuple[AssetView, str]], anew: bool = False
    ) -> None:
        """Write down what a step has read or written."""
        await self._work(lambda: assets.trace(tenant, made_by, role, found, anew))

    async def has_read(self, tenant: str, made_by: MadeBy, asset: AssetView) -> bool:
        """Whether a step has read a version."""
        return await self._work(lambda: assets.has_read(tenant, made_by, asset))

    async def lineage(self, where: LineageFilter) -> list[LineageView]:
        """Who has read and written what."""
        return await self._work(lambda: assets.list_lineage(where))

    async def lineage_edges(self, where: GraphFilter) -> list[LineageEdge]:
        """The graph of a version."""
        return await self._work(lambda: assets.list_edges(where))

    async def last_try(self, tenant: str, run_id: RunId, step: str) -> MadeBy | None:
        """A step as who makes assets."""
        return await self._work(lambda: assets.last_try(tenant, run_id, step))

    async def keep_artifact(self, keeping: Keeping, artifact: Artifact) -> None:
        """Keep something of a step."""
        await self._work(lambda: assets.keep_artifact(keeping, artifact))

    async def kept_artifacts(self, keeping: Keeping, name: str | None = None) -> list[ArtifactView]:
        """What a step finds in its storage."""
        return await self._work(lambda: assets.kept_artifacts(keeping, name))

    async def artifacts(self, where: ArtifactFilter) -> list[ArtifactView]:
        """What the steps of a run have kept."""
        return await self._work(lambda: assets.list_artifacts(where))

    async def _work(self, begin: Callable[[], Work[T]]) -> T:
        # Begun anew with each try of the transaction.
        answer = await self._cold.transact(lambda connection: _perform(connection, begin()))
        if isinstance(answer, StepfastError):
            raise answer
        return answer


async def _perform(connection: Connection, work: Work[T]) -> T | StepfastError:
    rows: list[Row] | None = None
    try:
        while True:
            name, parameters = next(work) if rows is None else work.send(rows)
            given = frozenset(parameter for parameter, value in parameters.items() if value is not None)
            statement = _statement(name, given)
            rows = await connection.fetch(statement.text, *(parameters[each] for each in statement.names))
    except StopIteration as end:
        answer: T = end.value
        return answer
    except StepfastError as refusal:
        # What is refused is refused before anything is written, and is no reason to lose the connection.
        return refusal


@cache
def _statement(name: str, given: frozenset[str]) -> Numbered:
    text = OWN.get(name) or asset_statements()[name]
    return numbered(narrowed(text, given) + (LOCK if name == "held_by" else ""))
