"""What the engine relies on in a blob store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stepfast.conformance.running import in_a_loop, refused
from stepfast.engine.values import Values
from stepfast.kernel.blobs import BlobFilter, BlobInfo, BlobKey, Blobs, parse_reference
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import BlobDamaged, Invalid
from stepfast.kernel.ids import RunId

RUN = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")
OTHER_RUN = RunId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e23")
KEY = BlobKey("acme", RUN, "report")

CONTENTS = (b"", b"\0", bytes(range(256)), b"x" * 1_000_000)
TENANTS = (
    *("a", "A", "a/b", "a%2fb", "a%2Fb", "../a", "..", ".", "~", "~a", "-", "a\\b", "a b", " ", "a.", "con", "*", "%"),
    *("\u00e9", "e\u0301", "\N{PILE OF POO}", "a\nb", "x" * 1_000, "x" * 999 + "y", "\N{PILE OF POO}" * 250),
)
HOSTILE_NAMES = ("", ".", "..", "../a", "a/b", "/a", "a\\b", ".hidden", "A", "a b", "a\0b", "a\n", "\u00e9", "x" * 201)
HOSTILE_RUNS = ("", ".", "..", "../../etc", "a", f"{RUN}/..", f"{RUN}\n", RUN.upper())
MANY = 20
PATIENCE_S = 10.0


class BlobsConformance:
    """Subclass it with a fixture `blobs`: an empty store that is not open yet, a new one for each test."""

    @in_a_loop
    async def test_what_is_put_is_read_back_byte_for_byte(self, blobs: Blobs) -> None:
        async with opened(blobs):
            for content in CONTENTS:
                await blobs.put(KEY, content)
                assert await blobs.get(KEY) == content
                assert [info.size for info in await blobs.list(BlobFilter())] == [len(content)]

    @in_a_loop
    async def test_what_was_never_put_is_not_there(self, blobs: Blobs) -> None:
        async with opened(blobs):
            assert await blobs.get(KEY) is None
            assert not await blobs.has(KEY)
            assert not await blobs.delete(KEY)
            assert await blobs.list(BlobFilter()) == []

    @in_a_loop
    async def test_what_was_put_is_there_after_closing_and_opening(self, blobs: Blobs) -> None:
        async with opened(blobs):
            await blobs.put(KEY, b"content")
        async with opened(blobs):
            assert await blobs.has(KEY)
            assert await blobs.get(KEY) == b"content"

    @in_a_loop
    async def test_putting_again_replaces(self, blobs: Blobs) -> None:
        async with opened(blobs):
            await blobs.put(KEY, b"a long first content")
            await blobs.put(KEY, b"second")
            assert await blobs.get(KEY) == b"second"
            assert [info.key for info in await blobs.list(BlobFilter())] == [KEY]

    @in_a_loop
    async def test_the_same_put_again_is_one_blob_that_was_put_now(self, blobs: Blobs) -> None:
        async with opened(blobs):
            await blobs.put(KEY, b"content")
            first = await only(blobs)
            second = await put_until_later(blobs, first)
            assert not await blobs.delete(KEY, put_before=Instant(first.put_at + 1))
            assert await blobs.get(KEY) == b"content"
            assert await blobs.delete(KEY, put_before=Instant(second.put_at + 1))
            assert not await blobs.has(KEY)

    @in_a_loop
    async def test_deleting_removes_that_blob_and_no_other(self, blobs: Blobs) -> None:
        others = [BlobKey("acme", RUN, "other"), BlobKey("acme", OTHER_RUN, "report"), BlobKey("bolt", RUN, "report")]
        async with opened(blobs):
            for key in (KEY, *others):
                await blobs.put(key, b"content")
            assert await blobs.delete(KEY)
            assert not await blobs.delete(KEY)
            assert not await blobs.has(KEY)
            assert [await blobs.get(key) for key in others] == [b"content"] * 3

    @in_a_loop
    async def test_a_tenant_and_a_run_see_their_own_alone(self, blobs: Blobs) -> None:
        async with opened(blobs):
            await blobs.put(KEY, b"of acme")
            for key in (KEY._replace(tenant="bolt"), KEY._replace(run_id=OTHER_RUN)):
                assert await blobs.get(key) is None
                assert not await blobs.has(key)
                assert not await blobs.delete(key)
            await blobs.put(KEY._replace(tenant="bolt"), b"of bolt")
            assert await blobs.get(KEY) == b"of acme"
            assert await blobs.get(KEY._replace(tenant="bolt")) == b"of bolt"

    @in_a_loop
    async def test_tenants_of_any_name_are_kept_apart(self, blobs: Blobs) -> None:
        async with opened(blobs):
            for tenant in TENANTS:
                await blobs.put(BlobKey(tenant, RUN, "report"), tenant.encode())
            for tenant in TENANTS:
                assert await blobs.get(BlobKey(tenant, RUN, "report")) == tenant.encode(), tenant
                (info,) = await blobs.list(BlobFilter(tenant=tenant))
                assert info.key.tenant == tenant
            assert {info.key.tenant for info in await blobs.list(BlobFilter())} == set(TENANTS)

    @in_a_loop
    async def test_hostile_keys_are_refused_and_nothing_is_put(self, blobs: Blobs) -> None:
        keys = [KEY._replace(name=name) for name in HOSTILE_NAMES]
        keys += [KEY._replace(run_id=RunId(run_id)) for run_id in HOSTILE_RUNS]
        keys += [KEY._replace(tenant=tenant) for tenant in ("", "a\0b", "\ud800")]
        async with opened(blobs):
            for key in keys:
                with refused(Invalid, key):
                    await blobs.put(key, b"content")
                with refused(Invalid, key):
                    await blobs.get(key)
            assert await blobs.list(BlobFilter()) == []

    @in_a_loop
    async def test_pages_hold_every_blob_once(self, blobs: Blobs) -> None:
        keys = {BlobKey(t, r, f"blob-{n}") for t in ("acme", "Bolt") for r in (RUN, OTHER_RUN) for n in range(5)}
        async with opened(blobs):
            for key in keys:
                await blobs.put(key, b"content")
            for where in (BlobFilter(), BlobFilter(tenant="Bolt"), BlobFilter("acme", RUN), BlobFilter(run_id=RUN)):
                found = [info.key for page in await pages(blobs, where, 3) for info in page]
                assert len(found) == len(set(found))
                assert set(found) == {key for key in keys if is_asked_for(key, where)}

    @in_a_loop
    async def test_a_page_goes_on_behind_a_blob_that_is_gone(self, blobs: Blobs) -> None:
        async with opened(blobs):
            for number in range(6):
                await blobs.put(KEY._replace(name=f"blob-{number}"), b"content")
            everything = [info.key for info in await blobs.list(BlobFilter())]
            await blobs.delete(everything[2])
            assert [info.key for info in await blobs.list(BlobFilter(after=everything[2]))] == everything[3:]

    @in_a_loop
    async def test_many_at_once_do_not_hinder_each_other(self, blobs: Blobs) -> None:
        keys = [KEY._replace(name=f"blob-{number}") for number in range(MANY)]
        async with opened(blobs):
            await asyncio.gather(*(blobs.put(key, key.name.encode() * 1_000) for key in keys))
            found = await asyncio.gather(*(blobs.get(key) for key in keys))
            assert found == [key.name.encode() * 1_000 for key in keys]

    @in_a_loop
    async def test_whoever_reads_while_others_put_gets_one_content_whole(self, blobs: Blobs) -> None:
        contents = [bytes([number]) * 100_000 for number in range(MANY)]
        async with opened(blobs):
            await blobs.put(KEY, contents[0])
            putting = asyncio.gather(*(blobs.put(KEY, content) for content in contents))
            while not putting.done():
                assert await blobs.get(KEY) in contents
                # A store in memory never waits, and would let nobody else get on.
                await asyncio.sleep(0)
            await putting
            assert await blobs.get(KEY) in contents

    @in_a_loop
    async def test_a_content_that_was_changed_is_found_out(self, blobs: Blobs) -> None:
        values = Values(blobs, threshold=10)
        await values.open()
        try:
            text = await values.keep("acme", RUN, '"a text that is large here"')
            assert await values.resolve("acme", RUN, [text]) == ['"a text that is large here"']
            await blobs.put(BlobKey("acme", RUN, parse_reference(text, RUN).name), b'"a text that was large here"')
            with refused(BlobDamaged, "another content"):
                await values.resolve("acme", RUN, [text])
            with refused(BlobDamaged, "a blob of another run"):
                await values.resolve("acme", OTHER_RUN, [text])
        finally:
            await values.close()


@asynccontextmanager
async def opened(blobs: Blobs) -> AsyncIterator[None]:
    await blobs.open()
    try:
        yield
    finally:
        await blobs.close()


async def only(blobs: Blobs) -> BlobInfo:
    (info,) = await blobs.list(BlobFilter())
    return info


async def put_until_later(blobs: Blobs, first: BlobInfo) -> BlobInfo:
    """Put the same content again until the store's clock has moved on; one that stands is told of, not waited for."""
    give_up_at = time.monotonic() + PATIENCE_S
    while (info := await only(blobs)).put_at <= first.put_at:
        assert time.monotonic() < give_up_at, f"{KEY} was put again and again, and its put_at stays {info.put_at}."
        await blobs.put(KEY, b"content")
    return info


async def pages(blobs: Blobs, where: BlobFilter, limit: int) -> list[list[BlobInfo]]:
    found = [await blobs.list(where._replace(limit=limit))]
    while found[-1]:
        assert len(found[-1]) <= limit
        found.append(await blobs.list(where._replace(limit=limit, after=found[-1][-1].key)))
    return found


def is_asked_for(key: BlobKey, where: BlobFilter) -> bool:
    return where.tenant in (None, key.tenant) and where.run_id in (None, key.run_id)
