"""What a join has no more use for is listed as what it was: failed, or called off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows.context import RunContext
from stepfast.workflows.plans.plan import Constant, Each, JoinRule, Parallel, Sleep
from tests.faults.test_crash_points import emptied
from tests.plans.harness import Executors, plan_workflow, step, use, value


class Together:
    """An executor for two items that end in the same breath: the last to come goes first, the other fails behind it."""

    def __init__(self) -> None:
        self.both = asyncio.Barrier(2)

    async def meet(self, item: int) -> int:
        await self.both.wait()
        if item == 1:
            raise ValueError("first")
        return item


def item(scope: Any) -> int:
    number: int = scope["item"]
    return number


async def meet(item: int) -> int:
    return await MEETINGS[-1].meet(item)


MEETINGS: list[Together] = []
EXECUTORS = Executors(meet=meet)
ITEMS = plan_workflow(
    step("fan", use("meet", item=value(item)), each=Each(Constant([1, 2]), join=JoinRule("any"))),
    executors=EXECUTORS,
    name="items",
)
BRANCHES = plan_workflow(
    step("fan", Parallel((step("one", use("meet", item=1)), step("two", use("meet", item=2))), JoinRule("any"))),
    executors=EXECUTORS,
    name="branches",
)


async def walked(opened: Engine, flow: Any) -> Any:
    MEETINGS.append(Together())
    run = await opened.start(flow)
    result = await opened.result(run)
    states = {record.call.address: record.state for record in await run.steps()}
    return result, states


async def test_an_item_that_failed_when_the_join_was_met_has_failed(database):
    async with engine(database=database, workflows=[ITEMS]) as opened:
        result, states = await walked(opened, ITEMS)
    assert states["fan[0]/fan#1"] == "failed"
    assert ([each["key"] for each in result["failed"]], result["cancelled"]) == (["0"], [])


async def test_a_branch_that_failed_when_the_join_was_met_has_failed(database):
    async with engine(database=database, workflows=[BRANCHES]) as opened:
        result, states = await walked(opened, BRANCHES)
    assert states["one#1"] == "failed"
    assert ([each["key"] for each in result["failed"]], result["cancelled"]) == (["one"], [])


async def test_without_a_look_at_the_records_it_would_be_told_as_cancelled(monkeypatch):
    monkeypatch.setattr(RunContext, "failures_of", lambda context, calls: {})
    async with engine(workflows=[ITEMS]) as opened:
        result, states = await walked(opened, ITEMS)
    assert (states["fan[0]/fan#1"], result["cancelled"]) == ("failed", ["0"])


async def test_an_item_that_was_called_off_is_cancelled(database):
    slow = plan_workflow(
        step(
            "fan",
            Parallel((step("one", use("now")), step("two", Sleep(Constant("1h")))), JoinRule("any")),
        ),
        executors=Executors(now=now),
    )
    async with engine(database=database, workflows=[slow]) as opened:
        result = await opened.result(await opened.start(slow))
    assert (result["results"], result["failed"], result["cancelled"]) == ({"one": 1}, [], ["two"])


async def test_what_is_left_alone_is_in_none_of_the_lists(database):
    alone = plan_workflow(
        step(
            "fan",
            Parallel((step("one", use("now")), step("two", Sleep(Constant("1h")))), JoinRule("any", on_extra="ignore")),
        ),
        executors=Executors(now=now),
    )
    async with engine(database=database, workflows=[alone]) as opened:
        result = await opened.result(await opened.start(alone))
    assert (result["results"], result["failed"], result["cancelled"]) == ({"one": 1}, [], [])


async def now() -> int:
    return 1


async def meet_again(opened: Engine) -> Any:
    """One of the two may have to go alone after a crash: then nobody waits for the other."""
    MEETINGS.append(Lonely())
    result, states = await walked_alone(opened)
    failed = [each["key"] for each in result["failed"]]
    assert failed == (["0"] if states["fan[0]/fan#1"] == "failed" else [])
    return result["results"]


class Lonely(Together):
    """The same, but each goes by itself."""

    async def meet(self, item: int) -> int:
        if item == 1:
            raise ValueError("first")
        return item


async def walked_alone(opened: Engine) -> Any:
    run = await opened.start(ITEMS)
    result = await opened.result(run)
    return result, {record.call.address: record.state for record in await run.steps()}


@pytest.fixture
def options(database: str) -> dict[str, Any]:
    databases = {} if database.startswith("sqlite") else {"databases": emptied(database)}
    return {"workflows": [ITEMS], **databases}


@pytest.mark.timeout(600)
async def test_the_lists_agree_with_the_records_wherever_the_process_died(options):
    tried = await crash_points(meet_again, **options)
    assert len(tried.points) > 3
