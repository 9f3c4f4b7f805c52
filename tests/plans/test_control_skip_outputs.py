"""What a person gives for a step that is skipped is held to what the step gives, where its code is known."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from stepfast import Graph, Invalid, Retry, RunFailed, StageContext
from stepfast.kernel.blobs import is_reference
from tests.support.apps import app_on

GRAPHS = pytest.mark.parametrize("kind", ["async", "def"])


def graph_of(kind: str) -> Graph[int, int]:
    """A graph whose second stage fails."""
    graph = Graph("skipped_outputs", input=int, output=int)

    if kind == "async":

        @graph.stage(retry=Retry(attempts=1))
        async def weigh(ctx: StageContext[int]) -> int:
            raise ValueError("no scales")

        @graph.stage(reads=[weigh])
        async def price(ctx: StageContext[int]) -> int:
            return ctx.require(weigh) * 10

        return graph

    @graph.stage(id="weigh", retry=Retry(attempts=1))
    def weigh_blocking(ctx: StageContext[int]) -> int:
        raise ValueError("no scales")

    @graph.stage(id="price", reads=[weigh_blocking])
    def price_blocking(ctx: StageContext[int]) -> int:
        return ctx.require(weigh_blocking) * 10

    return graph


async def failed(app: Any) -> Any:
    run = await app.start("skipped_outputs", 1)
    with contextlib.suppress(RunFailed):
        await run.result(timeout="60s")
    return run


@GRAPHS
@pytest.mark.parametrize("output", ["text", None, [1], 5.5])
async def test_an_output_that_the_steps_behind_could_not_read_is_refused_and_changes_nothing(database, kind, output):
    async with app_on(database, [graph_of(kind)]) as app:
        run = await failed(app)
        before = await run.history()
        with pytest.raises(Invalid, match=r"Step weigh of run .* valid integer.*\"integer\"") as refused:
            await run.skip("weigh", output=output)
        assert refused.value.code == "E-VAL-001"
        assert await run.history() == before


@GRAPHS
async def test_an_output_that_fits_is_taken_after_one_that_did_not_also_under_its_key(database, kind):
    async with app_on(database, [graph_of(kind)]) as app:
        run = await failed(app)
        with pytest.raises(Invalid):
            await run.skip("weigh", output="heavy", key="k")
        assert not (await run.skip("weigh#1", output=5, key="k")).repeated
        assert await run.result(timeout="60s") == 50


@pytest.mark.parametrize("output", ["heavy", "x" * 1_000_000], ids=["unknown", "large"])
async def test_one_that_nobody_could_check_fails_the_run_and_says_to_skip_it_again(database, output, monkeypatch):
    async with app_on(database, [graph_of("async")]) as app:
        run = await failed(app)
        if len(output) < 10:
            # As where the code is not at hand, but its plan is.
            monkeypatch.setattr("stepfast.tying.is_reference", lambda text: True)
        await run.skip("weigh", output=output)
        assert is_reference(output) is False
        with pytest.raises(RunFailed, match=rf"Skip the step again.*`stepfast runs skip {run.id} weigh JSON`"):
            await run.result(timeout="60s")
        monkeypatch.undo()
        await run.skip("weigh", output=5)
        assert await run.result(timeout="60s") == 50
