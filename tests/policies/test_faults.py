"""Policies when processes die and assets change: what was checked is what is read, and each thing is done once."""

from __future__ import annotations

from typing import Any

import pytest

from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.plans import assets as declared
from stepfast.workflows.plans.plan import AssetUse, Constant, Policy
from tests.faults.test_crash_points import emptied
from tests.plans.harness import Executors, plan_workflow, step, use, value

CHANGING: dict[str, Any] = {}


async def cite(assets: list[dict[str, Any]]) -> str:
    return str(assets[0]["uri"])


async def check(assets: list[dict[str, Any]]) -> dict[str, Any]:
    if "app" in CHANGING:
        await CHANGING.pop("app").assets.put("secret", "source")
    return {"ok": assets[0]["version"] == 1, "reason": "it is not the first"}


async def check_output(output: str, writes: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": writes[0]["id"] == "cited" and output == "asset:source@1", "reason": "it is another"}


async def refuse() -> dict[str, Any]:
    return {"ok": False, "reason": "never"}


EXECUTORS = Executors(cite=cite, check=check, check_output=check_output, refuse=refuse)
READS = (AssetUse(Constant("source")),)
BEFORE = (
    Policy("first", use("check", assets=value(lambda scope: scope["assets"])), before="read"),
    Policy("kept", use("check_output", output=value(lambda scope: scope["output"])), before="write"),
)
CITING = plan_workflow(
    step("cite", use("cite"), reads=READS, writes=(AssetUse(Constant("cited")),), policies=BEFORE),
    executors=EXECUTORS,
    name="citing",
)
REFUSED = plan_workflow(
    step("cite", use("cite"), reads=READS, policies=(Policy("never", use("refuse"), "review", "read"),)),
    executors=EXECUTORS,
    name="refused",
)


async def lineage(opened: Engine, run: Any) -> list[tuple[str, str, int]]:
    rows = await opened.app.assets.lineage(run_id=run.id)
    return sorted((row.role.value, row.asset_id, row.version) for row in rows)


async def read_while_it_changes(database: str) -> tuple[str, list[tuple[str, str, int]]]:
    async with engine(database=database, workflows=[CITING]) as opened:
        await opened.app.assets.put("open", "source")
        CHANGING["app"] = opened.app
        run = await opened.start(CITING)
        await opened.run_until_idle()
        state = (await opened.info(run)).state.value
        return state, await lineage(opened, run)


async def test_what_changes_after_the_check_is_not_read(database):
    assert await read_while_it_changes(database) == ("completed", [("read", "source", 1), ("write", "cited", 1)])


async def test_the_broken_twin_that_looks_again_reads_what_nobody_checked(database, monkeypatch):
    let = declared.StepAssets.let

    async def let_as_named(self: Any, step: Any, place: Any, wanted: Any) -> Any:
        await let(self, step, place, wanted)
        return wanted

    monkeypatch.setattr(declared.StepAssets, "let", let_as_named)
    _, rows = await read_while_it_changes(database)
    assert ("read", "source", 2) in rows


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    is_sqlite = database.startswith("sqlite")
    databases = {} if is_sqlite else {"databases": emptied(database)}
    return {"workflows": [CITING, REFUSED], "every": 1 if is_sqlite else 5, **databases}


async def put_once(opened: Engine) -> None:
    await opened.insist(lambda: opened.app.assets.put("open", "source", key="once"))


@pytest.mark.timeout(600)
async def test_a_crash_at_any_moment_leaves_what_was_let_once(options):
    async def let_and_done(opened: Engine) -> None:
        await put_once(opened)
        run = await opened.start(CITING)
        assert await opened.result(run) == "asset:source@1"
        assert await lineage(opened, run) == [("read", "source", 1), ("write", "cited", 1)]
        assert [asset.id for asset in await opened.app.assets.list()] == ["cited", "source"]

    await crash_points(let_and_done, **options)


@pytest.mark.timeout(600)
async def test_a_crash_at_any_moment_asks_once_and_reads_nothing_until_a_person_lets_it(options):
    async def asked_and_let(opened: Engine) -> None:
        await put_once(opened)
        run = await opened.start(REFUSED)
        await opened.run_until_idle()
        (question,) = await opened.reviews(run)
        assert await lineage(opened, run) == []
        await opened.decide(question, "continue", actor="ann")
        assert await opened.result(run) == "asset:source@1"
        assert await lineage(opened, run) == [("read", "source", 1)]

    await crash_points(asked_and_let, **options)
