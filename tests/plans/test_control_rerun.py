"""A run of a plan starts over from a step: that step and what rests on it are done again, and nothing else."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepfast import Invalid, RunFailed, RunState, StepfastError
from stepfast.kernel.plan_control import resting_on
from stepfast.testing import engine
from stepfast.workflows.plans.ordering import ties_of
from stepfast.workflows.plans.plan import (
    Block,
    Constant,
    Do,
    Each,
    Handler,
    OnFailure,
    Parallel,
    Set,
    While,
)
from tests.plans.harness import Executors, plan_workflow, step, use, value
from tests.support.apps import app_on


class Noted:
    """Executors that note who called them; those in `broken` fail."""

    def __init__(self) -> None:
        self.ran: Counter[str] = Counter()
        self.broken: set[str] = set()
        self.executors = Executors(work=self.work)

    async def work(self, name: str, a: int = 0) -> int:
        self.ran[name] += 1
        if name in self.broken:
            raise ValueError(name)
        return a + 1

    def plan(self, *steps: Any, **options: Any) -> Any:
        return plan_workflow(*steps, executors=self.executors, **options)


@pytest.fixture
def noted() -> Noted:
    return Noted()


def work(name: str, *after: str, **options: Any) -> Any:
    """A step that reads the outputs of others."""

    def total(scope: Any) -> int:
        return sum(scope["steps"][each].get("output") or 0 for each in after)

    return step(name, use("work", name=name, a=value(total, *after)), **options)


def item(scope: Any) -> str:
    return f"item {scope['item']}"


async def ended(app: Any, flow: Any) -> Any:
    run = await app.start(flow)
    with contextlib.suppress(RunFailed):
        await run.result(timeout="60s")
    return run


async def rerun_ran(database: str, noted: Noted, flow: Any, from_step: str) -> Counter[str]:
    """The bodies that a rerun from a step has run again; the run must come to the same result."""
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        first = await run.result(timeout="60s")
        noted.ran.clear()
        await run.rerun(from_step=from_step)
        assert await run.result(timeout="60s") == first
        return noted.ran


DIAMOND = (work("a"), work("b", "a"), work("c", "a"), work("d", "b", "c"))


async def test_what_rests_on_the_step_is_done_again_and_what_stands_beside_it_is_not(database, noted):
    assert await rerun_ran(database, noted, noted.plan(*DIAMOND), "b") == {"b": 1, "d": 1}


async def test_a_step_beside_it_that_ended_later_keeps_its_record(database, noted):
    flow = noted.plan(work("a"), work("b", "a"), work("slow", "a"), work("later", "slow"), work("d", "b"))
    assert await rerun_ran(database, noted, flow, "b") == {"b": 1, "d": 1}


async def test_steps_that_only_need_it_are_done_again(database, noted):
    flow = noted.plan(work("a"), work("b", needs=("a",)), work("c"))
    assert await rerun_ran(database, noted, flow, "a") == {"a": 1, "b": 1}


async def test_all_items_of_a_step_belong_to_it(database, noted):
    fan = step("fan", use("work", name=value(item)), each=Each(Constant([1, 2])))
    assert await rerun_ran(database, noted, noted.plan(work("a"), fan), "fan") == {"item 1": 1, "item 2": 1}


async def test_one_item_is_done_again_by_its_address(database, noted):
    fan = step("fan", use("work", name=value(item)), each=Each(Constant([1, 2, 3])))
    after = step("after", use("work", name="after"), needs=("fan",))
    assert await rerun_ran(database, noted, noted.plan(fan, after), "fan[1]/fan#1") == {"item 2": 1, "after": 1}


async def test_a_step_inside_a_group_is_done_again_without_those_beside_it(database, noted):
    group = step("group", Parallel((work("left"), work("right"))))
    flow = noted.plan(work("a"), group, work("after", needs=("group",)))
    assert await rerun_ran(database, noted, flow, "left") == {"left": 1, "after": 1}


async def test_a_group_is_done_again_with_all_that_is_inside_it(database, noted):
    group = step("group", Do(Block((work("one"), work("two")), is_sequence=True)))
    flow = noted.plan(work("a"), group, work("after", needs=("group",)))
    assert await rerun_ran(database, noted, flow, "group") == {"one": 1, "two": 1, "after": 1}


async def test_what_handles_the_failure_of_a_step_is_done_again_without_the_step(database, noted):
    noted.broken.add("bad")
    handled = work("bad", catch=(Handler(Block((work("instead"),))),))
    flow = noted.plan(work("a"), handled, work("after", needs=("bad",)))
    assert await rerun_ran(database, noted, flow, "instead") == {"instead": 1, "after": 1}


async def test_a_loop_is_done_again_from_its_first_round(database, noted):
    rounds = step(
        "poll",
        use("work", name="poll", a=value(lambda scope: scope["output"] or 0)),
        loop=While(value(lambda scope: (scope["output"] or 0) < 3)),
    )
    assert await rerun_ran(database, noted, noted.plan(work("a"), rounds), "poll") == {"poll": 3}


async def test_a_failed_run_is_rerun_without_the_failure_that_ended_it(database, noted):
    noted.broken.add("bad")
    flow = noted.plan(work("a"), work("b", "a"), work("bad", "b"), work("z"))
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        noted.broken.clear()
        noted.ran.clear()
        await run.rerun(from_step="z")
        await run.result(timeout="60s")
        assert noted.ran["z"] == 1
        assert noted.ran["bad"] == 1
        assert noted.ran["a"] == 0


async def test_what_a_failed_step_has_had_undone_is_done_again_with_it(database, noted):
    noted.broken.add("bad")
    booked = work("book", undo=use("work", name="unbook"))
    flow = noted.plan(work("z"), booked, work("bad", "book", on_failure=OnFailure.COMPENSATE))
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        assert noted.ran["unbook"] == 1
        noted.broken.clear()
        noted.ran.clear()
        await run.rerun(from_step="bad")
        await run.result(timeout="60s")
        assert noted.ran == {"book": 1, "bad": 1}


async def test_superseded_records_stay_and_say_by_which_generation(database, noted):
    flow = noted.plan(*DIAMOND)
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        await run.rerun(from_step="b")
        await run.result(timeout="60s")
        gone = {each.call.name for each in await run.steps() if each.superseded_by == 2}
        assert gone == {"b", "d"}


@pytest.mark.parametrize(("from_step", "code"), [("a", "E-RUN-005"), ("nobody", "E-STEP-003")])
async def test_a_rerun_that_cannot_be_is_refused_and_changes_nothing(database, noted, from_step, code):
    flow = noted.plan(*DIAMOND)
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        before = (await run.info(), await run.history())
        with pytest.raises(StepfastError) as refused:
            await run.rerun(from_step=from_step)
        assert refused.value.code == code
        assert (await run.info(), await run.history()) == before


async def test_a_step_that_was_not_reached_is_refused(database, noted):
    noted.broken.add("b")
    flow = noted.plan(*DIAMOND)
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        with pytest.raises(StepfastError, match="was not reached"):
            await run.rerun(from_step="d")


async def test_a_rerun_comes_once_for_its_key(database, noted):
    flow = noted.plan(*DIAMOND)
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        first = await run.rerun(from_step="b", key="k")
        await run.result(timeout="60s")
        again = await run.rerun(from_step="b", key="k")
        assert (again.generation, again.repeated) == (first.generation, True)


async def test_a_run_whose_plan_is_not_known_here_is_refused_with_the_place_to_ask(database, noted):
    flow = noted.plan(*DIAMOND, digest="0123456789abcdef")
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        async with app_on(database, [], worker=False) as other:
            with pytest.raises(Invalid, match="--app"):
                await other.get(run.id).rerun(from_step="b")
        assert (await run.info()).state is RunState.COMPLETED


@st.composite
def layered(draw: st.DrawFn) -> list[tuple[str, tuple[str, ...]]]:
    """The names of steps, each with some of those before it that it rests on."""
    names = [f"s{number}" for number in range(draw(st.integers(2, 9)))]
    return [
        (name, tuple(sorted(draw(st.sets(st.sampled_from(names[:index]), max_size=3)))) if index else ())
        for index, name in enumerate(names)
    ]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shape=layered(), data=st.data())
async def test_exactly_what_rests_on_a_step_runs_again_and_the_result_is_the_same(shape, data):
    noted = Noted()
    flow = noted.plan(*(work(name, *after) for name, after in shape), step("last", Set(Constant("kept"))))
    chosen = data.draw(st.sampled_from([name for name, _ in shape]))
    resting = resting_on(ties_of(flow.frame.plan), chosen)
    async with engine(workflows=[flow]) as opened:
        run = await opened.start(flow)
        first = await opened.result(run)
        noted.ran.clear()
        await run.rerun(from_step=chosen)
        assert await opened.result(run) == first
        assert set(noted.ran) == resting
        assert set(noted.ran.values()) == {1}
