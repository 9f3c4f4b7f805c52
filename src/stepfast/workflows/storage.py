"""A step's own storage: what its body keeps by name while it runs, artifacts for people, and assets with lineage.

Everything is kept for the attempt that keeps it: a later attempt finds what earlier ones of the same generation have
kept, and what it keeps itself takes their place without overwriting them. A rerun begins with nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from asyncio import events
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar

from stepfast.kernel.artifacts import Artifact, ArtifactKind, ArtifactView, Form, Keeping, keeping_of
from stepfast.kernel.assets import (
    AssetName,
    AssetView,
    MadeBy,
    NewAsset,
    Role,
    check_name,
    check_size,
    item_of,
    metadata_text,
    parse_asset,
    write_item,
)
from stepfast.kernel.blobs import reference_to
from stepfast.kernel.decisions import Fence
from stepfast.kernel.errors import AssetNotFound, WrongCall
from stepfast.kernel.media_types import JSON_TYPE, check_media_type
from stepfast.kernel.texts import check_texts
from stepfast.workflows.bodies import Guarding, StepInfo, StorageHost, current_step
from stepfast.workflows.codec import ValueCodec
from stepfast.workflows.content import Content, content_of
from stepfast.workflows.deterministic import refuse_in_workflow
from stepfast.workflows.given import text_given

P = ParamSpec("P")
T = TypeVar("T")

BINARY = (bytes, bytearray, memoryview)


class Here(NamedTuple):
    """The body of a step that asks for its storage."""

    info: StepInfo
    host: StorageHost

    @property
    def keeping(self) -> Keeping:
        return keeping_of(self.info.run, self.info.call, self.info.attempt)

    @property
    def made_by(self) -> MadeBy:
        return self.maker(self.info.call.address, self.info.attempt)._replace(token=self.info.run.token)

    def maker(self, step: str, attempt: int = 1, inputs: tuple[str, ...] = ()) -> MadeBy:
        """A step of this run as who reads and makes assets, by its address."""
        run = self.info.run
        fence = Fence(run.run_id, run.token, run.worker_id)
        return MadeBy(run.run_id, run.generation, step, fence, attempt, inputs)

    async def find(self, wanted: AssetName) -> AssetView:
        """An asset of the run's tenant."""
        found = await self.host.assets.get(self.info.run.tenant, wanted.id, wanted.version)
        if found is None:
            raise not_found(wanted.id, wanted.version)
        return found

    async def let_read(self, assets: Sequence[AssetView], let: Collection[str] = ()) -> None:
        """Have the app's policies let the body read these; `let` are those that a person has decided about."""
        if (policies := self._guarding("read")) is not None:
            await policies.ask("read", self.info, [item_of(asset) for asset in assets], let)

    async def let_read_itself(self, asset: AssetView) -> None:
        """The same for what the body reads by itself; what its step was let read in this generation is let."""
        if self._guarding("read") is not None and not await self.host.rows.has_read(
            self.info.run.tenant, self.made_by, asset
        ):
            await self.let_read([asset])

    async def let_write(self, writes: Iterable[Mapping[str, Any]], let: Collection[str] = ()) -> None:
        """Have the app's policies let the body write all of these, as they see them, before any is written."""
        if (policies := self._guarding("write")) is not None:
            await policies.ask("write", self.info, list(writes), let)

    def _guarding(self, what: Literal["read", "write"]) -> Guarding | None:
        policies = self.host.policies
        return policies if policies is not None and policies.guards(what) else None

    async def make(self, new: NewAsset, content: bytes, origin: str) -> AssetView:
        """Keep what a step has made, once for what is told of its origin; an id that is taken is left alone."""
        assert new.made_by is not None
        key = f"made {hashlib.sha256(origin.encode()).hexdigest()}"
        made = new._replace(actor=self.info.run.actor, fresh=True, key=key, key_digest=origin)
        asset = await self.host.assets.put(made, content)
        # What an earlier attempt has made is that attempt's.
        maker = new.made_by._replace(attempt=asset.attempt or new.made_by.attempt)
        # Where assets are kept elsewhere, lineage is kept here all the same.
        await self.host.rows.trace(new.tenant, maker, Role.WRITE, [(asset, new.id)])
        return asset


class InStep(Generic[P, T]):
    """A call for the bodies of steps: `await storage.save(...)` in `async def`, `storage.save.sync(...)` in `def`."""

    def __init__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> None:
        self._function = function
        self._name = f"storage.{function.__name__}"
        self.__doc__ = function.__doc__

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        loop = body_here(self._name).host.loop
        if events._get_running_loop() is None:
            raise WrongCall(f"{self._name}(...) must be awaited: in a `def` step call {self._name}.sync(...).")
        return _done_in(loop, self._function(*args, **kwargs))

    def sync(self, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for the body of a `def` step."""
        loop = body_here(self._name).host.loop
        if events._get_running_loop() is not None:
            raise WrongCall(f"{self._name}.sync(...) blocks: in an `async def` step write `await {self._name}(...)`.")
        return asyncio.run_coroutine_threadsafe(self._function(*args, **kwargs), loop).result()


async def _done_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    if events._get_running_loop() is loop:
        return await work
    # A body may have made a loop of its own, and connections belong to the app's.
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def body_here(what: str) -> Here:
    """The body that this is called in; anywhere else it is refused."""
    refuse_in_workflow(f"{what}(...)")
    info = current_step.get(None)
    if info is None or info.storage is None:
        raise WrongCall(f"{what}(...) was called outside the body of a step in a run.")
    return Here(info, info.storage)


@InStep
async def save(name: str, value: Any, media_type: str | None = None) -> None:
    """Keep a value, or bytes, under a name; it is on disk when this returns."""
    what = f"What is saved as {check_name('The name', name)!r}"
    if isinstance(value, BINARY):
        form, given = Form.BYTES, await content_of(what, value)
        content, known_type = given.content, given.media_type
    else:
        form, known_type = Form.JSON, JSON_TYPE
        content = text_given(value, what).encode()
        check_size(what, len(content))
    await _keep(name, ArtifactKind.VALUE, form, media_type, known_type, content)


@InStep
async def load(name: str, type: Any = None) -> Any:
    """What was saved under a name: bytes as bytes, values of the given type, or as JSON has them."""
    found = await _found(name)
    if found is None:
        raise AssetNotFound(
            f"Step {body_here('storage.load').info.call.address} has saved nothing as {name!r}. "
            f"Ask `storage.exists` first, or save it."
        )
    here = body_here("storage.load")
    what = f"What step {found.step} saved as {name!r}"
    content = await here.host.contents.get(here.info.run.tenant, here.info.run.run_id, found.reference, what)
    if found.form is Form.BYTES:
        return content
    return ValueCodec(Any if type is None else type, what).decode(content.decode())


@InStep
async def exists(name: str) -> bool:
    """Whether something is saved under a name."""
    return await _found(name) is not None


@InStep
async def delete(name: str) -> None:
    """Have nothing under a name any more; what earlier attempts kept stays listed with the run, as superseded."""
    if await _found(name) is not None:
        here = body_here("storage.delete")
        await here.host.rows.keep_artifact(here.keeping, Artifact(name, ArtifactKind.DELETED))


@InStep
async def names() -> list[str]:
    """The names under which something is saved, in order."""
    here = body_here("storage.list")
    return [found.name for found in await here.host.rows.kept_artifacts(here.keeping)]


@InStep
async def artifact(name: str, content: Content, media_type: str | None = None) -> None:
    """Keep bytes, a text or a file under a name, for people: listed with the run, and read by `run.artifact(name)`."""
    given = await content_of(f"Artifact {check_name('The name', name)!r}", content)
    await _keep(name, ArtifactKind.ARTIFACT, Form.BYTES, media_type, given.media_type, given.content)


@InStep
async def read_asset(asset: Any, version: int | None = None) -> bytes:
    """The content of an asset, by its id, `id@version`, its uri, or an input of kind asset; lineage tells of it."""
    here = body_here("storage.read_asset")
    wanted = parse_asset(asset)
    found = await here.find(wanted if version is None else wanted._replace(version=version))
    await here.let_read_itself(found)
    await here.host.rows.trace(here.info.run.tenant, here.made_by, Role.READ, [(found, wanted.id)])
    return await here.host.assets.read(found)


@InStep
async def write_asset(
    id: str,
    content: Content,
    *,
    media_type: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    tags: Iterable[str] | None = None,
) -> AssetView:
    """Make an asset; where the id is taken it gets another, and lineage records both."""
    here = body_here("storage.write_asset")
    wanted = check_name("The asset's id", id)
    given = await content_of(f"The content of asset {wanted!r}", content)
    run, made_by = here.info.run, here.made_by
    new = NewAsset(
        tenant=run.tenant,
        id=wanted,
        media_type=None if media_type is None else check_media_type(media_type),
        metadata=None if metadata is None else checked_metadata(metadata),
        tags=None if tags is None else checked_tags(tags),
        fallback_type=given.media_type,
        made_by=made_by,
    )
    reference, known = reference_to(given.content), json.loads(new.metadata or "{}")
    await here.let_write([write_item(wanted, new.media_type or given.media_type, new.tags or (), known, reference)])
    # The same step that makes the same thing again, because its first answer was lost, has made it.
    origin = f"{run.run_id} {run.generation} {made_by.step} {wanted} {reference.digest}"
    return await here.make(new, given.content, origin)


def not_found(asset_id: str, version: int | None) -> AssetNotFound:
    """What a missing asset and another tenant's have in common."""
    which = f"Asset {asset_id!r}" if version is None else f"Version {version} of asset {asset_id!r}"
    return AssetNotFound(f"{which} not found. List assets with `stepfast assets list`.")


METADATA = ValueCodec(dict[str, Any], "The metadata of an asset")


def checked_metadata(metadata: Mapping[str, Any]) -> str:
    """Metadata as JSON, its keys in order."""
    return metadata_text(METADATA.restore(dict(metadata))[1])


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(check_texts("tags", tags))))


async def _keep(
    name: str, kind: ArtifactKind, form: Form, media_type: str | None, known_type: str, content: bytes
) -> None:
    here = body_here("storage.save")
    media = known_type if media_type is None else check_media_type(media_type)
    run = here.info.run
    reference = await here.host.contents.put(run.tenant, run.run_id, content)
    await here.host.rows.keep_artifact(here.keeping, Artifact(name, kind, form, media, reference))


async def _found(name: str) -> ArtifactView | None:
    here = body_here("storage.load")
    found = await here.host.rows.kept_artifacts(here.keeping, check_name("The name", name))
    return found[0] if found else None
