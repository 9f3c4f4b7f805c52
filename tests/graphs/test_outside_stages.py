"""Stages whose work goes on outside: what others read of them has the type of their result, by the hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from stepfast import Graph, Outside, Pending, StageContext, step
from stepfast.testing import engine
from stepfast.workflows.graphs.stages import types_of


@dataclass
class Count:
    words: int


@step
async def look_up_count(handle: str) -> Pending | Count:
    return Count(len(handle))


def counting_graph() -> Graph[Any]:
    graph: Graph[Any] = Graph("counting-outside", input=str)

    @graph.stage
    async def count(ctx: StageContext[str]) -> Outside[Count]:
        return Outside(ctx.input, poll=look_up_count, every="30s")

    @graph.stage(needs=[count])
    async def double(ctx: StageContext[str]) -> int:
        counted: Any = ctx.require(count)
        assert isinstance(counted, Count)
        return 2 * int(counted.words)

    graph.returns(double.output)
    return graph


async def test_what_a_stage_reads_of_outside_work_is_its_result(database):
    graph = counting_graph()
    async with engine(database=database, workflows=[graph]) as opened:
        assert await opened.result(await opened.start(graph, "four")) == 8


@pytest.mark.parametrize("hint", [Outside[Count], Count | Outside[Count]])
def test_the_output_of_a_stage_is_what_its_outside_work_gives(hint):
    async def stage(ctx: StageContext[str]) -> Any:
        """A stage with the hint in question."""

    stage.__annotations__["return"] = hint
    assert types_of(stage).output is Count
