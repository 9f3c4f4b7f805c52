"""Compensation: what has ended is undone, wherever the failure stops, and nothing goes on meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import Graph, Retry, RunFailed, RunState, step
from tests.graphs.conftest import Desk, desk  # noqa: F401 - a fixture
from tests.support.turns import turn


class Shop:
    """Steps that note what they did, and one that ends only while another is undone."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.undoing = asyncio.Event()

        @step(retry=Retry(attempts=1))
        async def take(name: str) -> str:
            self.done.append(name)
            return name

        @step(retry=Retry(attempts=1))
        async def take_late(name: str) -> str:
            await self.undoing.wait()
            self.done.append(name)
            return name

        @step(retry=Retry(attempts=1))
        async def give_back(name: str) -> None:
            self.undoing.set()
            self.done.append(f"undo {name}")
            await turn()

        self.take, self.take_late, self.give_back = take, take_late, give_back


@pytest.fixture
def shop() -> Shop:
    return Shop()


async def ended(at: Any, graph: Graph[Any, Any]) -> tuple[RunState, Any]:
    run = await at.start(graph)
    await at.run_until_idle()
    return (await at.info(run)).state, run


async def test_nothing_ends_beside_what_is_undone(desk, shop):  # noqa: F811
    graph: Graph[Any, Any] = Graph("race")
    first = graph.use(shop.take, id="first", name="first", undo=shop.give_back)
    graph.use(shop.take_late, id="late", name="late", undo=shop.give_back)
    graph.fail("fail", "no", needs=[first], on_failure="compensate")
    async with desk(graph) as at:
        state, _ = await ended(at, graph)
    assert state is RunState.FAILED
    assert shop.done == ["first", "undo first"]


async def test_a_failure_that_a_group_bears_undoes_what_has_ended_inside_it(desk, shop):  # noqa: F811
    graph: Graph[Any, Any] = Graph("borne")
    before = graph.use(shop.take, id="before", name="before", undo=shop.give_back)
    inside = graph.use(shop.take, id="inside", name="inside", undo=shop.give_back)
    bad = graph.fail("bad", "no", on_failure="compensate")
    group = graph.do("group", inside, bad, needs=[before], on_failure="continue")
    graph.use(shop.take, id="after", name="after", needs=[group])
    async with desk(graph) as at:
        state, _ = await ended(at, graph)
    assert state is RunState.PARTIAL
    assert shop.done == ["before", "inside", "undo inside", "after"]


async def test_a_step_whose_output_is_rejected_is_undone_itself(desk, shop):  # noqa: F811
    graph: Graph[Any, Any] = Graph("rejected")
    first = graph.use(shop.take, id="first", name="first", undo=shop.give_back)
    graph.use(
        shop.take,
        id="post",
        name="post",
        needs=[first],
        undo=shop.give_back,
        after=graph.gate(),
        on_failure="compensate",
    )
    async with desk(graph) as at:
        _, run = await ended(at, graph)
        (question,) = await at.reviews(run)
        await at.decide(question, "reject", actor="ann")
        with pytest.raises(RunFailed, match="rejected by ann"):
            await at.result(run)
    assert shop.done == ["first", "post", "undo post", "undo first"]
