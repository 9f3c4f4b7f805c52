"""The assets that steps of a graph say they read and write: looked at before any run, and made a part of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from stepfast.kernel.assets import check_name, parse_asset
from stepfast.kernel.errors import Invalid
from stepfast.kernel.media_types import check_kind, check_media_type
from stepfast.kernel.texts import check_texts, shown
from stepfast.workflows.graphs.drafts import AssetRead, AssetWrite, Reads, Writes
from stepfast.workflows.graphs.formulas import Surroundings, formula_of, has_unknown, optional_formula
from stepfast.workflows.plans.plan import AssetUse

ASSETS = list[dict[str, Any]]
"""The hint of assets as steps see them."""
KNOWN: Mapping[str, frozenset[str]] = {
    "reads": frozenset(AssetRead.__annotations__),
    "writes": frozenset(AssetWrite.__annotations__),
}


def reads_of(given: Reads, around: Surroundings) -> tuple[AssetUse, ...]:
    """What a step reads."""
    return tuple(AssetUse(formula_of(each["asset"], around), _media_type(each, check_kind)) for each in _several(given))


def writes_of(given: Writes, around: Surroundings) -> tuple[AssetUse, ...]:
    """What a step writes."""
    return tuple(
        AssetUse(
            formula_of(each["asset"], around),
            _media_type(each, check_media_type),
            optional_formula(each.get("content"), around),
            optional_formula(each.get("metadata"), around),
            tuple(each.get("tags") or ()),
        )
        for each in _several(given)
    )


def faults_of_assets(name: str, given: object) -> Iterator[str]:
    """What is wrong with `reads` or `writes` of a step."""
    is_list = isinstance(given, list | tuple) and all(isinstance(each, Mapping) for each in given)
    if not is_list and not isinstance(given, Mapping):
        yield f'{name} is {shown(given)}; write {{"asset": ...}}, or a list of such'
        return
    for each in _several(given):
        yield from (f"{name}: {fault}" for fault in _faults_of(name, each))


def _faults_of(name: str, given: Mapping[str, Any]) -> Iterator[str]:
    for key in given:
        if key not in KNOWN[name]:
            yield f"it has {shown(key)}; known are {', '.join(sorted(KNOWN[name]))}"
    if "asset" not in given:
        yield "there is no 'asset'; say which it is"
    for key, check in CHECKS[name].items():
        value = given.get(key)
        if key not in given or (value is None and key != "asset"):
            continue
        if has_unknown(value):
            if key in CONSTANT:
                yield f"{key} is {shown(value)}, which only a run knows; say it here"
            continue
        try:
            check(value)
        except Invalid as error:
            yield str(error).rstrip(".")


def _check_metadata(given: object) -> None:
    if not isinstance(given, Mapping):
        raise Invalid(f"metadata is {shown(given)}; give a map of names to values")


def _check_tags(given: Any) -> None:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise Invalid(f"tags is {shown(given)}; give a list of texts")
    check_texts("tags", given)


CONSTANT = ("type", "tags")
"""What is a part of the plan, and the same in every run."""
CHECKS: Mapping[str, Mapping[str, Callable[[Any], object]]] = {
    "reads": {"asset": parse_asset, "type": check_kind},
    "writes": {
        "asset": lambda asset: check_name("The asset's id", asset),
        "type": check_media_type,
        "metadata": _check_metadata,
        "tags": _check_tags,
    },
}


def _several(given: Any) -> list[Mapping[str, Any]]:
    return [given] if isinstance(given, Mapping) else list(given)


def _media_type(given: Mapping[str, Any], check: Callable[[object], str]) -> str | None:
    media_type = given.get("type")
    return None if media_type is None else check(media_type)
