"""What was made of what, as far back and as far on as it goes."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Stepfast, step, storage, workflow
from stepfast.kernel.assets import AssetView, NewAsset
from stepfast.kernel.errors import AssetNotFound, Invalid
from stepfast.sync import Stepfast as SyncStepfast
from tests.assets.providers import OwnAssets
from tests.support.apps import QUICK, app_on


@step
async def derive(name: str, sources: list[str]) -> str:
    contents = [await storage.read_asset(source) for source in sources]
    return (await storage.write_asset(name, b"+".join([name.encode(), *contents]))).uri


@workflow
async def deriving(name: str, sources: list[str]) -> str:
    return await derive(name, sources)


async def built(app: Stepfast, tenant: str | None = None) -> dict[str, str]:
    """A diamond of two sources, and which run made what."""
    options: dict[str, Any] = {} if tenant is None else {"tenant": tenant}
    for source in ("a", "b"):
        await app.assets.put(source, source, **options)
    runs = {}
    for name, sources in (("left", ["a"]), ("right", ["a", "b"]), ("top", ["left", "right"])):
        run = await app.start(deriving, name, sources, **options)
        await run
        runs[name] = run.id
    return runs


def pairs(graph: Any) -> list[tuple[str, str, int]]:
    return [(edge.input_id, edge.asset_id, edge.depth) for edge in graph.edges]


async def test_upstream_goes_back_to_what_nobody_made(database):
    async with app_on(database, [deriving]) as app:
        runs = await built(app)
        graph = await app.assets.upstream("top")
        assert sorted(pairs(graph)) == [
            ("a", "left", 2),
            ("a", "right", 2),
            ("b", "right", 2),
            ("left", "top", 1),
            ("right", "top", 1),
        ]
        assert not graph.is_cut
        assert {(edge.asset_id, edge.run_id, edge.step, edge.attempt) for edge in graph.edges} == {
            (name, run_id, "derive#1", 1) for name, run_id in runs.items()
        }


async def test_downstream_goes_on_to_what_nothing_was_made_of(database):
    async with app_on(database, [deriving]) as app:
        await built(app)
        graph = await app.assets.downstream("b")
        assert pairs(graph) == [("b", "right", 1), ("right", "top", 2)]
        assert graph.assets == (("right", 1), ("top", 1))


async def test_depth_and_limit_cut_a_graph_and_say_so(database):
    async with app_on(database, [deriving]) as app:
        await built(app)
        near = await app.assets.downstream("b", depth=1)
        assert (pairs(near), near.is_cut) == ([("b", "right", 1)], True)
        few = await app.assets.upstream("top", limit=2)
        assert (sorted(pairs(few)), few.is_cut) == ([("left", "top", 1), ("right", "top", 1)], True)


async def test_without_a_version_the_newest_is_followed(database):
    async with app_on(database, [deriving]) as app:
        await built(app)
        await app.assets.put("a newer one", "a")
        assert (await app.assets.downstream("a")).edges == ()
        assert len((await app.assets.downstream("a", 1)).edges) == 4


async def test_another_tenant_s_graph_is_nobody_s(database):
    async with app_on(database, [deriving]) as app:
        await built(app, tenant="acme")
        await app.assets.put("a", "a", tenant="bolt")
        assert (await app.assets.downstream("a", tenant="bolt")).edges == ()
        with pytest.raises(AssetNotFound):
            await app.assets.upstream("top", tenant="bolt")


@pytest.mark.parametrize("options", [{"depth": 0}, {"depth": True}, {"limit": 0}, {"limit": 100_001}, {"version": 0}])
async def test_a_graph_without_bounds_is_refused(app, options):
    with pytest.raises(Invalid):
        await app.assets.upstream("a", **options)


class Catalogue(OwnAssets):
    """A place that knows nothing of runs."""

    async def put(self, new: NewAsset, content: bytes) -> AssetView:
        return await self._inner.put(new._replace(made_by=None), content)


async def test_assets_that_are_kept_elsewhere_have_a_graph_too(database, tmp_path):
    elsewhere = Catalogue(f"sqlite:///{tmp_path}/elsewhere.db")
    async with Stepfast(database, workflows=[deriving], worker=QUICK, assets=elsewhere) as app:
        await built(app)
        assert len((await app.assets.upstream("top")).edges) == 5


def test_graphs_are_there_without_a_loop(database):
    with SyncStepfast(database, workflows=[], worker=False) as app:
        app.assets.put("a", "a")
        assert (app.assets.upstream("a").edges, app.assets.downstream("a").edges) == ((), ())
