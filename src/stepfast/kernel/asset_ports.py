"""Where assets are kept, as a port of its own; and what assets and steps' storage need from a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stepfast.kernel.artifacts import Artifact, ArtifactFilter, ArtifactView, Keeping
    from stepfast.kernel.assets import AssetFilter, AssetView, LineageFilter, LineageView, MadeBy, NewAsset, Role
    from stepfast.kernel.blobs import Reference
    from stepfast.kernel.ids import RunId
    from stepfast.kernel.lineage import GraphFilter, LineageEdge


class Contents(Protocol):
    """How content of any sort reaches the blob store and comes back proved."""

    async def put(self, tenant: str, place: RunId, content: bytes) -> Reference:
        """Keep a content; equal content of one place is kept once."""
        ...

    async def get(self, tenant: str, place: RunId, reference: Reference, what: str) -> bytes:
        """The content; one that is missing or is not what was put raises BlobDamaged, which names `what` it was."""
        ...


class Assets(Protocol):
    """Where assets are kept, apart for each tenant.

    What a version holds never changes. Ids that `check_name` refuses never come here. Trouble that will pass raises
    StoreUnavailable. Calls come from one event loop and may overlap; other processes may do the same at the same time.
    """

    async def open(self) -> None:
        """Get ready; called once, before anything else."""
        ...

    async def close(self) -> None:
        """Let go of every connection, thread and file."""
        ...

    async def put(self, new: NewAsset, content: bytes) -> AssetView:
        """Keep a content as the next version of its asset, or as its newest if that is the same already.

        A key that the tenant has used before answers with what was put then, and is refused with KeyReused when
        `key_digest` is another. With `fresh` an id that exists is left alone, and the asset gets another id.
        """
        ...

    async def get(self, tenant: str, asset_id: str, version: int | None = None) -> AssetView | None:
        """One version, or the newest; None where this tenant has none such."""
        ...

    async def read(self, asset: AssetView) -> bytes:
        """The content of a version; raises BlobDamaged where it is not what was put."""
        ...

    async def list(self, where: AssetFilter) -> list[AssetView]:
        """A page of assets in their newest versions, by id."""
        ...

    async def collect(self, tenant: str, name: str, ids: Sequence[str], actor: str | None) -> Sequence[str]:
        """Let a collection hold just these, in this order; if some do not exist, answer with those, and change nothing.

        A few of those will do.
        """
        ...

    async def collection(self, tenant: str, name: str) -> Sequence[AssetView] | None:
        """The newest versions of what a collection holds, in order; None where the tenant has none of that name."""
        ...


class AssetRows(Protocol):
    """What a store remembers of assets and of steps' storage; contents are in the blob store before their rows come."""

    async def put_asset(self, new: NewAsset, content: Reference) -> AssetView:
        """Add a version as `Assets.put` says; raises LeaseLost when the fence of its maker no longer holds.

        With a maker its lineage is written in the same commit, and what the maker had read are the version's inputs.
        """
        ...

    async def asset(self, tenant: str, asset_id: str, version: int | None = None) -> AssetView | None:
        """One version, or the newest."""
        ...

    async def assets(self, where: AssetFilter) -> list[AssetView]:
        """A page of assets in their newest versions, by id."""
        ...

    async def collect_assets(self, tenant: str, name: str, ids: Sequence[str], actor: str | None) -> list[str]:
        """Let a collection hold just these; if some do not exist, answer with them and change nothing."""
        ...

    async def collected_assets(self, tenant: str, name: str) -> list[AssetView] | None:
        """What a collection holds, in order."""
        ...

    async def trace(
        self, tenant: str, made_by: MadeBy, role: Role, assets: Sequence[tuple[AssetView, str]], anew: bool = False
    ) -> None:
        """Write down what a step has read or written, each with the id it asked for; once, however often it is told.

        What is written is of what the maker had read by then. With `anew` it takes the place of what was written down
        of this step and role in this generation for every try. Raises LeaseLost when the fence no longer holds.
        """
        ...

    async def has_read(self, tenant: str, made_by: MadeBy, asset: AssetView) -> bool:
        """Whether it is written down that a step has read this version, in any try of this generation of its run."""
        ...

    async def lineage(self, where: LineageFilter) -> list[LineageView]:
        """Who has read and written what, oldest run first."""
        ...

    async def lineage_edges(self, where: GraphFilter) -> list[LineageEdge]:
        """What a version was made of, or what was made of it, the nearest first, each edge once.

        At most one more than the limit, which says that there are more.
        """
        ...

    async def last_try(self, tenant: str, run_id: RunId, step: str) -> MadeBy | None:
        """A step as its record has it: with generation, attempt and lease; None where it has none that counts."""
        ...

    async def keep_artifact(self, keeping: Keeping, artifact: Artifact) -> None:
        """Keep something of a step; only this very attempt's own of that name is replaced. Raises LeaseLost."""
        ...

    async def kept_artifacts(self, keeping: Keeping, name: str | None = None) -> list[ArtifactView]:
        """What a step finds in its storage: the newest of each name in this generation of its run, by name."""
        ...

    async def artifacts(self, where: ArtifactFilter) -> list[ArtifactView]:
        """What the steps of a run have kept, by step and name, newest first."""
        ...
