"""What a step says of retries and time holds for it in a queue too: for its run there, and for that of each item."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stepfast import Retry, RunFailed, RunState, StepTimeout
from stepfast.kernel.error_kinds import error_kind
from stepfast.testing import engine
from stepfast.workflows.limits import Limits
from stepfast.workflows.policies import StepPolicy
from tests.support.apps import app_on

HEAD = "stepfast: 1\nworkflow: policed\nsteps:\n"
PATIENT = Retry(attempts=9, base="1h", cap="1h")


class Weak:
    """An executor with a patience of its own, which fails as often as it is told to."""

    name = "weak.work"
    retry = PATIENT

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    async def execute(self, item: int = 0) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise ConnectionError("weak")
        return item


class Stuck:
    """An executor that never ends by itself."""

    name = "stuck.work"

    async def execute(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
async def opened(database) -> AsyncIterator[Any]:
    async with engine(database=database, workflows=[]) as opened:
        yield opened


async def begun(opened: Any, executor: Any, line: str) -> Any:
    opened.app.executors.register(executor)
    await opened.app.register(HEAD + line)
    return await opened.start("policed")


async def attempts(opened: Any, name: str) -> list[int]:
    """Of each run of an executor, how many attempts are recorded."""
    runs = await opened.app.runs(name)
    return sorted([len(await opened.steps(run.run_id)) for run in runs])


async def test_a_step_in_a_queue_is_tried_as_often_as_it_says(opened):
    weak = Weak(failures=2)
    run = await begun(
        opened, weak, "  - {id: a, use: weak.work, with: {item: 7}, queue: q, retry: {attempts: 3, base: 1s}}"
    )
    assert await opened.result(run) == 7
    assert (weak.calls, await attempts(opened, "weak.work")) == (3, [3])


async def test_a_step_in_a_queue_is_not_tried_again_where_it_says_so(opened):
    weak = Weak(failures=1)
    run = await begun(opened, weak, "  - {id: a, use: weak.work, queue: q, retry: false}")
    with pytest.raises(RunFailed, match="weak"):
        await opened.result(run)
    assert weak.calls == 1


async def test_a_step_in_a_queue_names_the_errors_that_are_tried_again(opened):
    weak = Weak(failures=1)
    run = await begun(
        opened, weak, "  - {id: a, use: weak.work, queue: q, retry: {attempts: 3, base: 1s, never: [ConnectionError]}}"
    )
    with pytest.raises(RunFailed, match="weak"):
        await opened.result(run)
    assert weak.calls == 1


async def test_each_item_in_a_queue_is_tried_as_often_as_the_step_says(opened):
    weak = Weak(failures=2)
    line = (
        '  - {id: a, each: [1, 2, 3], use: weak.work, with: {item: "${ item }"}, queue: q, '
        "retry: {attempts: 3, base: 1s}}"
    )
    run = await begun(opened, weak, line)
    assert (await opened.result(run))["results"] == [1, 2, 3]
    assert sum(await attempts(opened, "weak.work")) == 5


async def test_without_a_word_of_the_step_its_executor_s_own_policy_holds(opened):
    weak = Weak(failures=2)
    run = await begun(opened, weak, "  - {id: a, use: weak.work, queue: q}")
    before = opened.clock.now()
    await opened.result(run)
    assert opened.clock.now() - before >= 2 * 3_600_000


@pytest.mark.parametrize("span", ["timeout", "total_timeout"])
async def test_a_step_in_a_queue_is_given_up_when_its_time_is_over(database, span):
    async with app_on(database, []) as app:
        app.executors.register(Stuck)
        await app.register(HEAD + f"  - {{id: a, use: stuck.work, queue: q, retry: false, {span}: 50ms}}")
        run = await app.start("policed")
        with pytest.raises(RunFailed, match="50 ms") as failed:
            await run.result(timeout="60s")
        assert isinstance(failed.value.__cause__, StepTimeout)
        (child,) = await app.runs("stuck.work")
        assert child.state is RunState.FAILED


async def test_an_executor_with_a_queue_of_its_own_is_a_run_there_in_a_plan_too(opened):
    weak = Weak(failures=1)
    weak.queue = "weak"  # type: ignore[attr-defined]
    run = await begun(opened, weak, "  - {id: a, use: weak.work, with: {item: 4}, retry: {attempts: 2, base: 1s}}")
    assert await opened.result(run) == 4
    (child,) = await opened.app.runs("weak.work")
    assert (child.queue, await attempts(opened, "weak.work")) == ("weak", [2])


class Passing(Exception):
    """An error of somebody's own."""


def test_a_policy_comes_back_as_it_was_said():
    said = StepPolicy(Retry(5, "2s", 3, "1m", 0.1, (Passing,), (error_kind("timeout"),)), Limits(1_000, None))
    read = StepPolicy.read(said.text)
    assert read.limits == Limits(1_000, None)
    assert read.retry is not None
    assert read.retry.allows(4, Passing())
    assert not read.retry.allows(5, Passing())
    assert not read.retry.allows(1, TimeoutError())
    assert not read.retry.allows(1, ValueError())
    assert read.retry.delay_ms(2, "seed") == said.retry.delay_ms(2, "seed")  # type: ignore[union-attr]


def test_a_policy_that_says_nothing_is_nothing():
    assert StepPolicy().text is None
    assert StepPolicy.read(None) == StepPolicy.read('{"owner": "ann"}') == StepPolicy()
