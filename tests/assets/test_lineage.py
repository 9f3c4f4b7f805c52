"""Assets that steps read and make: nothing is overwritten, and who made what of what is written down."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Retry, RunFailed, step, storage, workflow
from stepfast.kernel.assets import Role
from stepfast.kernel.errors import AssetNotFound
from stepfast.stores.sqlite.store import SqliteStore
from stepfast.testing import crash_points, engine
from tests.support.apps import app_on


@step(retry=Retry(attempts=1))
async def publish(text: str) -> str:
    source = await storage.read_asset("source")
    made = await storage.write_asset("report", f"{source.decode()} {text}", tags=["made"], metadata={"of": "source"})
    return made.id


@workflow
async def publishing(text: str) -> str:
    return await publish(text)


@step
def publish_in_a_thread(text: str) -> str:
    source = storage.read_asset.sync("source@1")
    return storage.write_asset.sync("report", source + text.encode(), media_type="text/plain").id


@workflow
def publishing_in_a_thread(text: str) -> str:
    return publish_in_a_thread(text)


async def test_an_output_that_exists_is_left_alone_and_lineage_has_both_ids(database):
    async with app_on(database, [publishing]) as app:
        await app.assets.put(b"v1", "source")
        first = await app.start(publishing, "a")
        assert await first == "report"
        await first.rerun()
        assert await first == "report-2"
        assert [asset.version for asset in await app.assets.list()] == [1, 1, 1]
        assert await app.assets.read("report") == await app.assets.read("report-2") == b"v1 a"
        written = [row for row in await app.assets.lineage(run_id=first.id) if row.role is Role.WRITE]
        assert [(row.generation, row.step, row.asset_id, row.wanted_id) for row in written] == [
            (1, "publish#1", "report", "report"),
            (2, "publish#1", "report-2", "report"),
        ]


async def test_an_asset_knows_who_made_it_and_of_what(database):
    async with app_on(database, [publishing]) as app:
        source = await app.assets.put(b"v1", "source", tenant="acme")
        run = await app.start(publishing, "a", tenant="acme", actor="ann")
        await run
        made = await app.assets.get("report", tenant="acme")
        assert (made.run_id, made.generation, made.step, made.actor) == (run.id, 1, "publish#1", "ann")
        assert (made.media_type, made.tags, made.metadata) == ("text/plain", ("made",), {"of": "source"})
        (by,) = await app.assets.lineage("report", tenant="acme")
        beside = await app.assets.lineage(run_id=by.run_id, tenant="acme")
        assert [(row.role, row.asset_id, row.version) for row in beside] == [
            (Role.READ, "source", source.version),
            (Role.WRITE, "report", 1),
        ]
        assert [row.run_id for row in await app.assets.lineage("source", 1, tenant="acme")] == [run.id]
        assert await app.assets.lineage("source", 1, tenant="bolt") == []


async def test_def_steps_read_and_make_assets_too(database):
    async with app_on(database, [publishing_in_a_thread]) as app:
        await app.assets.put(b"v1", "source")
        await app.assets.put(b"v2", "source")
        assert await (await app.start(publishing_in_a_thread, "a")) == "report"
        assert await app.assets.read("report") == b"v1a"


async def test_another_tenant_s_asset_cannot_be_read_by_a_step(database):
    async with app_on(database, [publishing]) as app:
        await app.assets.put(b"v1", "source", tenant="acme")
        with pytest.raises(RunFailed) as raised:
            await (await app.start(publishing, "a", tenant="bolt"))
        assert isinstance(raised.value.__cause__, AssetNotFound)


@step(retry=Retry(attempts=2, base=0))
async def publishes_before_it_fails() -> str:
    made = await storage.write_asset("report", b"same")
    if not await storage.exists("failed"):
        await storage.save("failed", True)
        raise ValueError("after the asset was made")
    return made.id


@workflow
async def publishing_twice() -> str:
    return await publishes_before_it_fails()


async def test_an_attempt_that_makes_the_same_again_has_made_it(database):
    async with app_on(database, [publishing_twice]) as app:
        assert await (await app.start(publishing_twice)) == "report"
        assert [asset.id for asset in await app.assets.list()] == ["report"]


@step
async def publish_once() -> str:
    return (await storage.write_asset("report", b"same")).id


@workflow
async def publishing_once() -> str:
    return await publish_once()


async def published(opened: Any) -> list[str]:
    run = await opened.start(publishing_once)
    await opened.result(run)
    return [asset.id for asset in await opened.app.assets.list()]


async def test_a_crash_at_any_moment_leaves_one_asset():
    tried = await crash_points(published, workflows=[publishing_once])
    assert tried.calls.count("put_asset") == 1
    async with engine(workflows=[publishing_once]) as opened:
        assert await published(opened) == ["report"]


async def test_the_broken_twin_that_does_not_know_its_own_asset_again_makes_two(monkeypatch):
    async def without_a_key(self: Any, new: Any, content: Any) -> Any:
        return await put_asset(self, new._replace(key=None), content)

    put_asset = SqliteStore.put_asset
    monkeypatch.setattr(SqliteStore, "put_asset", without_a_key)
    with pytest.raises(AssertionError, match="changed the result"):
        await crash_points(published, workflows=[publishing_once])
