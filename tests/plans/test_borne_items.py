"""Failures that a run goes on from are in the exception queue until somebody has seen to them, or they are no more."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import IllegalMove, RunState
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.plans.interpreter import Interpreter
from stepfast.workflows.plans.plan import Constant, Each, JoinRule, OnFailure, Sleep
from tests.faults.test_crash_points import emptied
from tests.plans.harness import Executors, plan_workflow, step, use, value

BROKEN: set[str] = set()
RAN: Counter[str] = Counter()


async def work(name: str) -> str:
    RAN[name] += 1
    if name in BROKEN:
        raise ValueError(f"{name} is broken")
    return name


EXECUTORS = Executors(work=work)
FLOW = plan_workflow(
    step("tell", use("work", name="tell"), on_failure=OnFailure.CONTINUE),
    step("index", use("work", name="index"), on_failure=OnFailure.SKIP_DEPENDENTS),
    step("search", use("work", name="search"), needs=("index",)),
    step("nap", Sleep(Constant("1h"))),
    executors=EXECUTORS,
    name="bearing",
)


@pytest.fixture(autouse=True)
def broken() -> None:
    BROKEN.clear()
    RAN.clear()


@pytest.fixture
async def opened(database) -> AsyncIterator[Engine]:
    async with engine(database=database, workflows=[FLOW]) as opened:
        yield opened


async def items(opened: Engine, **where: Any) -> list[Any]:
    found = await opened.app.exceptions.list(**where)
    return sorted(found, key=lambda item: item.cause)


async def ended(opened: Engine, *names: str) -> Any:
    """A run of which these steps have failed, to its end."""
    BROKEN.update(names)
    run = await opened.start(FLOW)
    await opened.result(run)
    return run


async def test_a_borne_failure_is_seen_while_its_run_goes_on(opened):
    BROKEN.add("tell")
    run = await opened.start(FLOW)
    await opened.run_until_idle()
    (item,) = await items(opened)
    assert (await run.info()).state is RunState.WAITING
    assert (item.run_id, item.kind, item.step, item.workflow) == (run.id, "failed", "tell#1", "bearing")
    assert item.title == "Step tell failed, and its run goes on: ValueError: tell is broken"
    told = [(event.step, event.data) for event in await run.history() if event.type == "exception_opened"]
    assert told == [("tell#1", '{"kind": "failed", "borne_by": "tell.borne#1"}')]


@pytest.mark.parametrize("name", ["tell", "index"])
async def test_both_ways_to_bear_a_failure_open_an_item(opened, name):
    run = await ended(opened, name)
    assert (await run.info()).state is RunState.PARTIAL
    assert [item.step for item in await items(opened)] == [f"{name}#1"]


async def test_a_run_without_a_failure_opens_none(opened):
    await ended(opened)
    assert await items(opened, resolved=True) == []


async def test_it_is_no_dead_letter(opened):
    await ended(opened, "tell")
    (item,) = await items(opened)
    assert item.dead_letter is None
    assert await opened.app.dead_letters.list() == await opened.app.dead_letters.groups() == []
    assert len(await opened.app.exceptions.groups()) == 1


async def test_a_retry_that_mends_it_resolves_its_item(opened):
    run = await ended(opened, "tell", "index")
    BROKEN.clear()
    await run.retry(actor="ann")
    assert await opened.result(run) == {"tell": "tell", "search": "search", "nap": None}
    assert (await run.info()).state is RunState.COMPLETED
    assert await items(opened) == []
    assert [item.resolution for item in await items(opened, resolved=True)] == ["replayed", "replayed"]
    told = [event.actor for event in await run.history() if event.type == "exception_resolved"]
    assert told == ["ann", "ann"]


async def test_a_retry_that_fails_again_opens_another(opened):
    run = await ended(opened, "tell")
    await run.retry()
    await opened.result(run)
    assert [item.resolution for item in await items(opened, resolved=True)] == ["replayed", None]


async def test_a_rerun_resolves_its_item(opened):
    run = await ended(opened, "tell")
    BROKEN.clear()
    await run.rerun()
    await opened.result(run)
    assert [item.resolution for item in await items(opened, resolved=True)] == ["replayed"]


async def test_somebody_resolves_it_by_hand(opened):
    run = await ended(opened, "tell")
    (item,) = await items(opened)
    await opened.app.exceptions.resolve(item.id, actor="ann", reason="known")
    (seen,) = await items(opened, resolved=True)
    assert (seen.resolution, seen.actor, (await run.info()).state) == ("discarded", "ann", RunState.PARTIAL)
    with pytest.raises(IllegalMove, match="discarded"):
        await opened.app.exceptions.resolve(item.id)


async def test_what_was_resolved_by_hand_is_not_told_of_again(opened):
    run = await ended(opened, "tell")
    (item,) = await items(opened)
    await opened.app.exceptions.resolve(item.id, actor="ann")
    await run.retry()
    assert [event.type for event in await run.history()].count("exception_resolved") == 1
    assert (await items(opened, resolved=True))[0].resolution == "discarded"


async def test_an_each_that_fails_as_a_whole_opens_one_item(database):
    flow = plan_workflow(
        step(
            "fan",
            use("work", name=value(lambda scope: scope["item"])),
            each=Each(Constant(["a", "b"]), join=JoinRule("all")),
            on_failure=OnFailure.CONTINUE,
        ),
        executors=EXECUTORS,
        name="fanning",
    )
    BROKEN.add("a")
    async with engine(database=database, workflows=[flow]) as opened:
        await opened.result(await opened.start(flow))
        (item,) = await items(opened)
    assert item.title.startswith("Step fan failed, and its run goes on: JoinFailed")
    assert item.step == "fan[0]/fan#1"


async def bear_all(opened: Engine) -> Any:
    RAN.clear()
    BROKEN.update({"tell", "index"})
    run = await opened.start(FLOW)
    await opened.result(run)
    found = [(item.step, item.resolution) for item in await items(opened, resolved=True)]
    opens = [event.step for event in await run.history() if event.type == "exception_opened"]
    assert sorted(map(str, opens)) == sorted(str(name) for name, _ in found), "each item is told of once"
    return sorted(found)


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    databases = {} if database.startswith("sqlite") else {"databases": emptied(database)}
    return {"workflows": [FLOW], "every": 2 if database.startswith("sqlite") else 5, **databases}


@pytest.mark.timeout(600)
async def test_each_failure_has_one_item_wherever_the_process_died(options):
    tried = await crash_points(bear_all, **options)
    assert len(tried.points) > 3


async def test_a_run_that_tells_nobody_is_seen_by_the_test(monkeypatch):
    async def tell_nobody(*_: Any) -> None:
        """The guard, taken out."""

    monkeypatch.setattr(Interpreter, "_tell_borne", tell_nobody)
    async with engine(workflows=[FLOW]) as opened:
        await ended(opened, "tell")
        assert await items(opened) == []
