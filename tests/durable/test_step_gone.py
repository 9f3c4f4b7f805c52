"""A step that is a run of its own, and that no worker has any more, waits for one that has it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import RunState, each, step, workflow
from stepfast.testing import Engine, engine
from stepfast.workflows.registry import Registry

TEMPLATE = """
stepfast: 1
workflow: gone
steps: [{id: a, each: [1, 2], use: gone.work, with: {item: "${ item }"}, queue: q}]
output: "${ steps.a.output.results }"
"""


@step
async def double_of(number: int) -> int:
    return 2 * number


@workflow
async def spread_out() -> list[int]:
    return await each(double_of, [1, 2], spread=True)


async def work(item: int) -> int:
    return item


@pytest.fixture
async def opened(database) -> AsyncIterator[Engine]:
    async with engine(database=database, workflows=[spread_out]) as opened:
        yield opened


async def begun_without_the_step(opened: Engine, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A run, and one of its children, whose step is in no worker by the time somebody looks at it."""
    by_code = Registry.by_code
    monkeypatch.setattr(Registry, "by_code", lambda self, code: None if code == "double_of" else by_code(self, code))
    run = await opened.start(spread_out)
    for _ in range(5):
        await opened.run_until_idle()
        opened.clock.advance(2)
    children = await opened.app.runs("double_of")
    return run, opened.app.get(children[0].run_id)


async def test_a_spread_step_that_no_worker_has_waits_for_code(opened, monkeypatch):
    _, child = await begun_without_the_step(opened, monkeypatch)
    told = [event.type for event in await child.history()]
    assert told.count("claimed") == 3
    opened.clock.advance(24 * 3_600)
    await opened.run_until_idle()
    assert [event.type for event in await child.history()] == told
    assert (await child.info()).state is RunState.WAITING


async def test_why_names_the_step_that_is_missing(opened, monkeypatch):
    _, child = await begun_without_the_step(opened, monkeypatch)
    assert "waits for code of double_of that fits: A worker that took it has no step" in str(await child.why())


async def test_it_goes_on_with_the_worker_that_brings_the_step(opened, monkeypatch):
    run, _ = await begun_without_the_step(opened, monkeypatch)
    monkeypatch.undo()
    await opened.crash()
    assert await opened.result(run) == [2, 4]


async def test_items_in_a_queue_wait_for_a_worker_with_their_executor(opened):
    opened.app.executors.register(work, "gone.work")
    await opened.app.register(TEMPLATE)
    run = await opened.start("gone")
    opened.app.executors.unregister("gone.work")
    for _ in range(3):
        await opened.run_until_idle()
        opened.clock.advance(60)
    assert (await run.info()).state is not RunState.FAILED
    assert "gone.work" in str(await run.why())
    opened.app.executors.register(work, "gone.work")
    await opened.crash()
    assert await opened.result(run) == [1, 2]


async def test_children_of_an_executor_that_is_gone_are_claimed_by_nobody(opened):
    async def fail_at_first(item: int) -> int:
        raise ValueError("not yet")

    opened.app.executors.register(fail_at_first, "gone.work")
    await opened.app.register(TEMPLATE)
    run = await opened.start("gone")
    await opened.run_until_idle()
    opened.app.executors.unregister("gone.work")
    await opened.crash()
    opened.clock.advance(3_600)
    await opened.run_until_idle()
    child = opened.app.get((await opened.app.runs("gone.work"))[0].run_id)
    assert [event.type for event in await child.history()].count("claimed") == 1
    assert "No live worker has executor gone.work" in str(await child.why())
    opened.app.executors.register(work, "gone.work")
    await opened.crash()
    assert await opened.result(run) == [1, 2]
