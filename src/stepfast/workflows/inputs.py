"""Inputs that a run's start expands: assets, collections and queries become what they hold at that moment, once.

What comes out is plain JSON, and is stored as the run's input: every replay and rerun sees the same items.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, assert_never

from stepfast.kernel.asset_ports import Assets
from stepfast.kernel.assets import (
    FIRST_VERSION,
    MAX_COLLECTED,
    AssetFilter,
    AssetName,
    AssetView,
    check_name,
    item_of,
    parse_asset,
    uri_of,
)
from stepfast.kernel.errors import Invalid
from stepfast.kernel.media_types import PLAIN_BYTES, fits_type
from stepfast.kernel.texts import shown

if TYPE_CHECKING:
    from stepfast.workflows.plans.plan import Formula

Kind = Literal["payload", "asset", "collection", "query", "event"]

PAGE = 1_000


class Missing:
    """Nothing was given."""

    def __repr__(self) -> str:
        return "nothing"


MISSING = Missing()


class InputSpec(NamedTuple):
    """What is wanted for an input."""

    type: str | None = None
    """The media type of an asset, or of each in a collection or query: `application/pdf`, `image/*`. Or an event's."""
    of: str | None = None
    """The collection that is meant where none is given."""
    where: Formula | None = None
    """Which assets a query takes, over `item`; None: all."""
    default: Any = MISSING


class AssetsOf(NamedTuple):
    """The assets of one tenant; None for a rehearsal, which takes every asset for one that is there."""

    assets: Assets | None
    tenant: str


class Problems(Invalid):
    """All that is wrong with an input."""

    def __init__(self, *told: str) -> None:
        super().__init__("; ".join(told))
        self.told = told


async def resolve_input(kind: Kind, spec: InputSpec, given: Any, assets: AssetsOf) -> Any:
    """One input as the run will see it; raises Problems, with all that is wrong with it."""
    if given is MISSING:
        given = spec.default
    match kind:
        case "payload":
            return _needed(given)
        case "event":
            return _event(spec, _needed(given))
        case "asset":
            return await _asset(spec, _needed(given), assets)
        case "collection":
            return await _collection(spec, given, assets)
        case "query":
            return await _query(spec, given, assets)
        case _:
            assert_never(kind)


def stand_in(name: AssetName, media_type: str | None) -> dict[str, Any]:
    """What a rehearsal takes for an asset."""
    version = name.version or FIRST_VERSION
    told = {"id": name.id, "version": version, "uri": uri_of(name.id, version)}
    return {**told, "media_type": media_type or PLAIN_BYTES, "metadata": {}, "tags": []}


def _needed(given: Any) -> Any:
    if given is MISSING:
        raise Problems("nothing is given, and it has no default")
    return given


def event_faults(spec: InputSpec, given: Any) -> list[str]:
    """What is wrong with what is given for an event."""
    if not isinstance(given, Mapping) or not isinstance(given.get("type"), str):
        return [f"it is {shown(given)}; give an event, an object with `type` and `data`"]
    if spec.type is not None and given["type"] != spec.type:
        return [f"it is an event of type {shown(given['type'])}; wanted is {spec.type!r}"]
    return []


def _event(spec: InputSpec, given: Any) -> Any:
    if faults := event_faults(spec, given):
        raise Problems(*faults)
    return dict(given)


async def _asset(spec: InputSpec, given: Any, assets: AssetsOf) -> dict[str, Any]:
    try:
        name = parse_asset(given)
    except Invalid as error:
        raise Problems(_inside(error)) from None
    if assets.assets is None:
        return stand_in(name, spec.type)
    found = await assets.assets.get(assets.tenant, name.id, name.version)
    if found is None:
        version = "" if name.version is None else f" in version {name.version}"
        raise Problems(f"asset {name.id!r} does not exist{version}")
    return _fitting(spec, [found])[0]


async def _collection(spec: InputSpec, given: Any, assets: AssetsOf) -> list[dict[str, Any]]:
    if isinstance(given, list | tuple):
        return await _listed_assets(spec, given, assets)
    name = spec.of if given is MISSING else given
    if name is None:
        raise Problems("no collection is given; give its name, or a list of assets")
    try:
        called = check_name("the collection", name)
    except Invalid as error:
        raise Problems(_inside(error)) from None
    found = [] if assets.assets is None else await assets.assets.collection(assets.tenant, called)
    if found is None:
        raise Problems(f"collection {called!r} does not exist")
    return _fitting(spec, found)


async def _listed_assets(spec: InputSpec, given: Iterable[Any], assets: AssetsOf) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    for number, each in enumerate(given):
        if number == MAX_COLLECTED:
            raise Problems(f"more than {MAX_COLLECTED:,} assets are given; make several runs of them")
        try:
            found.append(await _asset(spec, each, assets))
        except Problems as wrong:
            problems += wrong.told
    if problems:
        raise Problems(*problems)
    return found


async def _query(spec: InputSpec, given: Any, assets: AssetsOf) -> list[dict[str, Any]]:
    if given is not MISSING:
        raise Problems(f"it is {shown(given)}; a query finds its items itself, so give nothing")
    found: list[dict[str, Any]] = []
    async for asset in _all_of(spec, assets):
        item = item_of(asset)
        if _is_wanted(spec, item, assets.tenant):
            if len(found) == MAX_COLLECTED:
                raise Problems(f"the query finds more than {MAX_COLLECTED:,} assets; let `where` ask for fewer")
            found.append(item)
    return found


async def _all_of(spec: InputSpec, assets: AssetsOf) -> AsyncIterator[AssetView]:
    where = AssetFilter(assets.tenant, media_type=spec.type, limit=PAGE)
    while assets.assets is not None and (page := await assets.assets.list(where)):
        for asset in page:
            yield asset
        where = where._replace(after=page[-1].id)


def _is_wanted(spec: InputSpec, item: dict[str, Any], tenant: str) -> bool:
    if spec.where is None:
        return True
    try:
        answer = spec.where.evaluate({"item": item, "tenant": tenant})
    except Exception as error:
        raise Problems(f"`where` cannot be told of asset {item['id']!r}: {_inside(error)}") from error
    if not isinstance(answer, bool):
        raise Problems(f"`where` is {shown(answer)} for asset {item['id']!r}; it must be true or false")
    return answer


def _fitting(spec: InputSpec, found: Iterable[AssetView]) -> list[dict[str, Any]]:
    assets = list(found)
    misfits = [
        f"asset {asset.id!r} is {asset.media_type}; wanted is {spec.type}"
        for asset in assets
        if spec.type is not None and not fits_type(asset.media_type, spec.type)
    ]
    if misfits:
        raise Problems(*misfits)
    return [item_of(asset) for asset in assets]


def _inside(error: Exception) -> str:
    """An error's words as a part of a sentence."""
    text = str(error).rstrip(".")
    return text[:1].lower() + text[1:]
