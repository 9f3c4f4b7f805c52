"""What the engine relies on in a provider of assets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stepfast.conformance.running import in_a_loop, refused
from stepfast.kernel.asset_ports import Assets
from stepfast.kernel.assets import AssetFilter, AssetView, NewAsset, check_name
from stepfast.kernel.errors import KeyReused

CONTENTS = (b"", b"\0", bytes(range(256)), b"x" * 1_000_000)
TENANTS = ("acme", "Acme", "acme/2", "../acme", "a%2fb", "\u00e9", "e\u0301", " ", "x" * 1_000)
IDS = (
    *(
        "a",
        "A",
        "a.b",
        "a-2",
        "a_b",
        "a%2fb",
        "a%",
        "~",
        "-",
        "con",
        "*",
        "a b",
        "a'b",
        'a"b',
        "a;b",
        "a:b",
        "a#b",
        "a?b",
    ),
    *("a/b", "a/b/c", ".hidden", "a..b", "\u00e9", "e\u0301", "\N{PILE OF POO}", "x" * 200, "\N{PILE OF POO}" * 125),
)
MANY = 20


class AssetsConformance:
    """Subclass it with a fixture `assets`: an empty provider that is not open yet, a new one for each test."""

    @in_a_loop
    async def test_what_is_put_is_read_back_byte_for_byte(self, assets: Assets) -> None:
        async with opened(assets):
            for number, content in enumerate(CONTENTS, start=1):
                put = await assets.put(NewAsset("acme", "report"), content)
                assert (put.id, put.version, put.tenant, put.size) == ("report", number, "acme", len(content))
                assert await assets.read(put) == content

    @in_a_loop
    async def test_an_earlier_version_stays_as_it_is(self, assets: Assets) -> None:
        async with opened(assets):
            first = await assets.put(NewAsset("acme", "report", "text/plain", '{"n":1}', ("a",)), b"one")
            await assets.put(NewAsset("acme", "report", "text/html", '{"n":2}', ("b",)), b"two")
            assert await assets.get("acme", "report", 1) == first
            assert await assets.read(first) == b"one"
            assert await newest(assets, "report") == (2, "text/html", {"n": 2}, ("b",))

    @in_a_loop
    async def test_what_was_never_put_is_not_there(self, assets: Assets) -> None:
        async with opened(assets):
            await assets.put(NewAsset("acme", "report"), b"one")
            assert await assets.get("acme", "nothing") is None
            assert await assets.get("acme", "report", 2) is None
            assert await assets.collection("acme", "nothing") is None

    @in_a_loop
    async def test_what_was_put_is_there_after_closing_and_opening(self, assets: Assets) -> None:
        async with opened(assets):
            put = await assets.put(NewAsset("acme", "report"), b"one")
            await assets.collect("acme", "all", ["report"], None)
        async with opened(assets):
            assert await assets.get("acme", "report") == put
            assert await assets.read(put) == b"one"
            assert await assets.collection("acme", "all") == [put]

    @in_a_loop
    async def test_the_same_again_is_the_version_that_there_is(self, assets: Assets) -> None:
        async with opened(assets):
            said = NewAsset("acme", "report", "text/plain", '{"n":1}', ("a", "b"))
            first = await assets.put(said, b"one")
            assert await assets.put(said, b"one") == first
            assert await assets.put(NewAsset("acme", "report"), b"one") == first

    @in_a_loop
    async def test_something_new_said_of_the_same_content_is_a_version(self, assets: Assets) -> None:
        async with opened(assets):
            await assets.put(NewAsset("acme", "report", "text/plain", '{"n":1}', ("a",)), b"one")
            same = NewAsset("acme", "report")
            news = (same._replace(media_type="text/html"), same._replace(metadata="{}"), same._replace(tags=()))
            assert [(await assets.put(new, b"one")).version for new in news] == [2, 3, 4]

    @in_a_loop
    async def test_what_is_not_said_of_a_version_is_as_before(self, assets: Assets) -> None:
        async with opened(assets):
            await assets.put(NewAsset("acme", "report", "text/plain", '{"n":1}', ("a",)), b"one")
            await assets.put(NewAsset("acme", "report"), b"two")
            assert await newest(assets, "report") == (2, "text/plain", {"n": 1}, ("a",))

    @in_a_loop
    async def test_content_that_was_there_before_the_newest_is_a_version_again(self, assets: Assets) -> None:
        async with opened(assets):
            versions = [(await assets.put(NewAsset("acme", "report"), each)).version for each in (b"a", b"b", b"a")]
            assert versions == [1, 2, 3]

    @in_a_loop
    async def test_a_key_answers_as_the_first_time(self, assets: Assets) -> None:
        async with opened(assets):
            said = NewAsset("acme", "report", key="k", key_digest="d")
            first = await assets.put(said, b"one")
            await assets.put(NewAsset("acme", "report"), b"two")
            assert await assets.put(said._replace(id="made-up-anew"), b"one") == first
            with refused(KeyReused, "another put with the same key"):
                await assets.put(said._replace(key_digest="other"), b"three")
            assert (await assets.put(said._replace(tenant="bolt", key_digest="other"), b"three")).version == 1
            assert await assets.get("acme", "made-up-anew") is None

    @in_a_loop
    async def test_a_taken_id_is_left_alone_where_a_fresh_one_is_wanted(self, assets: Assets) -> None:
        async with opened(assets):
            taken = await assets.put(NewAsset("acme", "report"), b"one")
            await assets.put(NewAsset("acme", "report-3"), b"somebody else's")
            fresh = [await assets.put(NewAsset("acme", "report", fresh=True), b"one") for _ in range(3)]
            assert len({asset.id for asset in fresh} - {"report", "report-3"}) == 3
            assert {asset.version for asset in fresh} == {1}
            assert await assets.get("acme", "report") == taken
            assert (await assets.put(NewAsset("acme", "new", fresh=True), b"one")).id == "new"

    @in_a_loop
    async def test_tenants_know_nothing_of_each_other(self, assets: Assets) -> None:
        async with opened(assets):
            for tenant in TENANTS:
                await assets.put(NewAsset(tenant, "report", tags=("a",)), tenant.encode())
                await assets.collect(tenant, "all", ["report"], None)
            await assets.put(NewAsset(TENANTS[0], "only"), b"one")
            for tenant in TENANTS:
                found = await assets.get(tenant, "report")
                assert found is not None
                assert (found.version, await assets.read(found)) == (1, tenant.encode()), tenant
                assert await assets.list(AssetFilter(tenant, tag="a")) == [found]
                assert await assets.collection(tenant, "all") == [found]
            assert await assets.get(TENANTS[1], "only") is None
            assert list(await assets.collect(TENANTS[1], "some", ["only"], None)) == ["only"]

    @in_a_loop
    async def test_ids_are_kept_apart_whatever_they_look_like(self, assets: Assets) -> None:
        async with opened(assets):
            for asset_id in IDS:
                await assets.put(NewAsset("acme", check_name("The id", asset_id)), asset_id.encode())
            for asset_id in IDS:
                found = await assets.get("acme", asset_id)
                assert found is not None
                assert (found.id, found.version, await assets.read(found)) == (asset_id, 1, asset_id.encode())
            assert {asset.id for asset in await assets.list(AssetFilter("acme"))} == set(IDS)

    @in_a_loop
    async def test_pages_hold_every_asset_once_by_its_id(self, assets: Assets) -> None:
        async with opened(assets):
            for number in range(10):
                await assets.put(NewAsset("acme", f"asset-{number}"), b"one")
            found = [asset.id for page in await pages(assets, AssetFilter("acme", limit=3)) for asset in page]
            assert found == [f"asset-{number}" for number in range(10)]

    @in_a_loop
    async def test_a_list_goes_by_the_newest_versions(self, assets: Assets) -> None:
        async with opened(assets):
            await assets.put(NewAsset("acme", "a", "image/png", tags=("old", "both")), b"one")
            await assets.put(NewAsset("acme", "b", "image/jpeg", tags=("both",)), b"one")
            await assets.put(NewAsset("acme", "a", "text/plain", tags=("new", "both")), b"two")

            async def ids(where: AssetFilter) -> list[tuple[str, int]]:
                return [(asset.id, asset.version) for asset in await assets.list(where)]

            assert await ids(AssetFilter("acme", tag="old")) == []
            assert await ids(AssetFilter("acme", tag="new")) == [("a", 2)]
            assert await ids(AssetFilter("acme", tag="both")) == [("a", 2), ("b", 1)]
            assert await ids(AssetFilter("acme", media_type="image/*")) == [("b", 1)]
            assert await ids(AssetFilter("acme", tag="both", media_type="text/plain")) == [("a", 2)]
            assert await ids(AssetFilter("acme", media_type="text/html")) == []

    @in_a_loop
    async def test_a_collection_holds_what_it_was_given_last_in_that_order(self, assets: Assets) -> None:
        async with opened(assets):
            for asset_id in ("a", "b", "c"):
                await assets.put(NewAsset("acme", asset_id), b"one")
            assert not await assets.collect("acme", "some", ["c", "a", "b", "a"], "ann")
            await assets.put(NewAsset("acme", "a"), b"two")
            assert await held(assets, "some") == [("c", 1), ("a", 2), ("b", 1), ("a", 2)]
            assert not await assets.collect("acme", "some", ["b"], None)
            assert await held(assets, "some") == [("b", 1)]
            assert not await assets.collect("acme", "none", [], None)
            assert await held(assets, "none") == []

    @in_a_loop
    async def test_a_collection_of_something_missing_stays_as_it_was(self, assets: Assets) -> None:
        async with opened(assets):
            await assets.put(NewAsset("acme", "a"), b"one")
            await assets.collect("acme", "some", ["a"], None)
            assert list(await assets.collect("acme", "some", ["x", "a", "y"], None)) == ["x", "y"]
            assert await held(assets, "some") == [("a", 1)]
            assert await assets.collect("acme", "other", ["x"], None)
            assert await assets.collection("acme", "other") is None

    @in_a_loop
    async def test_puts_at_once_are_versions_without_a_gap(self, assets: Assets) -> None:
        contents = [f"content {number}".encode() for number in range(MANY)]
        async with opened(assets):
            put = await asyncio.gather(*(assets.put(NewAsset("acme", "report"), content) for content in contents))
            assert sorted(asset.version for asset in put) == list(range(1, MANY + 1))
            for asset, content in zip(put, contents, strict=True):
                assert await assets.read(asset) == content
                assert await assets.get("acme", "report", asset.version) == asset

    @in_a_loop
    async def test_equal_puts_at_once_are_one_version(self, assets: Assets) -> None:
        async with opened(assets):
            said = (NewAsset("acme", "report"), NewAsset("acme", "keyed", key="k", key_digest="d"))
            for new in said:
                put = await asyncio.gather(*(assets.put(new, b"one") for _ in range(MANY)))
                assert {asset.version for asset in put} == {1}

    @in_a_loop
    async def test_fresh_ids_at_once_are_all_different(self, assets: Assets) -> None:
        async with opened(assets):
            new = NewAsset("acme", "report", fresh=True)
            put = await asyncio.gather(*(assets.put(new, b"one") for _ in range(MANY)))
            assert len({asset.id for asset in put}) == MANY
            assert "report" in {asset.id for asset in put}


@asynccontextmanager
async def opened(assets: Assets) -> AsyncIterator[None]:
    await assets.open()
    try:
        yield
    finally:
        await assets.close()


async def newest(assets: Assets, asset_id: str) -> tuple[object, ...]:
    found = await assets.get("acme", asset_id)
    assert found is not None
    return found.version, found.media_type, dict(found.metadata), found.tags


async def held(assets: Assets, name: str) -> list[tuple[str, int]]:
    return [(asset.id, asset.version) for asset in await assets.collection("acme", name) or ()]


async def pages(assets: Assets, where: AssetFilter) -> list[list[AssetView]]:
    found = [await assets.list(where)]
    while found[-1]:
        assert len(found[-1]) <= where.limit
        found.append(await assets.list(where._replace(after=found[-1][-1].id)))
    return found
