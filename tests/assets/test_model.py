"""Puts in any order, held against a model: a list of versions for each id."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepfast.kernel.assets import AssetFilter, NewAsset, metadata_text
from tests.assets.providers import OwnAssets

TENANTS = itertools.count()

IDS = st.sampled_from(["a", "a-2", "a-3", "b"])
PUTS = st.fixed_dictionaries(
    {
        "id": IDS,
        "content": st.sampled_from([b"", b"one", b"two"]),
        "media_type": st.sampled_from([None, "text/plain", "text/html"]),
        "metadata": st.sampled_from([None, {}, {"n": 1}]),
        "tags": st.sampled_from([None, (), ("x",), ("x", "y")]),
        "fresh": st.booleans(),
        "key": st.sampled_from([None, None, "k1", "k2"]),
    }
)


class Model:
    """Versions by id as plain data: content, media type, metadata and tags."""

    def __init__(self) -> None:
        self.versions: dict[str, list[tuple[Any, ...]]] = {}
        self.keys: dict[str, tuple[str, int]] = {}
        self.fresh: dict[str, int] = {}

    def put(self, asked: dict[str, Any]) -> tuple[str, int]:
        if asked["key"] in self.keys:
            return self.keys[asked["key"]]
        asset_id = self._fresh(asked["id"]) if asked["fresh"] else asked["id"]
        versions = self.versions.setdefault(asset_id, [])
        before = versions[-1] if versions else (None, "application/octet-stream", {}, ())
        said = (asked["media_type"], asked["metadata"], asked["tags"])
        told = (known if new is None else new for new, known in zip(said, before[1:], strict=True))
        version = (asked["content"], *told)
        if version != before:
            versions.append(version)
        answer = asset_id, len(versions)
        if asked["key"] is not None:
            self.keys[asked["key"]] = answer
        return answer

    def _fresh(self, wanted: str) -> str:
        asset_id = wanted
        while asset_id in self.versions:
            self.fresh[wanted] = self.fresh.get(wanted, 1) + 1
            asset_id = f"{wanted}-{self.fresh[wanted]}"
        return asset_id


def new_asset(tenant: str, asked: dict[str, Any]) -> NewAsset:
    metadata = None if asked["metadata"] is None else metadata_text(asked["metadata"])
    said = (asked["media_type"], metadata, asked["tags"])
    return NewAsset(tenant, asked["id"], *said, fresh=asked["fresh"], key=asked["key"], key_digest="d")


async def held_against_a_model(url: str, puts: list[dict[str, Any]]) -> None:
    assets, model, tenant = OwnAssets(url), Model(), f"tenant-{next(TENANTS)}"
    await assets.open()
    try:
        for asked in puts:
            put = await assets.put(new_asset(tenant, asked), asked["content"])
            assert (put.id, put.version) == model.put(asked)
        for asset_id, versions in model.versions.items():
            for number, version in enumerate(versions, start=1):
                found = await assets.get(tenant, asset_id, number)
                assert (await assets.read(found), found.media_type, found.metadata, found.tags) == version
            assert (await assets.get(tenant, asset_id)).version == len(versions)
        for tag in ("x", "y"):
            tagged = [asset.id for asset in await assets.list(AssetFilter(tenant, tag))]
            assert tagged == sorted(name for name, versions in model.versions.items() if tag in versions[-1][3])
    finally:
        await assets.close()


@pytest.fixture
def url(database: str) -> str:
    return database


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(puts=st.lists(PUTS, max_size=12))
def test_puts_in_any_order_do_what_the_model_does(url, puts):
    asyncio.run(held_against_a_model(url, puts))
