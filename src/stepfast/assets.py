"""The app's assets: content that outlives runs, in versions, alone or in collections, and who has read or made it."""

from __future__ import annotations

import builtins
import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from stepfast.base import AppBase
from stepfast.filters import page_size
from stepfast.kernel.assets import (
    MAX_COLLECTED,
    AssetFilter,
    AssetView,
    LineageFilter,
    LineageView,
    MadeBy,
    NewAsset,
    Role,
    check_name,
    check_version,
)
from stepfast.kernel.errors import AssetNotFound, Invalid
from stepfast.kernel.ids import RANDOM_BITS, Ids, RunId, parse_run_id
from stepfast.kernel.lineage import MAX_DEPTH, MAX_EDGES, Direction, GraphFilter, LineageGraph, graph_of
from stepfast.kernel.media_types import check_kind, check_media_type
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.texts import check_optional_text, check_text, check_texts, shown
from stepfast.missing import run_of
from stepfast.parts import Parts
from stepfast.workflows.bodies import current_step
from stepfast.workflows.content import Content, content_of
from stepfast.workflows.storage import checked_metadata, checked_tags, not_found


class Assets:
    """The assets of an app's tenants; without a tenant those of the app's own.

    A version never changes: other content under the same id is its next version. What is not said of a version is as in
    the one before it.
    """

    def __init__(self, app: AppBase) -> None:
        self._app = app
        self._ids = Ids()

    async def put(
        self,
        content: Content,
        id: str | None = None,
        *,
        media_type: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
        fresh: bool = False,
        made_by: tuple[str, str] | None = None,
        tenant: str | None = None,
        key: str | None = None,
        actor: str | None = None,
    ) -> AssetView:
        """Keep bytes, a text or the file at a Path; it is on disk when this returns.

        The same content again, with nothing new said of it, is the version that there is. With `fresh` an id that is
        taken is left alone and the asset gets another, like `report-2`; `made_by` is the run and the step that made it.
        """
        parts, whose = self._app._open_parts(), self._tenant(tenant)
        given = await content_of("The content", content)
        new = NewAsset(
            tenant=whose,
            id=self._new_id() if id is None else check_name("The asset's id", id),
            media_type=None if media_type is None else check_media_type(media_type),
            metadata=None if metadata is None else _metadata(metadata),
            tags=None if tags is None else checked_tags(tags),
            fallback_type=given.media_type,
            actor=check_optional_text("actor", actor),
            key=check_optional_text("key", key),
            fresh=fresh,
            made_by=None if made_by is None else await _maker(parts, whose, made_by),
        )
        named = new if key is None else new._replace(key_digest=_digest(id, new, given.content))
        asset = await parts.assets.put(named, given.content)
        if new.made_by is not None:
            await parts.store.trace(whose, new.made_by, Role.WRITE, [(asset, new.id)])
        return asset

    async def get(self, id: str, version: int | None = None, *, tenant: str | None = None) -> AssetView:
        """An asset in its newest version, or in a given one."""
        return await self._get(self._app._open_parts(), id, version, tenant)

    async def read(self, id: str, version: int | None = None, *, tenant: str | None = None) -> bytes:
        """The content of an asset, proved to be what was put."""
        parts = self._app._open_parts()
        return await parts.assets.read(await self._get(parts, id, version, tenant))

    async def list(
        self,
        *,
        tag: str | None = None,
        media_type: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        tenant: str | None = None,
    ) -> builtins.list[AssetView]:
        """A page of assets in their newest versions, by id; the id of the last one is the cursor of the next page.

        `media_type` is one like `application/pdf`, or all of a kind, like `image/*`.
        """
        where = AssetFilter(
            self._tenant(tenant),
            check_optional_text("tag", tag),
            None if media_type is None else check_kind(media_type),
            "" if cursor is None else check_text("cursor", cursor),
            page_size(limit),
        )
        return await self._app._open_parts().assets.list(where)

    async def collect(
        self, name: str, ids: Iterable[str], *, tenant: str | None = None, actor: str | None = None
    ) -> builtins.list[AssetView]:
        """Let a collection hold just these assets, in this order, and answer with it."""
        parts, whose, called = self._app._open_parts(), self._tenant(tenant), check_name("The collection's name", name)
        wanted = [check_name("The asset's id", id) for id in check_texts("ids", ids)]
        if len(wanted) > MAX_COLLECTED:
            raise Invalid(f"Collection {called!r} would hold {len(wanted):,} assets; allowed are {MAX_COLLECTED:,}.")
        missing = await parts.assets.collect(whose, called, wanted, check_optional_text("actor", actor))
        if missing:
            some = ", ".join(repr(id) for id in missing)
            raise AssetNotFound(f"Collection {called!r} was left as it is: {some} not found. Put these first.")
        return await self.collection(called, tenant=whose)

    async def collection(self, name: str, *, tenant: str | None = None) -> builtins.list[AssetView]:
        """What a collection holds, in order, each in its newest version."""
        called = check_name("The collection's name", name)
        found = await self._app._open_parts().assets.collection(self._tenant(tenant), called)
        if found is None:
            raise AssetNotFound(f"Collection {called!r} not found. Make it with `app.assets.collect(...)`.")
        return [*found]

    async def lineage(
        self,
        id: str | None = None,
        version: int | None = None,
        *,
        run_id: str | None = None,
        limit: int = 1_000,
        tenant: str | None = None,
    ) -> builtins.list[LineageView]:
        """Which steps of which runs have read and written an asset, or what those of a run have; oldest run first.

        Of an asset without a version also what was written under another id because its own was taken.
        """
        where = LineageFilter(
            self._tenant(tenant),
            None if run_id is None else parse_run_id(run_id),
            None if id is None else check_name("The asset's id", id),
            check_version(version),
            page_size(limit),
        )
        if where.run_id is None and where.asset_id is None:
            raise Invalid("Say whose lineage is meant: that of an asset, by its id, or that of a run, by run_id=.")
        return await self._app._open_parts().store.lineage(where)

    async def upstream(
        self,
        id: str,
        version: int | None = None,
        *,
        depth: int | None = None,
        limit: int = 10_000,
        tenant: str | None = None,
    ) -> LineageGraph:
        """What a version was made of, and what that was made of, back to the beginning or `depth` steps of runs.

        Without a version the newest is meant. At most `limit` edges; `is_cut` says whether there are more.
        """
        return await self._graph(Direction.UPSTREAM, id, version, depth, limit, tenant)

    async def downstream(
        self,
        id: str,
        version: int | None = None,
        *,
        depth: int | None = None,
        limit: int = 10_000,
        tenant: str | None = None,
    ) -> LineageGraph:
        """What was made of a version, and what was made of that; as `upstream`, the other way."""
        return await self._graph(Direction.DOWNSTREAM, id, version, depth, limit, tenant)

    async def _graph(
        self, direction: Direction, id: str, version: int | None, depth: int | None, limit: int, tenant: str | None
    ) -> LineageGraph:
        steps = None if depth is None else check_whole("depth", depth, 1, MAX_DEPTH)
        edges = check_whole("limit", limit, 1, MAX_EDGES)
        parts = self._app._open_parts()
        asset = await self._get(parts, id, version, tenant)
        where = GraphFilter(asset.tenant, asset.id, asset.version, direction, edges)
        return graph_of(where, await parts.store.lineage_edges(where), steps)

    async def _get(self, parts: Parts, id: str, version: int | None, tenant: str | None) -> AssetView:
        whose, named, number = self._tenant(tenant), check_name("The asset's id", id), check_version(version)
        found = await parts.assets.get(whose, named, number)
        if found is None:
            raise not_found(named, number)
        return found

    def _tenant(self, tenant: str | None) -> str:
        return self._app.tenant if tenant is None else check_text("tenant", tenant)

    def _new_id(self) -> str:
        return self._ids.next(self._app._clock.now(), secrets.randbits(RANDOM_BITS))


async def _maker(parts: Parts, tenant: str, made_by: tuple[str, str]) -> MadeBy:
    try:
        run, step = made_by
    except (TypeError, ValueError):
        raise Invalid(f"made_by is {shown(made_by)}; give the id of a run and the name of a step.") from None
    return await _made_by(parts, tenant, parse_run_id(run), check_text("The step that made it", step))


async def _made_by(parts: Parts, tenant: str, run_id: RunId, step: str) -> MadeBy:
    run = await run_of(parts.store, tenant, run_id)
    here = current_step.get(None)
    if here is not None and (here.run.run_id, here.call.address) == (run_id, step):
        return MadeBy(run_id, here.run.generation, step, attempt=here.attempt, token=here.run.token)
    return await parts.store.last_try(tenant, run_id, step) or MadeBy(run_id, run.generation, step)


def _metadata(metadata: object) -> str:
    if not isinstance(metadata, Mapping):
        raise Invalid(f"metadata is {shown(metadata)}; give a dict.")
    return checked_metadata(metadata)


def _digest(id: str | None, new: NewAsset, content: bytes) -> str:
    """What must be the same when a key comes again; an id that was made up for this call does not count."""
    said = [id, new.media_type, new.metadata, new.tags, new.fresh, hashlib.sha256(content).hexdigest()]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
