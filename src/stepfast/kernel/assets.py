"""Assets: content that outlives runs, in versions that never change, and what runs have read and written of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from uuid import UUID

from stepfast.kernel.blobs import Reference
from stepfast.kernel.decisions import Fence
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import Invalid
from stepfast.kernel.ids import RunId
from stepfast.kernel.media_types import PLAIN_BYTES
from stepfast.kernel.numbers import check_whole
from stepfast.kernel.texts import MAX_NAME, MAX_NAME_BYTES, check_text, shown

MAX_CONTENT = 64 * 1024 * 1024
"""Bytes of one content: it is held in memory whole wherever it is put or read."""
MAX_COLLECTED = 10_000
"""Assets in a collection, and of what a query may find."""
MAX_VERSION = 2**31 - 1
MAX_DIGITS = len(str(MAX_VERSION))
FIRST_VERSION = 1

SCHEME = "asset:"
# Far above every moment, so that whoever drops what is old by its id does not drop these.
_FAR_AHEAD = 0xFFFFFFFF


class AssetView(NamedTuple):
    """One version of an asset, without its content."""

    id: str
    version: int
    tenant: str
    media_type: str
    metadata: Mapping[str, Any]
    tags: tuple[str, ...]
    digest: str
    """The SHA-256 of its content."""
    size: int
    place: RunId
    """Whose blob its content is, in the blob store."""
    put_at: Instant
    actor: str | None = None
    run_id: RunId | None = None
    """The run that made it, with generation and step; None where nobody said."""
    generation: int | None = None
    step: str | None = None
    attempt: int | None = None
    inputs: tuple[str, ...] = ()
    """The addresses of what that step had read by then."""

    @property
    def uri(self) -> str:
        """The address of just this version."""
        return uri_of(self.id, self.version)

    @property
    def reference(self) -> Reference:
        return Reference(self.digest, self.size)


class MadeBy(NamedTuple):
    """Who makes an asset: a step of a run; with a fence nothing is written once the run is somebody else's."""

    run_id: RunId
    generation: int
    step: str
    fence: Fence | None = None
    attempt: int = 1
    inputs: tuple[str, ...] = ()
    """Addresses of what it is made of, beside what lineage has this try read."""
    token: int | None = None
    """The lease of the try that reads or makes it, for an attempt may have died and been made again.

    None: what is read counts for every try of the step; what is made is made of what the attempt's last try has read.
    """


class NewAsset(NamedTuple):
    """What is to be put; what is None is as in the version before."""

    tenant: str
    id: str
    media_type: str | None = None
    metadata: str | None = None
    """As JSON, its keys in order."""
    tags: tuple[str, ...] | None = None
    fallback_type: str = PLAIN_BYTES
    """The media type where neither the caller nor a version before says it."""
    actor: str | None = None
    key: str | None = None
    key_digest: str = ""
    fresh: bool = False
    """An id that exists already is left alone: the asset gets another, like `report-2`."""
    made_by: MadeBy | None = None


class AssetFilter(NamedTuple):
    """Which assets a list holds, in their newest versions, by id; `after` is the id that the page before ended with."""

    tenant: str
    tag: str | None = None
    media_type: str | None = None
    """`application/pdf`, or all of a kind: `image/*`."""
    after: str = ""
    limit: int = 100


class Role(StrEnum):
    """What a step did with an asset."""

    READ = "read"
    WRITE = "write"


class LineageView(NamedTuple):
    """A step of a run has read or written a version of an asset; `wanted_id` is the id it asked for."""

    run_id: RunId
    generation: int
    step: str
    role: Role
    asset_id: str
    version: int
    wanted_id: str
    at: Instant
    attempt: int = 1


class LineageFilter(NamedTuple):
    """Which rows of lineage are meant: of a run, of an asset, or of both.

    Without a version those are among an asset's where its id was wanted, and was taken.
    """

    tenant: str
    run_id: RunId | None = None
    asset_id: str | None = None
    version: int | None = None
    limit: int = 1_000
    generation: int | None = None


class AssetName(NamedTuple):
    """An asset as people name it; without a version its newest is meant."""

    id: str
    version: int | None = None


def write_item(
    asset_id: str, media_type: str, tags: Iterable[str], metadata: Mapping[str, Any], content: Reference
) -> dict[str, Any]:
    """An asset that is about to be written, as policies see it."""
    told = {"id": asset_id, "media_type": media_type, "tags": list(tags), "metadata": dict(metadata)}
    return {**told, "size": content.size, "digest": content.digest}


def item_of(asset: AssetView) -> dict[str, Any]:
    """An asset as expressions, steps and policies see it."""
    names = ("id", "version", "uri", "media_type")
    told = {name: getattr(asset, name) for name in names}
    return {**told, "metadata": dict(asset.metadata), "tags": list(asset.tags)}


def uri_of(asset_id: str, version: int) -> str:
    """The address of a version."""
    return f"{SCHEME}{quote(asset_id)}@{version}"


def check_name(what: str, name: object) -> str:
    """Refuse names that some place could not hold, or could take for a way out, or that nobody could write down."""
    text = check_text(what, name if isinstance(name, str) else shown(name), MAX_NAME)
    if not isinstance(name, str) or not text.isprintable() or text != text.strip() or "@" in text or "\\" in text:
        raise Invalid(
            f"{what} is {shown(name)}; use printable characters, none of them '@' or a backslash, and no space around."
        )
    if any(part in ("", ".", "..") for part in text.split("/")):
        raise Invalid(f"{what} is {shown(name)}; no part between slashes may be empty, '.' or '..'.")
    if text.startswith(SCHEME):
        raise Invalid(f"{what} is {shown(name)}; what begins with {SCHEME!r} is taken for the address of an asset.")
    return text


def check_size(what: str, size: int) -> int:
    if size > MAX_CONTENT:
        raise Invalid(
            f"{what} has {size:,} bytes, and the limit is {MAX_CONTENT:,}. Keep it in a place of your own, and put its "
            f"address instead."
        )
    return size


def parse_asset(given: object) -> AssetName:
    """What names an asset: an id, `id@version`, its uri, or an object with `id` and perhaps `version`."""
    if isinstance(given, AssetView):
        return AssetName(given.id, given.version)
    if isinstance(given, Mapping):
        version = given.get("version")
        return AssetName(check_name("The asset's id", given.get("id")), None if version is None else _version(version))
    if not isinstance(given, str):
        raise Invalid(f"The asset is {shown(given)}; give its id, or `id@version`.")
    is_uri = given.startswith(SCHEME)
    name, at, version = given.removeprefix(SCHEME).partition("@")
    if at and not (version.isdecimal() and len(version) <= MAX_DIGITS):
        raise Invalid(f"The asset is {shown(given)}; behind '@' stands the number of a version.")
    return AssetName(
        check_name("The asset's id", unquote(name) if is_uri else name), _version(int(version)) if at else None
    )


def check_version(version: object) -> int | None:
    """Refuse what is no version of an asset; None stands for the newest, or for any."""
    return None if version is None else check_whole("version", version, FIRST_VERSION, MAX_VERSION)


def _version(number: object) -> int:
    return check_whole("The asset's version", number, FIRST_VERSION, MAX_VERSION)


def place_of(asset_id: str) -> RunId:
    """The place of an asset's contents in the blob store, which knows runs alone: an id that no run can have."""
    hashed = int.from_bytes(hashlib.sha256(f"asset {asset_id}".encode()).digest()[:12], "big")
    return RunId(str(UUID(int=_FAR_AHEAD << 96 | hashed)))


def metadata_text(metadata: Mapping[str, Any]) -> str:
    """Metadata as it is stored: equal metadata is equal text."""
    return json.dumps(metadata, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def is_put_already(newest: AssetView, new: NewAsset, content: Reference) -> bool:
    """Whether a put would add nothing: the content is the same, and so is all that was said of it."""
    said = (
        (new.media_type, newest.media_type),
        (new.metadata, metadata_text(newest.metadata)),
        (new.tags, newest.tags),
    )
    return newest.reference == content and all(given is None or given == known for given, known in said)


def next_version(before: AssetView | None, new: NewAsset, asset_id: str, content: Reference, now: Instant) -> AssetView:
    """The version that a put adds: what is not said of it is as it was."""
    made_by = new.made_by
    known_type = new.fallback_type if before is None else before.media_type
    known_tags = () if before is None else before.tags
    metadata: Mapping[str, Any] = {} if before is None else before.metadata
    return AssetView(
        id=asset_id,
        version=FIRST_VERSION if before is None else before.version + 1,
        tenant=new.tenant,
        media_type=known_type if new.media_type is None else new.media_type,
        metadata=metadata if new.metadata is None else json.loads(new.metadata),
        tags=known_tags if new.tags is None else new.tags,
        digest=content.digest,
        size=content.size,
        place=place_of(new.id),
        put_at=now,
        actor=new.actor,
        run_id=None if made_by is None else made_by.run_id,
        generation=None if made_by is None else made_by.generation,
        step=None if made_by is None else made_by.step,
        attempt=None if made_by is None else made_by.attempt,
        inputs=() if made_by is None else made_by.inputs,
    )


def fresh_id(wanted: str, number: int) -> str:
    """Another id for an asset whose own is taken."""
    added = f"-{number}"
    short = wanted[: MAX_NAME - len(added)].encode()[: MAX_NAME_BYTES - len(added)]
    return short.decode(errors="ignore") + added
