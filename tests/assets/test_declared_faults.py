"""Assets of plans when processes die and answers are lost: each is made once, and lineage tells what was so."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import storage
from stepfast.kernel.assets import Role
from stepfast.kernel.errors import StoreUnavailable
from stepfast.stores.postgres.assets import PostgresAssets
from stepfast.stores.sqlite.assets import SqliteAssets
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.plans import assets as declared
from stepfast.workflows.plans.plan import AssetUse, Constant, Each, Gate, Set
from tests.faults.test_crash_points import emptied
from tests.plans.harness import Executors, output, plan_workflow, step, use, value

STORES = (SqliteAssets, PostgresAssets)


async def cite(assets: list[dict[str, Any]]) -> str:
    return (await storage.read_asset(assets[0])).decode()


async def work(text: str) -> str:
    return f"{text}!"


EXECUTORS = Executors(cite=cite, work=work)


def writes(asset: str) -> tuple[AssetUse, ...]:
    return (AssetUse(Constant(asset)),)


BUSY = plan_workflow(
    step("source", Set(Constant("text")), writes=writes("source")),
    step("cite", use("cite"), needs=("source",), reads=(AssetUse(Constant("source")),), writes=writes("cited")),
    step(
        "items",
        use("work", text=value(lambda scope: scope["item"])),
        needs=("cite",),
        each=Each(Constant(["a", "b"])),
        writes=(AssetUse(value(lambda scope: f"item-{scope['item']}")),),
    ),
    step("again", use("work", text=output("cite")), needs=("items",), writes=writes("cited")),
    executors=EXECUTORS,
    name="busy",
)


async def made(opened: Engine) -> Any:
    run = await opened.start(BUSY)
    await opened.result(run)
    assets = [(asset.id, asset.version, asset.inputs) for asset in await opened.app.assets.list()]
    rows = await opened.app.assets.lineage(run_id=run.id)
    return assets, sorted((row.step, row.role.value, row.asset_id, row.version, row.wanted_id) for row in rows)


EXPECTED = (
    [
        ("cited", 1, ("asset:source@1",)),
        ("cited-2", 1, ()),
        ("item-a", 1, ()),
        ("item-b", 1, ()),
        ("source", 1, ()),
    ],
    [
        ("again#1", "write", "cited-2", 1, "cited"),
        ("cite#1", "read", "source", 1, "source"),
        ("cite#1", "write", "cited", 1, "cited"),
        ("items[0]/items#1", "write", "item-a", 1, "item-a"),
        ("items[1]/items#1", "write", "item-b", 1, "item-b"),
        ("source#1", "write", "source", 1, "source"),
    ],
)


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}
    return {"workflows": [BUSY], "every": 1 if is_sqlite else 5, **databases}


@pytest.mark.timeout(600)
async def test_a_crash_at_any_moment_leaves_each_asset_once_with_its_lineage(options):
    async def made_as_expected(opened: Engine) -> None:
        assert await made(opened) == EXPECTED

    tried = await crash_points(made_as_expected, **options)
    assert tried.calls.count("put_asset") == 5


@pytest.mark.timeout(600)
async def test_the_broken_twin_that_does_not_know_its_own_again_makes_two(options, monkeypatch):
    for store in STORES:
        monkeypatch.setattr(store, "put_asset", without_a_key(store.put_asset))
    with pytest.raises(AssertionError, match="changed the result"):
        await crash_points(made, **options | {"every": 1})


def without_a_key(put_asset: Any) -> Any:
    async def put(self: Any, new: Any, content: Any) -> Any:
        return await put_asset(self, new._replace(key=None), content)

    return put


CITING = plan_workflow(
    step("cite", use("cite"), reads=(AssetUse(Constant("source")),), writes=writes("cited")),
    executors=EXECUTORS,
    name="citing",
)


async def read_after_a_lost_answer(database: str, monkeypatch: Any) -> list[int]:
    """The versions that a step is told to have read whose first look was answered by nobody, and was outdated then."""
    async with engine(database=database, workflows=[CITING]) as opened:
        await opened.app.assets.put("old", "source")
        lost: list[int] = []

        def losing(trace: Any) -> Any:
            async def traced(self: Any, *args: Any, **options: Any) -> None:
                await trace(self, *args, **options)
                if not lost:
                    lost.append(1)
                    await opened.app.assets.put("new", "source")
                    raise StoreUnavailable("The answer was lost.")

            return traced

        for store in STORES:
            monkeypatch.setattr(store, "trace", losing(store.trace))
        run = await opened.start(CITING)
        assert await opened.result(run) == "new"
        rows = await opened.app.assets.lineage(run_id=run.id)
        return [row.version for row in rows if row.role is Role.READ]


async def test_a_look_of_which_nothing_came_leaves_no_lineage(database, monkeypatch):
    assert await read_after_a_lost_answer(database, monkeypatch) == [2]


async def test_the_broken_twin_that_only_adds_tells_of_what_was_not_read(database, monkeypatch):
    for store in STORES:
        monkeypatch.setattr(store, "trace", only_adding(store.trace))
    assert await read_after_a_lost_answer(database, monkeypatch) == [1, 2]


def only_adding(trace: Any) -> Any:
    async def traced(self: Any, *args: Any, anew: bool = False) -> None:
        await trace(self, *args)

    return traced


async def cancelled_between(database: str) -> tuple[list[str], list[str]]:
    """What there is of a run whose step was done, and that was cancelled before anything was written."""
    async with engine(database=database, workflows=[CITING]) as opened:
        await opened.app.assets.put("text", "source")
        run = await opened.start(CITING)
        await opened.result(run)
        await run.rerun()
        await run.cancel()
        assets = [asset.id for asset in await opened.app.assets.list()]
        return assets, [row.asset_id for row in await opened.app.assets.lineage(run_id=run.id)]


async def test_a_run_that_is_cancelled_leaves_lineage_only_of_what_there_is(database):
    assets, traced = await cancelled_between(database)
    assert set(traced) <= set(assets)


async def test_an_asset_is_never_there_without_who_made_it(database, monkeypatch):
    """Also where the process goes right after the asset was put: what comes behind it need not be."""

    async def no_trace(self: Any, *args: Any, **options: Any) -> None:
        """Nothing is written down beside the put."""

    for store in STORES:
        monkeypatch.setattr(store, "trace", no_trace)
    async with engine(database=database, workflows=[CITING]) as opened:
        await opened.app.assets.put("text", "source")
        run = await opened.start(CITING)
        await opened.result(run)
        assert [row.asset_id for row in await opened.app.assets.lineage(run_id=run.id)] == ["cited"]


async def test_what_a_person_has_corrected_is_what_is_written():
    flow = plan_workflow(
        step("work", use("work", text="x"), after=Gate(), writes=writes("it")), executors=EXECUTORS, name="looked-at"
    )
    async with engine(workflows=[flow]) as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        (question,) = await opened.reviews(run)
        assert await opened.app.assets.list() == []
        await opened.decide(question, "correct", value="sure", actor="ann")
        await opened.result(run)
        assert await opened.app.assets.read("it") == b"sure"


async def test_a_step_that_a_person_has_done_again_reads_anew_and_writes_once():
    flow = plan_workflow(
        step("cite", use("cite"), reads=(AssetUse(Constant("source")),), after=Gate(), writes=writes("cited")),
        executors=EXECUTORS,
        name="done-again",
    )
    async with engine(workflows=[flow]) as opened:
        await opened.app.assets.put("old", "source")
        run = await opened.start(flow)
        await opened.run_until_idle()
        await opened.app.assets.put("new", "source")
        (question,) = await opened.reviews(run)
        await opened.decide(question, "retry", actor="ann")
        await opened.run_until_idle()
        (question,) = await opened.reviews(run)
        await opened.decide(question, "continue", actor="ann")
        assert await opened.result(run) == "new"
        made = await opened.app.assets.get("cited")
        assert (made.step, made.inputs) == ("cite#2", ("asset:source@2",))
        assert [asset.id for asset in await opened.app.assets.list()] == ["cited", "source"]


async def test_a_write_that_failed_is_done_again_by_a_retry_without_the_step(database, monkeypatch):
    async with engine(database=database, workflows=[CITING]) as opened:
        await opened.app.assets.put("text", "source")

        async def refuse(*args: Any, **options: Any) -> Any:
            raise OSError("the disk is full")

        keep = declared.keep
        monkeypatch.setattr(declared, "keep", refuse)
        run = await opened.start(CITING)
        with pytest.raises(Exception, match="the disk is full"):
            await opened.result(run)
        monkeypatch.setattr(declared, "keep", keep)
        await run.retry()
        assert await opened.result(run) == "text"
        bodies = [record.call.name for record in await run.steps() if record.state.value == "completed"]
        assert bodies.count("cite") == 1
        assert await opened.app.assets.read("cited") == b"text"
