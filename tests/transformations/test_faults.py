"""Transformations when processes die: one asset, one version, its lineage once."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import RunFailed, RunState
from stepfast.stores.postgres.assets import PostgresAssets
from stepfast.stores.sqlite.assets import SqliteAssets
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.transformations import keeping
from tests.faults.test_crash_points import emptied
from tests.transformations.harness import CALLS, WORLD, begun, docs, flow, put_contract, to_text, transforming

STORES = (SqliteAssets, PostgresAssets)


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}
    return {"workflows": [transforming], "executors": [docs], "every": 1 if is_sqlite else 5, **databases}


async def made(opened: Engine) -> Any:
    await opened.insist(
        lambda: opened.app.assets.put(b"text", "contract", media_type="application/pdf", key="once", fresh=False)
    )
    run = await opened.start(transforming, "contract")
    await opened.result(run)
    assets = [(asset.id, asset.version, asset.inputs) for asset in await opened.app.assets.list()]
    used = [(each.inputs, each.outputs) for each in await opened.app.transformations.list(run_id=run.id)]
    rows = await opened.app.assets.lineage("contract/to_text")
    return assets, used, [(row.role.value, row.asset_id, row.version) for row in rows]


EXPECTED = (
    [("contract", 1, ()), ("contract/to_text", 1, ("asset:contract@1",))],
    [(("asset:contract@1",), ("asset:contract/to_text@1",))],
    [("write", "contract/to_text", 1)],
)


@pytest.mark.timeout(600)
async def test_a_crash_at_any_moment_leaves_one_asset_with_its_lineage(options):
    async def made_as_expected(opened: Engine) -> None:
        assert await made(opened) == EXPECTED

    tried = await crash_points(made_as_expected, **options)
    assert "keep_artifact" in tried.calls


@pytest.mark.timeout(600)
async def test_the_broken_twin_that_does_not_know_its_own_again_makes_two(options, monkeypatch):
    for store in STORES:
        monkeypatch.setattr(store, "put_asset", without_a_key(store.put_asset))
    with pytest.raises(AssertionError, match="changed the result"):
        await crash_points(made, **options | {"every": 1})


def without_a_key(put_asset: Any) -> Any:
    async def put(self: Any, new: Any, content: Any) -> Any:
        return await put_asset(self, new if new.made_by is None else new._replace(key=None), content)

    return put


async def test_a_run_that_is_cancelled_before_it_counts_leaves_no_asset(database):
    WORLD["review_required"] = True
    async with engine(database=database, workflows=[], executors=[docs]) as opened:
        await put_contract(opened)
        run = await begun(opened, flow(), document="contract")
        await run.cancel()
        await opened.run_until_idle()
        assert (await opened.info(run)).state is RunState.CANCELLED
        assert [asset.id for asset in await opened.app.assets.list()] == ["contract"]


async def test_a_write_that_failed_is_done_again_by_a_retry_without_the_transformation(database, monkeypatch):
    async with engine(database=database, workflows=[], executors=[docs]) as opened:
        await put_contract(opened)

        async def refuse(*args: Any) -> Any:
            raise OSError("the disk is full")

        kept = keeping._kept
        monkeypatch.setattr(keeping, "_kept", refuse)
        run = await begun(opened, flow(), document="contract")
        with pytest.raises(RunFailed, match="the disk is full"):
            await opened.result(run)
        monkeypatch.setattr(keeping, "_kept", kept)
        await run.retry()
        assert (await opened.result(run))["uri"] == "asset:contract/to_text@1"
        assert CALLS["to_text"] == 1


def test_what_is_used_here_is_a_transformation():
    assert repr(to_text) == "<transformation docs.to_text>"
