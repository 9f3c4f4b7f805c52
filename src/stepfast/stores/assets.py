"""What is read and written of assets and of steps' storage: the same statements, in the same order, for both stores.

Work of several statements is a generator: it yields a statement by name with its parameters, and is sent the rows.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from stepfast.kernel.artifacts import Artifact, ArtifactFilter, ArtifactKind, ArtifactView, Form, Keeping
from stepfast.kernel.asset_ports import AssetRows, Contents
from stepfast.kernel.assets import (
    AssetFilter,
    AssetView,
    LineageFilter,
    LineageView,
    MadeBy,
    NewAsset,
    Role,
    fresh_id,
    is_put_already,
    metadata_text,
    next_version,
    parse_asset,
    place_of,
    uri_of,
)
from stepfast.kernel.blobs import Reference
from stepfast.kernel.decisions import CallId, Fence
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import KeyReused, LeaseLost
from stepfast.kernel.ids import RunId
from stepfast.kernel.lineage import GraphFilter, LineageEdge

T = TypeVar("T")
Row = Sequence[Any]
# More than any count of calls has: what stands there is not one.
MAX_DIGITS = 9
Work = Generator[tuple[str, dict[str, Any]], Sequence[Row], T]


class DatabaseAssets:
    """Assets in the store itself, their contents in the blob store."""

    def __init__(self, rows: AssetRows, contents: Contents) -> None:
        self._rows = rows
        self._contents = contents

    def __repr__(self) -> str:
        return "<assets in the database>"

    async def open(self) -> None:
        """The store is open."""

    async def close(self) -> None:
        """The store closes by itself."""

    async def put(self, new: NewAsset, content: bytes) -> AssetView:
        """The content first: one whose row never comes is an orphan, and is swept."""
        return await self._rows.put_asset(new, await self._contents.put(new.tenant, place_of(new.id), content))

    async def get(self, tenant: str, asset_id: str, version: int | None = None) -> AssetView | None:
        """One version, or the newest."""
        return await self._rows.asset(tenant, asset_id, version)

    async def list(self, where: AssetFilter) -> list[AssetView]:
        """A page of assets."""
        return await self._rows.assets(where)

    async def collect(self, tenant: str, name: str, ids: Sequence[str], actor: str | None) -> Sequence[str]:
        """Fill a collection anew."""
        return await self._rows.collect_assets(tenant, name, ids, actor)

    async def collection(self, tenant: str, name: str) -> Sequence[AssetView] | None:
        """What a collection holds."""
        return await self._rows.collected_assets(tenant, name)

    async def read(self, asset: AssetView) -> bytes:
        """The content of a version."""
        what = f"Version {asset.version} of asset {asset.id!r}"
        return await self._contents.get(asset.tenant, asset.place, asset.reference, what)


def put_asset(new: NewAsset, content: Reference) -> Work[AssetView]:
    """Add a version, unless there is nothing new in it."""
    if new.made_by is not None and new.made_by.fence is not None:
        yield from _check_fence(new.made_by.fence)
    if new.key is not None:
        answered = yield from _use_key(new.tenant, new.key, new)
        if answered is not None:
            return answered
    asset_id, before = yield from (_fresh(new) if new.fresh else _held(new))
    made_by = new.made_by
    if made_by is not None:
        new = new._replace(made_by=(yield from _with_inputs(new.tenant, made_by)))
    if before is not None and is_put_already(before, new, content):
        view = before
    else:
        (now,) = (yield "moment", {})[0]
        view = next_version(before, new, asset_id, content, Instant(now))
        yield from _add(view)
    if new.key is not None:
        answer = json.dumps([view.id, view.version])
        yield "answer_asset_key", {"tenant": new.tenant, "key": new.key, "answer": answer}
    if made_by is not None:
        # In the same commit: nobody ever finds what a step has made without who made it, and of what.
        yield from _add_written(new.tenant, made_by, view, new.id)
    return view


def get_asset(tenant: str, asset_id: str, version: int | None) -> Work[AssetView | None]:
    """One version, or the newest."""
    which: dict[str, Any] = {"tenant": tenant, "asset_id": asset_id}
    if version is None:
        found = yield "get_newest", which
    else:
        found = yield "get_asset", {**which, "version": version}
    return asset_view(found[0]) if found else None


def list_assets(where: AssetFilter) -> Work[list[AssetView]]:
    """A page of assets."""
    wanted = where.media_type or "*/*"
    of_kind = wanted.endswith("/*")
    found = yield (
        "list_assets" if where.tag is None else "list_tagged",
        {
            **where._asdict(),
            "media_type": None if of_kind else wanted,
            "media_kind": wanted[:-1] if of_kind and wanted != "*/*" else None,
        },
    )
    return [asset_view(row) for row in found]


def collect_assets(tenant: str, name: str, ids: Sequence[str], actor: str | None) -> Work[list[str]]:
    """Fill a collection anew, or say which of its assets do not exist."""
    which, listed = {"tenant": tenant, "name": name}, json.dumps(list(ids))
    missing = yield "missing_assets", {"tenant": tenant, "ids": listed}
    if missing:
        return [asset_id for (asset_id,) in missing]
    yield "set_collection", {**which, "size": len(ids), "actor": actor}
    yield "empty_collection", which
    yield "fill_collection", {**which, "ids": listed}
    return []


def collected_assets(tenant: str, name: str) -> Work[list[AssetView] | None]:
    """What a collection holds."""
    which = {"tenant": tenant, "name": name}
    if not (yield "get_collection", which):
        return None
    return [asset_view(row) for row in (yield "list_collected", which)]


def trace(tenant: str, made_by: MadeBy, role: Role, assets: Sequence[tuple[AssetView, str]], anew: bool) -> Work[None]:
    """Write lineage down."""
    if made_by.fence is not None:
        yield from _check_fence(made_by.fence)
    if anew:
        yield "drop_lineage", {**_maker(tenant, made_by), "role": role.value}
    for asset, wanted_id in assets:
        yield from (_add_written if role is Role.WRITE else _add_read)(tenant, made_by, asset, wanted_id)


def has_read(tenant: str, made_by: MadeBy, asset: AssetView) -> Work[bool]:
    """Whether a step has read a version."""
    which = {**_maker(tenant, made_by), "asset_id": asset.id, "version": asset.version}
    return bool((yield "has_read", which))


def list_lineage(where: LineageFilter) -> Work[list[LineageView]]:
    """Who has read and written what."""
    # One version of an asset is what it is, whoever wanted its id.
    instead = where.asset_id if where.version is None else None
    return [_lineage_view(row) for row in (yield "list_lineage", {**where._asdict(), "instead": instead})]


def list_edges(where: GraphFilter) -> Work[list[LineageEdge]]:
    """The graph of a version, one edge more than is wanted where there are more."""
    which = {"tenant": where.tenant, "asset_id": where.asset_id, "version": where.version}
    return [_edge(row) for row in (yield where.direction.value, {**which, "limit": where.limit + 1})]


def last_try(tenant: str, run_id: RunId, step: str) -> Work[MadeBy | None]:
    """A step as who makes assets, as its record has it."""
    where, _, nth = step.rpartition("#")
    path, _, name = where.rpartition("/")
    if not nth.isdecimal() or len(nth) > MAX_DIGITS:
        return None
    which = {"tenant": tenant, "run_id": run_id, "path": path, "step": name, "nth": int(nth)}
    found = yield "last_try", which
    if not found:
        return None
    ((generation, attempt, token),) = found
    return MadeBy(run_id, generation, step, attempt=attempt, token=token)


def keep_artifact(keeping: Keeping, artifact: Artifact) -> Work[None]:
    """Keep something of a step, if its run is still its holder's."""
    yield from _check_fence(Fence(keeping.run_id, keeping.token, keeping.worker_id))
    content = artifact.content
    yield (
        "keep_artifact",
        {
            **_call(keeping),
            "token": keeping.token,
            "attempt": keeping.attempt,
            "name": artifact.name,
            "kind": artifact.kind.value,
            "form": artifact.form.value,
            "media_type": artifact.media_type,
            "digest": None if content is None else content.digest,
            "size": None if content is None else content.size,
        },
    )


def kept_artifacts(keeping: Keeping, name: str | None) -> Work[list[ArtifactView]]:
    """What a step finds in its storage."""
    return [_artifact_view(row) for row in (yield "kept_artifacts", {**_call(keeping), "name": name})]


def list_artifacts(where: ArtifactFilter) -> Work[list[ArtifactView]]:
    """What the steps of a run have kept."""
    only_kind, current = (None, None) if where.all else (ArtifactKind.ARTIFACT.value, "only")
    found = yield "list_artifacts", {**where._asdict(), "only_kind": only_kind, "current": current}
    return [_artifact_view(row) for row in found]


def asset_view(row: Row) -> AssetView:
    """A row of a version."""
    asset_id, version, tenant, media_type, metadata, tags, digest, size, place, put_at, actor, run_id, *rest = row
    generation, step, attempt, inputs = rest
    return AssetView(
        asset_id,
        version,
        tenant,
        media_type,
        json.loads(metadata),
        tuple(json.loads(tags)),
        digest,
        size,
        RunId(str(place)),
        Instant(put_at),
        actor,
        None if run_id is None else RunId(str(run_id)),
        generation,
        step,
        attempt,
        tuple(json.loads(inputs)),
    )


def _maker(tenant: str, made_by: MadeBy) -> dict[str, Any]:
    return {"tenant": tenant, "run_id": made_by.run_id, "generation": made_by.generation, "step": made_by.step}


def _try(tenant: str, made_by: MadeBy) -> dict[str, Any]:
    return {**_maker(tenant, made_by), "attempt": made_by.attempt, "token": made_by.token}


def _add_read(tenant: str, made_by: MadeBy, asset: AssetView, wanted_id: str) -> Work[None]:
    which = {"asset_id": asset.id, "version": asset.version, "wanted_id": wanted_id, "role": Role.READ.value}
    yield "add_lineage", {**_try(tenant, made_by), **which, "token": made_by.token or 0}


def _add_written(tenant: str, made_by: MadeBy, asset: AssetView, wanted_id: str) -> Work[None]:
    """Who has written it, and of what, unless that is known: what is read later on has no part in it."""
    which = {"asset_id": asset.id, "version": asset.version, "wanted_id": wanted_id}
    who = _try(tenant, made_by)
    if not (yield "add_lineage", {**who, **which, "role": Role.WRITE.value, "token": 0}):
        return
    given = dict.fromkeys(made_by.inputs)
    if given:
        found = {uri_of(*row) for row in (yield "inputs_of", who)}
        for uri in given:
            if uri not in found:
                named = parse_asset(uri)
                yield "add_derivation", {**who, **which, "input_id": named.id, "input_version": named.version}
    yield "add_derivations", {**who, **which}


def _with_inputs(tenant: str, made_by: MadeBy) -> Work[MadeBy]:
    """The same maker, with all that it has read."""
    read = yield "inputs_of", _try(tenant, made_by)
    found = (uri_of(asset_id, version) for asset_id, version in read)
    return made_by._replace(inputs=tuple(dict.fromkeys((*made_by.inputs, *found))))


def _held(new: NewAsset) -> Work[tuple[str, AssetView | None]]:
    """The asset that is meant, taken, with its newest version."""
    ((newest,),) = yield "hold_asset", {"tenant": new.tenant, "asset_id": new.id}
    return new.id, (yield from get_asset(new.tenant, new.id, newest))


def _fresh(new: NewAsset) -> Work[tuple[str, AssetView | None]]:
    """An asset that is new: the one that is meant, or another in its stead."""
    asset_id = new.id
    while not (yield "new_asset", {"tenant": new.tenant, "asset_id": asset_id}):
        ((number,),) = yield "count_fresh", {"tenant": new.tenant, "asset_id": new.id}
        asset_id = fresh_id(new.id, number)
    return asset_id, None


def _add(view: AssetView) -> Work[None]:
    which = {"tenant": view.tenant, "asset_id": view.id}
    tags = json.dumps(view.tags)
    inputs = json.dumps(view.inputs)
    fields = {**view._asdict(), **which, "metadata": metadata_text(view.metadata), "tags": tags, "inputs": inputs}
    yield "add_version", fields
    yield "set_newest", {**which, "version": view.version}
    yield "untag_asset", which
    yield "tag_asset", {**which, "tags": tags}


def _use_key(tenant: str, key: str, new: NewAsset) -> Work[AssetView | None]:
    """What the same put was answered with before; None: it is the first with its key."""
    which = {"tenant": tenant, "key": key}
    if (yield "use_asset_key", {**which, "digest": new.key_digest, "place": place_of(new.id)}):
        return None
    ((digest, answer),) = yield "asset_key_used", which
    if digest != new.key_digest:
        raise KeyReused(
            f"Key {key!r} of tenant {tenant!r} was used before for another asset. "
            f"Use a new key, or put what was put first."
        )
    asset_id, version = json.loads(answer)
    return (yield from get_asset(tenant, asset_id, version))


def _check_fence(fence: Fence) -> Work[None]:
    if not (yield "held_by", fence._asdict()):
        raise LeaseLost(
            f"Run {fence.run_id} is no longer held here: a command or another worker has it. Nothing was kept."
        )


def _call(keeping: Keeping) -> dict[str, Any]:
    path, name, nth = keeping.call
    whose = {"tenant": keeping.tenant, "run_id": keeping.run_id, "generation": keeping.generation}
    return {**whose, "path": path, "step": name, "nth": nth}


def _lineage_view(row: Row) -> LineageView:
    run_id, generation, step, role, *rest = row
    return LineageView(RunId(str(run_id)), generation, step, Role(role), *rest)


def _edge(row: Row) -> LineageEdge:
    input_id, input_version, asset_id, version, wanted_id, run_id, *rest = row
    return LineageEdge(input_id, input_version, asset_id, version, wanted_id, RunId(str(run_id)), *rest)


def _artifact_view(row: Row) -> ArtifactView:
    run_id, path, step, nth, name, kind, form, media_type, digest, size, generation, attempt, at, superseded = row
    call, content = CallId(path, step, nth), (media_type, digest, size, generation, attempt)
    what = (name, ArtifactKind(kind), Form(form), *content)
    return ArtifactView(RunId(str(run_id)), call.address, *what, Instant(at), bool(superseded))
