"""A run of a plan is tried again: only what failed is done again, and what was skipped or done because of it."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest

from stepfast import IllegalMove, RunFailed, RunState
from stepfast.workflows.plans.plan import Constant, Each, JoinRule, OnFailure
from tests.plans.harness import Executors, plan_workflow, step, use, value
from tests.support.apps import app_on


class Noted:
    """Executors that note who called them; those in `broken` fail."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.broken: set[str] = set()

    async def do(self, name: str) -> str:
        self.ran[name] += 1
        if name in self.broken:
            raise ValueError(name)
        return name

    def plan(self, *steps: Any) -> Any:
        return plan_workflow(*steps, executors=Executors(do=self.do))

    def mended(self) -> None:
        self.broken.clear()
        self.ran.clear()


@pytest.fixture
def noted() -> Noted:
    return Noted()


def work(name: str, **options: Any) -> Any:
    return step(name, use("do", name=name), **options)


def item(scope: Any) -> str:
    return f"item {scope['item']}"


TWO = (
    work("a", on_failure=OnFailure.SKIP_DEPENDENTS),
    work("after_a", needs=("a",)),
    work("b", on_failure=OnFailure.SKIP_DEPENDENTS),
    work("after_b", needs=("b",)),
    work("c"),
)


async def ended(app: Any, flow: Any) -> Any:
    run = await app.start(flow)
    with contextlib.suppress(RunFailed):
        await run.result(timeout="60s")
    return run


async def test_only_the_named_step_and_what_was_skipped_for_it_are_done_again(database, noted):
    noted.broken |= {"a", "b"}
    async with app_on(database, [flow := noted.plan(*TWO)]) as app:
        run = await ended(app, flow)
        noted.mended()
        await run.retry(step="a")
        await run.result(timeout="60s")
        assert noted.ran == {"a": 1, "after_a": 1}
        assert (await run.info()).state is RunState.PARTIAL


async def test_all_failed_steps_are_done_again_when_none_is_named(database, noted):
    noted.broken |= {"a", "b"}
    async with app_on(database, [flow := noted.plan(*TWO)]) as app:
        run = await ended(app, flow)
        noted.mended()
        await run.retry()
        await run.result(timeout="60s")
        assert noted.ran == {"a": 1, "after_a": 1, "b": 1, "after_b": 1}
        assert (await run.info()).state is RunState.COMPLETED


async def test_what_completed_beside_a_failed_step_stays(database, noted):
    noted.broken.add("bad")
    flow = noted.plan(work("a"), work("bad", needs=("a",)), work("beside", needs=("a",)), work("after", needs=("bad",)))
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        ran_beside = noted.ran["beside"]
        noted.mended()
        await run.retry(step="bad")
        await run.result(timeout="60s")
        assert noted.ran["a"] == 0
        assert noted.ran["beside"] == 1 - ran_beside
        assert (noted.ran["bad"], noted.ran["after"]) == (1, 1)


async def test_only_the_items_that_failed_are_done_again(database, noted):
    noted.broken |= {"item 2", "item 3"}
    fan = step("fan", use("do", name=value(item)), each=Each(Constant([1, 2, 3]), join=JoinRule("settled")))
    check = work("last", needs=("fan",))
    noted.broken.add("last")
    async with app_on(database, [flow := noted.plan(fan, check)]) as app:
        run = await ended(app, flow)
        noted.mended()
        await run.retry(step="fan")
        await run.result(timeout="60s")
        assert noted.ran == {"item 2": 1, "item 3": 1, "last": 1}


async def test_a_step_that_did_not_fail_is_refused_and_nothing_changes(database, noted):
    noted.broken.add("a")
    async with app_on(database, [flow := noted.plan(*TWO)]) as app:
        run = await ended(app, flow)
        before = (await run.info(), await run.steps())
        with pytest.raises(IllegalMove, match="has not failed"):
            await run.retry(step="c")
        assert (await run.info(), await run.steps()) == before
