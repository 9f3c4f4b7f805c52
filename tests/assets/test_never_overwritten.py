"""An output whose id is taken gets another, and lineage has both: however it is written, and however often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import Retry, RunFailed, Stepfast, step, storage, workflow
from stepfast.kernel.assets import Role
from stepfast.stores.postgres.assets import PostgresAssets
from stepfast.stores.sqlite.assets import SqliteAssets
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.functions import AnyWorkflow
from stepfast.workflows.plans.plan import AssetUse, Constant
from tests.faults.test_crash_points import emptied
from tests.plans.harness import Executors, plan_workflow, use
from tests.plans.harness import step as plan_step
from tests.support.apps import app_on

AT_ONCE = 8
STORES = (SqliteAssets, PostgresAssets)


@step
async def report_by_storage() -> str:
    return (await storage.write_asset("report", await storage.read_asset("source"))).id


@workflow
async def by_storage() -> str:
    return await report_by_storage()


@step
def report_in_a_thread() -> str:
    return storage.write_asset.sync("report", storage.read_asset.sync("source")).id


@workflow
def in_a_thread() -> str:
    return report_in_a_thread()


def elsewhere() -> AnyWorkflow:
    """Made for one test: a step with a queue is executed by every app for as long as it is there."""

    @step(queue="elsewhere")
    async def report_elsewhere() -> str:
        return (await storage.write_asset("report", await storage.read_asset("source"))).id

    @workflow
    async def elsewhere() -> str:
        return await report_elsewhere()

    return elsewhere


async def cite(assets: list[dict[str, Any]]) -> str:
    return (await storage.read_asset(assets[0])).decode()


DECLARED = plan_workflow(
    plan_step("cite", use("cite"), reads=(AssetUse(Constant("source")),), writes=(AssetUse(Constant("report")),)),
    executors=Executors(cite=cite),
    name="declared",
)

WAYS = ("storage", "thread", "queue", "template")


@pytest.fixture
def flow(request: pytest.FixtureRequest) -> AnyWorkflow:
    """The workflow that writes its report in a way of its own."""
    ways: dict[str, AnyWorkflow] = {"storage": by_storage, "thread": in_a_thread, "template": DECLARED}
    return elsewhere() if request.param == "queue" else ways[request.param]


async def wrote(app: Stepfast) -> list[tuple[str, str]]:
    """What was written where a report was wanted: the id that was wanted, and what it became."""
    rows = await app.assets.lineage("report")
    return sorted((row.wanted_id, row.asset_id) for row in rows if row.role is Role.WRITE)


async def kept(app: Stepfast, ids: list[str]) -> None:
    """Each is there in one version, made of the source, as lineage tells from either end."""
    for asset_id in ids:
        assert (await app.assets.get(asset_id)).version == 1
        (edge,) = (await app.assets.upstream(asset_id)).edges
        assert (edge.source, edge.target, edge.wanted_id) == (("source", 1), (asset_id, 1), "report")
    below = await app.assets.downstream("source", 1)
    assert sorted(edge.asset_id for edge in below.edges) == sorted(ids)


@pytest.mark.parametrize("flow", WAYS, indirect=True)
async def test_a_rerun_writes_beside_what_it_wrote_before(database, flow):
    async with engine(database=database, workflows=[flow]) as opened:
        await opened.app.assets.put("s", "source")
        run = await opened.start(flow)
        await opened.result(run)
        await run.rerun()
        await opened.result(run)
        assert await wrote(opened.app) == [("report", "report"), ("report", "report-2")]
        await kept(opened.app, ["report", "report-2"])


@pytest.mark.parametrize("flow", WAYS, indirect=True)
async def test_runs_at_once_write_beside_each_other(database, flow):
    async with app_on(database, [flow]) as app:
        await app.assets.put("s", "source")
        runs = await asyncio.gather(*(app.start(flow) for _ in range(AT_ONCE)))
        await asyncio.gather(*(run.result() for run in runs))
        expected = ["report", *(f"report-{number}" for number in range(2, AT_ONCE + 1))]
        assert await wrote(app) == [("report", asset_id) for asset_id in sorted(expected)]
        await kept(app, expected)


async def test_puts_at_once_for_one_step_stand_beside_each_other(database):
    async with app_on(database, [by_storage]) as app:
        await app.assets.put("s", "source")
        run = await app.start(by_storage)
        await run
        puts = (
            app.assets.put(str(number), "report", fresh=True, made_by=(run.id, "report_by_storage#1"))
            for number in range(AT_ONCE)
        )
        made = [asset.id for asset in await asyncio.gather(*puts)]
        assert len({*made, "report"}) == AT_ONCE + 1
        await kept(app, [*made, "report"])


@pytest.mark.parametrize("flow", [by_storage, DECLARED], ids=["storage", "template"])
async def test_a_rollback_writes_beside_what_was_written(database, flow):
    async with engine(database=database, workflows=[flow]) as opened:
        await opened.app.assets.put("s", "source")
        run = await opened.start(flow)
        await opened.result(run)
        first = next(event for event in await opened.events(run) if event.type == "claimed")
        await run.rollback(to=first.seq)
        await run.resume()
        await opened.result(run)
        assert await wrote(opened.app) == [("report", "report"), ("report", "report-2")]
        await kept(opened.app, ["report", "report-2"])


@step(retry=Retry(attempts=1))
async def report_then_fail(fails: bool = True) -> str:
    made = await storage.write_asset("report", await storage.read_asset("source"))
    if fails and made.id == "report":
        raise OSError("after it was written")
    return made.id


@workflow
async def failing() -> str:
    return await report_then_fail()


async def test_a_dead_letter_that_is_replayed_writes_beside_what_was_written(database):
    async with app_on(database, [failing]) as app:
        await app.assets.put("s", "source")
        run = await app.start(failing)
        with pytest.raises(RunFailed):
            await run
        await app.dead_letters.replay(run.id)
        assert await run.result() == "report-2"
        assert await wrote(app) == [("report", "report"), ("report", "report-2")]
        await kept(app, ["report", "report-2"])


def put_apart(put_asset: Any) -> Any:
    """A put that knows nothing of lineage, as where assets are kept elsewhere."""

    async def put(self: Any, new: Any, content: Any) -> Any:
        return await put_asset(self, new._replace(made_by=None), content)

    return put


def told_once(trace: Any) -> Any:
    """Lineage of what is there already is not written down: a put that was answered before the death has none."""

    async def traced(self: Any, tenant: str, made_by: Any, role: Role, found: Any, anew: bool = False) -> None:
        if role is Role.WRITE and len(DEATHS) > 0 and DEATHS[-1]():
            return
        await trace(self, tenant, made_by, role, found, anew)

    return traced


DEATHS: list[Any] = []


async def reported(opened: Engine) -> Any:
    DEATHS[:] = [lambda: opened.crashes > 0]
    await opened.insist(lambda: opened.app.assets.put("s", "source", key="source"))
    run = await opened.start(by_storage)
    await opened.result(run)
    graph = await opened.app.assets.upstream("report")
    return await wrote(opened.app), [(edge.source, edge.target, edge.wanted_id) for edge in graph.edges]


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    is_sqlite = database.startswith("sqlite")
    return {"workflows": [by_storage], **({} if is_sqlite else {"databases": emptied(database)})}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_apart", [False, True], ids=["here", "elsewhere"])
async def test_a_death_between_the_put_and_its_lineage_leaves_both(options, monkeypatch, is_apart):
    if is_apart:
        for store in STORES:
            monkeypatch.setattr(store, "put_asset", put_apart(store.put_asset))
    tried = await crash_points(reported, **options)
    assert tried.calls.count("trace") == 2


@pytest.mark.timeout(600)
async def test_the_broken_twin_that_tells_only_of_what_is_new_loses_lineage(options, monkeypatch):
    for store in STORES:
        monkeypatch.setattr(store, "put_asset", put_apart(store.put_asset))
        monkeypatch.setattr(store, "trace", told_once(store.trace))
    with pytest.raises(AssertionError, match="changed the result"):
        await crash_points(reported, **options)
