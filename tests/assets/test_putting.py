"""Assets through the app: what may be put, under which names, for whom."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stepfast import Invalid, NotFound, Stepfast, WrongCall, step, workflow
from stepfast.kernel.assets import MAX_COLLECTED, MAX_CONTENT, AssetView, NewAsset
from stepfast.kernel.blobs import BlobKey
from stepfast.kernel.errors import AssetNotFound, BlobDamaged, KeyReused, RunFailed
from stepfast.sync import Stepfast as SyncStepfast
from tests.assets.providers import OwnAssets
from tests.support.apps import app_on
from tests.support.workflows import say

HOSTILE = {
    "nothing": "",
    "up": "..",
    "out": "../a",
    "out in the middle": "a/../b",
    "from the root": "/a",
    "an empty part": "a//b",
    "a trailing slash": "a/",
    "here": "./a",
    "NUL": "a\0b",
    "a line": "a\nb",
    "an escape": "a\x1b[2J",
    "a direction": "a\u202eb",
    "a version": "a@1",
    "a space": " a",
    "a backslash": "a\\b",
    "too long": "x" * 201,
    "a surrogate": "\ud800",
    "no text": 7,
}


@pytest.mark.parametrize(
    ("content", "media_type"), [(b"\0\1", "application/octet-stream"), ("é", "text/plain"), (bytearray(b"a"), None)]
)
async def test_bytes_and_texts_are_read_back_as_bytes(app, content, media_type):
    asset = await app.assets.put(content, "a")
    assert asset.media_type == (media_type or "application/octet-stream")
    assert await app.assets.read("a") == (content.encode() if isinstance(content, str) else bytes(content))


async def test_a_file_is_put_with_the_type_of_its_name(app, tmp_path):
    (tmp_path / "report.pdf").write_bytes(b"%PDF")
    asset = await app.assets.put(tmp_path / "report.pdf", "a")
    assert (asset.media_type, await app.assets.read("a")) == ("application/pdf", b"%PDF")


@pytest.mark.parametrize("name", ["gone.pdf", "."])
async def test_a_file_that_cannot_be_read_is_refused(app, tmp_path, name):
    with pytest.raises(Invalid, match="cannot be read"):
        await app.assets.put(tmp_path / name, "a")
    assert await app.assets.list() == []


@pytest.mark.parametrize("content", [7, None, ["a"], "\ud800"])
async def test_what_is_no_content_is_refused(app, content):
    with pytest.raises(Invalid, match="content"):
        await app.assets.put(content, "a")


async def test_an_asset_without_an_id_is_given_one(app):
    one, two = await app.assets.put(b"a"), await app.assets.put(b"a")
    assert one.id != two.id
    assert await app.assets.get(one.id) == one


async def test_a_key_answers_with_the_id_that_was_made_up_the_first_time(app):
    one = await app.assets.put(b"a", key="k")
    assert await app.assets.put(b"a", key="k") == one
    assert [asset.id for asset in await app.assets.list()] == [one.id]


@pytest.mark.parametrize("other", [{"content": b"b"}, {"tags": ["x"]}, {"id": "named"}, {"fresh": True}])
async def test_a_key_that_comes_with_something_else_is_refused(app, other):
    await app.assets.put(b"a", key="k")
    with pytest.raises(KeyReused, match="'k'"):
        await app.assets.put(**{"content": b"a", "key": "k", **other})


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_id_is_refused_by_every_door(app, name):
    for call in (
        lambda: app.assets.put(b"a", name),
        lambda: app.assets.get(name),
        lambda: app.assets.read(name),
        lambda: app.assets.collect(name, []),
        lambda: app.assets.collect("all", [name]),
        lambda: app.assets.collection(name),
        lambda: app.assets.lineage(name),
    ):
        with pytest.raises(Invalid):
            await call()
    assert await app.assets.list() == []


@pytest.mark.parametrize("media_type", ["pdf", "", "a/b/c", "text/plain\n", "é/x", 7])
async def test_a_media_type_that_is_none_is_refused(app, media_type):
    with pytest.raises(Invalid, match="media type"):
        await app.assets.put(b"a", "a", media_type=media_type)


@pytest.mark.parametrize("metadata", [[1], "x", {"a": object()}, {"a": float("nan")}, {1: 2}])
async def test_metadata_that_json_cannot_hold_is_refused(app, metadata):
    with pytest.raises(Invalid, match="metadata"):
        await app.assets.put(b"a", "a", metadata=metadata)


async def test_metadata_and_tags_come_back_as_they_were_given(app):
    metadata = {"b": [1, {"ü": None}], "a": 1.5}
    asset = await app.assets.put(b"a", "a", metadata=metadata, tags=["b", "a", "b"], actor="ann")
    assert (asset.metadata, asset.tags, asset.actor) == (metadata, ("a", "b"), "ann")
    assert await app.assets.get("a") == asset


async def test_another_tenant_s_asset_is_not_told_from_one_that_does_not_exist(app):
    await app.assets.put(b"a", "here", tenant="acme")
    await app.assets.collect("all", ["here"], tenant="acme")

    async def told(call) -> str:
        with pytest.raises(AssetNotFound) as raised:
            await call()
        return str(raised.value).replace("here", "gone").replace("all", "none")

    async def both(door, theirs: str, nobodys: str) -> None:
        assert await told(lambda: door(theirs, tenant="bolt")) == await told(lambda: door(nobodys, tenant="bolt"))

    await both(app.assets.get, "here", "gone")
    await both(app.assets.read, "here", "gone")
    await both(app.assets.collection, "all", "none")
    assert await app.assets.list(tenant="bolt") == []


async def test_64_mb_are_put_and_read_back(database, place):
    content = bytes(range(256)) * (MAX_CONTENT // 256)
    async with Stepfast(database, workflows=[], worker=False, blobs=place) as app:
        asset = await app.assets.put(content, "large")
        assert asset.size == MAX_CONTENT
        assert await app.assets.read("large") == content


async def test_more_than_64_mb_are_refused_before_they_are_read(app, tmp_path):
    with pytest.raises(Invalid, match="67,108,865 bytes, and the limit is 67,108,864"):
        await app.assets.put(b"x" * (MAX_CONTENT + 1), "large")
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(Invalid, match="1,000,000,000,000 bytes"):
        await app.assets.put(sparse, "large")


async def test_content_that_was_changed_in_the_blob_store_is_found_out(app):
    asset = await app.assets.put(b"a", "a")
    key = BlobKey(asset.tenant, asset.place, asset.reference.name)
    blobs = app._open_parts().values.blobs
    await blobs.put(key, b"b")
    with pytest.raises(BlobDamaged, match="Version 1 of asset 'a' is not what was put"):
        await app.assets.read("a")
    await blobs.delete(key)
    with pytest.raises(BlobDamaged, match="not in the blob store"):
        await app.assets.read("a")


async def test_a_collection_of_too_many_is_refused(app):
    await app.assets.put(b"a", "a")
    assert len(await app.assets.collect("most", ["a"] * MAX_COLLECTED)) == MAX_COLLECTED
    with pytest.raises(Invalid, match="10,001 assets; allowed are 10,000"):
        await app.assets.collect("more", ["a"] * (MAX_COLLECTED + 1))


async def test_what_a_collection_lacks_is_named_at_once(app):
    await app.assets.put(b"a", "a")
    with pytest.raises(AssetNotFound, match="'x', 'y' not found"):
        await app.assets.collect("some", ["x", "a", "y"])


CANNOT_BE = [
    {"tag": ""},
    {"media_type": "pdf"},
    {"media_type": "*/pdf"},
    {"limit": 0},
    {"cursor": "a\0"},
    {"tenant": ""},
]


@pytest.mark.parametrize("given", CANNOT_BE)
async def test_a_list_by_what_cannot_be_is_refused(app, given):
    with pytest.raises(Invalid):
        await app.assets.list(**given)


async def test_a_list_is_paged_by_the_last_id(app):
    for name in "abcde":
        await app.assets.put(b"a", name)
    first = await app.assets.list(limit=2)
    rest = await app.assets.list(cursor=first[-1].id)
    assert [asset.id for asset in [*first, *rest]] == list("abcde")


@workflow
async def puts(app_number: int) -> None:
    await APPS[app_number].assets.put(b"a", "a")


@step
async def put_by_app(app_number: int) -> str:
    return (await APPS[app_number].assets.put(b"a", "a")).uri


@workflow
async def puts_in_a_step(app_number: int) -> str:
    return await put_by_app(app_number)


APPS: list[Stepfast] = []


async def test_workflow_code_may_put_in_a_step_alone(database):
    async with app_on(database, [puts, puts_in_a_step]) as app:
        APPS.append(app)
        number = APPS.index(app)
        with pytest.raises(RunFailed) as raised:
            await (await app.start(puts, number))
        assert isinstance(raised.value.__cause__, WrongCall)
        assert await (await app.start(puts_in_a_step, number)) == "asset:a@1"


async def test_an_asset_made_by_a_run_of_another_tenant_is_refused(database):
    async with app_on(database, [say], worker=False) as app:
        run = await app.start(say, "x", tenant="acme")
        assert (await app.assets.put(b"a", "a", tenant="acme", made_by=(run.id, "echo#1"))).run_id == run.id
        with pytest.raises(NotFound, match=run.id):
            await app.assets.put(b"a", "a", tenant="bolt", made_by=(run.id, "echo#1"))
        with pytest.raises(Invalid, match="made_by"):
            await app.assets.put(b"a", "a", tenant="acme", made_by=cast(Any, (run.id,)))


class ElsewhereAssets(OwnAssets):
    """Somebody's own assets, in a place of their own."""

    puts: list[str]

    async def put(self, new: NewAsset, content: bytes) -> AssetView:
        self.puts = [*getattr(self, "puts", []), new.id]
        return await self._inner.put(new, content)


async def test_an_app_keeps_assets_where_it_is_told_to(database, tmp_path):
    elsewhere = ElsewhereAssets(f"sqlite:///{tmp_path}/elsewhere.db")
    async with Stepfast(database, workflows=[], worker=False, assets=elsewhere) as app:
        await app.assets.put(b"a", "a")
        assert await app.assets.read("a") == b"a"
    assert elsewhere.puts == ["a"]
    async with Stepfast(database, workflows=[], worker=False) as app:
        assert await app.assets.list() == []


def test_blocking_code_has_the_same_assets(database):
    with SyncStepfast(database, workflows=[], worker=False) as app:
        asset = app.assets.put(b"a", "a", tags=["t"])
        assert app.assets.list(tag="t") == app.assets.collect("all", ["a"]) == [app.assets.get("a")] == [asset]
        assert (app.assets.read("a"), app.assets.collection("all")) == (b"a", [asset])
