"""Sweeping: contents of assets and artifacts stay, those whose rows never came go after a day."""

from __future__ import annotations

import pytest

from stepfast import Stepfast, step, storage, workflow
from stepfast.kernel.assets import place_of
from stepfast.stores import statements
from stepfast.stores.postgres import blobs as on_postgres
from stepfast.stores.sqlite import blobs as on_sqlite
from tests.blobs.test_sweep import Swept
from tests.support.apps import QUICK


@step
async def keep(content: str) -> None:
    await storage.save("draft", content)
    await storage.artifact("report", content * 2)


@workflow
async def keeping(content: str) -> None:
    await keep(content)


async def kept_and_swept(app: Stepfast) -> tuple[int, int]:
    """How many contents there are and were swept, once everything that mentions contents is there."""
    for content in (b"one", b"two"):
        await app.assets.put(content, "report", tenant="acme")
    await app.assets.put(b"one", "other", tenant="bolt")
    run = await app.start(keeping, "a", tenant="acme")
    await run
    await run.rerun()
    await run
    swept = Swept(app)
    return len(await swept.names()), await swept.sweep.make_pass()


async def test_what_a_version_or_an_artifact_holds_stays(database, place):
    async with Stepfast(database, workflows=[keeping], worker=QUICK, blobs=place) as app:
        assert await kept_and_swept(app) == (5, 0)
        assert await app.assets.read("report", 1, tenant="acme") == b"one"


async def test_the_broken_twin_that_does_not_look_at_their_rows_sweeps_them(database, monkeypatch):
    told = statements.blob_statements()
    text = told["list_mentions"]
    without = text[: text.index("union\nselect '@blob:sha256-'")]
    monkeypatch.setitem(told, "list_mentions", without)
    monkeypatch.setitem(on_sqlite.SQL, "list_mentions", statements.unprefixed(without))
    on_postgres._statement.cache_clear()
    try:
        async with Stepfast(database, workflows=[keeping], worker=QUICK) as app:
            assert await kept_and_swept(app) == (5, 5)
    finally:
        on_postgres._statement.cache_clear()


async def test_content_whose_row_never_came_goes_after_a_day(app):
    await app._open_parts().contents.put("acme", place_of("report"), b"orphan")
    swept = Swept(app)
    assert await swept.sweep.make_pass() == 1
    assert await swept.names() == []


@pytest.mark.parametrize("asset_id", ["report", "x" * 200, "ü"])
def test_the_place_of_an_asset_is_no_run_s(asset_id):
    assert place_of(asset_id).startswith("ffffffff-")
