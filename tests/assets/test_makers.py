"""However a step makes an asset, it is told by run, generation, step and attempt, and of just what it had read."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast import Retry, Stepfast, each, step, storage, workflow
from stepfast.kernel.assets import AssetView, Role
from stepfast.kernel.errors import AssetNotFound
from stepfast.stores import assets as rows
from stepfast.testing import Engine, engine
from stepfast.workflows.functions import AnyWorkflow
from stepfast.workflows.plans.plan import AssetUse, Block, Constant, Do, Each, OnFailure
from tests.plans.harness import Executors, plan_workflow, use, value
from tests.plans.harness import step as plan_step
from tests.support.apps import app_on

AGAIN = Retry(attempts=3, base=0)


async def failed_before() -> bool:
    """Whether an attempt of this step has been here; the first is told that none has."""
    if await storage.exists("failed"):
        return True
    await storage.save("failed", True)
    return False


async def made_of(app: Stepfast, asset: AssetView) -> set[tuple[Any, ...]]:
    """The edges that lead to an asset, which say the same as the asset itself."""
    edges = (await app.assets.upstream(asset.id, asset.version, depth=1, tenant=asset.tenant)).edges
    assert {f"asset:{edge.input_id}@{edge.input_version}" for edge in edges} == set(asset.inputs)
    for edge in edges:
        told = (asset.run_id, asset.generation, asset.step, asset.attempt)
        assert (edge.run_id, edge.generation, edge.step, edge.attempt) == told
    return {(edge.input_id, edge.input_version) for edge in edges}


@step(retry=AGAIN)
async def cite_at_second() -> str:
    if not await failed_before():
        await storage.read_asset("wrong")
        raise OSError("the first attempt has read something else")
    return (await storage.write_asset("cited", await storage.read_asset("source"))).id


@workflow
async def citing() -> str:
    return await cite_at_second()


@step(retry=AGAIN)
def cite_in_a_thread() -> str:
    if not storage.exists.sync("failed"):
        storage.save.sync("failed", True)
        storage.read_asset.sync("wrong")
        raise OSError("the first attempt has read something else")
    return storage.write_asset.sync("cited", storage.read_asset.sync("source")).id


@workflow
def citing_in_a_thread() -> str:
    return cite_in_a_thread()


@pytest.mark.parametrize("flow", [citing, citing_in_a_thread], ids=["async", "def"])
async def test_a_later_attempt_s_asset_is_made_of_what_that_attempt_has_read(database, flow):
    async with app_on(database, [flow]) as app:
        await app.assets.put("s", "source")
        await app.assets.put("w", "wrong")
        run = await app.start(flow)
        made = await app.assets.get(await run)
        assert (made.run_id, made.generation, made.attempt) == (run.id, 1, 2)
        assert await made_of(app, made) == {("source", 1)}


async def test_the_broken_twin_that_takes_a_step_s_attempts_for_one_tells_of_what_was_not_read(monkeypatch):
    async with engine(workflows=[citing]) as opened:
        monkeypatch.setattr(rows, "_try", lambda tenant, by: {**rows._maker(tenant, by), "attempt": 1, "token": 1})
        await opened.app.assets.put("s", "source")
        await opened.app.assets.put("w", "wrong")
        made = await opened.app.assets.get(await opened.result(await opened.start(citing)))
        assert set(made.inputs) == {"asset:source@1", "asset:wrong@1"}


async def test_a_rerun_s_asset_is_made_of_what_that_generation_has_read(database):
    async with app_on(database, [citing]) as app:
        await app.assets.put("s", "source")
        await app.assets.put("w", "wrong")
        run = await app.start(citing)
        await run
        await app.assets.put("other", "source")
        await run.rerun()
        made = await app.assets.get(await run)
        assert (made.id, made.generation) == ("cited-2", 2)
        assert await made_of(app, made) == {("source", 2)}


def citing_elsewhere() -> AnyWorkflow:
    """Made for one test: a step with a queue is executed by every app for as long as it is there."""

    @step(queue="elsewhere", retry=AGAIN)
    async def cite_elsewhere() -> str:
        if not await failed_before():
            await storage.read_asset("wrong")
            raise OSError("not yet")
        return (await storage.write_asset("cited", await storage.read_asset("source"))).id

    @workflow
    async def citing_elsewhere() -> str:
        return await cite_elsewhere()

    return citing_elsewhere


@workflow
async def citing_in_a_child() -> str:
    return await citing()


@pytest.mark.parametrize("make", [citing_elsewhere, lambda: citing_in_a_child], ids=["queued", "child"])
async def test_what_is_made_in_a_run_of_its_own_is_that_run_s(database, make):
    flow = make()
    async with engine(database=database, workflows=[flow, citing]) as opened:
        await opened.app.assets.put("s", "source")
        await opened.app.assets.put("w", "wrong")
        run = await opened.start(flow)
        made = await opened.app.assets.get(await opened.result(run))
        assert made.run_id is not None
        assert (await opened.info(made.run_id)).parent_id == run.id
        assert made.attempt == 2
        assert await made_of(opened.app, made) == {("source", 1)}


@step
async def copy(name: str) -> str:
    return (await storage.write_asset(f"copy-of-{name}", await storage.read_asset(name))).id


@workflow
async def copying(names: list[str]) -> list[str]:
    return await each(copy, names)


async def test_each_item_s_asset_is_made_of_that_item_s_input(database):
    async with app_on(database, [copying]) as app:
        for name in "abc":
            await app.assets.put(name, name)
        for made_id in await (await app.start(copying, ["a", "b", "c"])):
            assert await made_of(app, await app.assets.get(made_id)) == {(made_id[-1], 1)}


@step(retry=AGAIN)
async def put_by_the_app() -> str:
    if not await failed_before():
        await storage.read_asset("wrong")
        raise OSError("not yet")
    await storage.read_asset("source")
    run = OPENED[-1][1]
    return (await OPENED[-1][0].assets.put("x", "put", made_by=(run, "put_by_the_app#1"))).id


@workflow
async def putting_by_the_app() -> str:
    return await put_by_the_app()


OPENED: list[tuple[Stepfast, str]] = []


async def test_what_a_body_puts_by_the_app_is_of_its_own_attempt(database):
    async with engine(database=database, workflows=[putting_by_the_app]) as opened:
        await opened.app.assets.put("s", "source")
        await opened.app.assets.put("w", "wrong")
        run = await opened.start(putting_by_the_app)
        OPENED.append((opened.app, run.id))
        made = await opened.app.assets.get(await opened.result(run))
        assert made.attempt == 2
        assert await made_of(opened.app, made) == {("source", 1)}


async def test_what_is_put_for_a_step_later_is_of_its_last_attempt(database):
    async with app_on(database, [citing]) as app:
        await app.assets.put("s", "source")
        await app.assets.put("w", "wrong")
        run = await app.start(citing)
        await run
        made = await app.assets.put("later", "later", made_by=(run.id, "cite_at_second#1"))
        assert (made.generation, made.attempt) == (1, 2)
        assert await made_of(app, made) == {("source", 1)}


async def test_what_is_put_for_a_step_that_nobody_knows_is_of_its_first_attempt(database):
    async with app_on(database, [citing]) as app:
        await app.assets.put("s", "source")
        await app.assets.put("w", "wrong")
        run = await app.start(citing)
        await run
        made = await app.assets.put("later", "later", made_by=(run.id, "by hand"))
        assert (made.step, made.attempt, made.inputs) == ("by hand", 1, ())


async def cite(assets: list[dict[str, Any]] | None = None) -> str:
    return (await storage.read_asset("inner")).decode()


async def book() -> str:
    return (await storage.write_asset("booking", await storage.read_asset("source"))).id


async def unbook() -> str:
    return (await storage.write_asset("cancelled", await storage.read_asset("booking"))).id


async def refuse() -> None:
    raise OSError("no")


EXECUTORS = Executors(cite=cite, book=book, unbook=unbook, refuse=refuse)

DECLARED = plan_workflow(
    plan_step("cite", use("cite"), reads=(AssetUse(Constant("source")),), writes=(AssetUse(Constant("cited")),)),
    executors=EXECUTORS,
    name="declared",
)

ITEMS = plan_workflow(
    plan_step(
        "items",
        use("cite"),
        each=Each(Constant(["a", "b"])),
        reads=(AssetUse(value(lambda scope: scope["item"])),),
        writes=(AssetUse(value(lambda scope: f"of-{scope['item']}")),),
    ),
    executors=EXECUTORS,
    name="items",
)

BOOKED = Block((plan_step("book", use("book"), undo=use("unbook")), plan_step("bad", use("refuse"))), is_sequence=True)
UNDOING = plan_workflow(
    plan_step("all", Do(BOOKED), on_failure=OnFailure.COMPENSATE), executors=EXECUTORS, name="undoing"
)


async def ran(opened: Engine, flow: Any) -> Any:
    for name in ("source", "inner", "a", "b"):
        await opened.app.assets.put(name, name)
    run = await opened.start(flow)
    await opened.run_until_idle()
    return run


async def test_what_a_template_writes_is_made_of_what_it_was_given_and_what_its_body_has_read(database):
    async with engine(database=database, workflows=[DECLARED]) as opened:
        run = await ran(opened, DECLARED)
        made = await opened.app.assets.get("cited")
        assert (made.run_id, made.step, made.attempt) == (run.id, "cite#1", 1)
        assert await made_of(opened.app, made) == {("source", 1), ("inner", 1)}


async def test_each_item_of_a_template_writes_what_is_made_of_its_own(database):
    async with engine(database=database, workflows=[ITEMS]) as opened:
        await ran(opened, ITEMS)
        for item in "ab":
            made = await opened.app.assets.get(f"of-{item}")
            assert await made_of(opened.app, made) == {(item, 1), ("inner", 1)}


async def test_what_an_undo_makes_is_the_undo_s(database):
    async with engine(database=database, workflows=[UNDOING]) as opened:
        await ran(opened, UNDOING)
        made = await opened.app.assets.get("cancelled")
        assert made.step is not None
        assert made.step.endswith("book.undo#1")
        assert await made_of(opened.app, made) == {("booking", 1)}


async def test_what_a_retry_makes_is_of_the_generation_of_the_retry(database):
    async with app_on(database, [failing_after]) as app:
        await app.assets.put("s", "source")
        run = await app.start(failing_after)
        with pytest.raises(Exception, match="after"):
            await run
        await app.assets.put("mended", "mended")
        await run.retry()
        assert await run == "cited-2"
        written = [row for row in await app.assets.lineage("cited") if row.role is Role.WRITE]
        assert [(row.generation, row.asset_id, row.wanted_id) for row in written] == [
            (1, "cited", "cited"),
            (2, "cited-2", "cited"),
        ]
        assert await made_of(app, await app.assets.get("cited-2")) == {("source", 1), ("mended", 1)}


@step(retry=Retry(attempts=1))
async def fails_after_it_wrote() -> str:
    text = await storage.read_asset("source")
    if not await storage_has("mended"):
        await storage.write_asset("cited", text)
        raise OSError("after it wrote")
    return (await storage.write_asset("cited", text + await storage.read_asset("mended"))).id


async def storage_has(name: str) -> bool:
    try:
        await storage.read_asset(name)
    except AssetNotFound:
        return False
    return True


@workflow
async def failing_after() -> str:
    return await fails_after_it_wrote()
