"""Starting over with other arguments, as the next generation of the same run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepfast import RunFailed, continue_as, receive, step, workflow
from tests.support.apps import QUICK, Bodies, app_on


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_a_run_goes_on_as_its_next_generation_with_no_records(database, kind):
    bodies = Bodies()

    @step
    def count(number: int) -> int:
        bodies.ran("count")
        return number + 1

    @workflow
    async def in_async(number: int = 0) -> int:
        number = await count.aio(number)
        if number < 4:
            continue_as(number)
        return number

    @workflow
    def in_def(number: int = 0) -> int:
        number = count(number)
        if number < 4:
            continue_as(number)
        return number

    flow = in_async if kind == "async" else in_def
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        assert await run == 4
        view = await run.info()
        records = await run.steps()
    assert bodies["count"] == 4
    assert view.generation == 4
    assert [record.superseded_by for record in records] == [2, 3, 4, None]


async def test_the_next_generation_begins_without_waiting_for_the_next_poll(database):
    @workflow
    async def flow(left: int) -> str:
        if left:
            continue_as(left - 1)
        return "done"

    seldom = replace(QUICK, poll_ms=3_600_000, upkeep_ms=3_600_000, lease_ms=10**10)
    async with app_on(database, [flow], seldom) as app:
        assert await (await app.start(flow, 5)).result(timeout="60s") == "done"


async def test_signals_that_nobody_took_go_along(database):
    @workflow
    async def flow(seen: list[str]) -> list[str]:
        seen = [*seen, await receive("word", str)]
        if len(seen) < 3:
            continue_as(seen)
        return seen

    async with app_on(database, [flow], worker=False) as client:
        run = await client.start(flow, [])
        for word in ("a", "b", "c"):
            await run.signal("word", word)
    async with app_on(database, [flow]) as app:
        assert await app.get(run.id).result() == ["a", "b", "c"]


async def test_arguments_that_do_not_fit_fail_the_run(database):
    @workflow
    async def flow(number: int = 0) -> None:
        continue_as("not a number")

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="number"):
            await (await app.start(flow))
