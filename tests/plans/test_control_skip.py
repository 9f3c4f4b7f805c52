"""A person does a step by hand: it counts as done with the output that was given, and the run goes on from it."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from typing import Any

import pytest

from stepfast import IllegalMove, Invalid, RunFailed, RunState, StepfastError, workflow
from stepfast.testing import engine
from stepfast.workflows.plans.plan import (
    Block,
    Constant,
    Do,
    Each,
    Gate,
    OnFailure,
    Parallel,
    Receive,
    Sleep,
)
from tests.plans.harness import Executors, plan_workflow, step, use, value
from tests.support.apps import app_on
from tests.support.following import state_of

RAN: Counter[str] = Counter()
BROKEN = {"bad", "item 2"}


async def do(name: str, a: int = 0) -> int:
    RAN[name] += 1
    if name in BROKEN:
        raise ValueError(name)
    return a + 1


EXECUTORS = Executors(do=do)


@pytest.fixture(autouse=True)
def fresh() -> None:
    RAN.clear()


def plan(*steps: Any, **options: Any) -> Any:
    return plan_workflow(*steps, executors=EXECUTORS, **options)


def work(name: str, *after: str, **options: Any) -> Any:
    """A step that adds up the outputs of others."""

    def total(scope: Any) -> int:
        return sum(scope["steps"][each].get("output") or 0 for each in after)

    return step(name, use("do", name=name, a=value(total, *after)), **options)


def item(scope: Any) -> str:
    return f"item {scope['item']}"


FAILING = plan(work("a"), work("bad", "a"), work("after", "bad"), name="failing")


async def ended(app: Any, flow: Any) -> Any:
    run = await app.start(flow)
    with contextlib.suppress(RunFailed):
        await run.result(timeout="60s")
    return run


async def test_a_failed_run_goes_on_with_the_output_that_was_given(database):
    async with app_on(database, [FAILING]) as app:
        run = await ended(app, FAILING)
        changed = await run.skip("bad", output=40, actor="ann", reason="done on paper")
        assert (changed.state, changed.generation) == (RunState.PENDING, 2)
        assert await run.result(timeout="60s") == 41
        assert RAN == {"a": 1, "bad": 1, "after": 1}


async def test_the_record_and_the_event_say_that_it_was_done_by_hand_by_whom_and_why(database):
    async with app_on(database, [FAILING]) as app:
        run = await ended(app, FAILING)
        await run.skip("bad", output={"n": 1}, actor="ann", reason="done on paper")
        [event] = [each for each in await run.history() if each.type == "step_skipped"]
        assert (event.step, event.actor) == ("bad#1", "ann")
        assert json.loads(event.data or "") == {"by_hand": True, "reason": "done on paper"}
        [given] = [each for each in await run.steps() if each.kind == "given"]
        assert (given.state, given.value, given.superseded_by) == ("skipped", '{"n":1}', None)


async def test_a_step_that_waits_is_skipped_in_its_generation_and_others_go_on_waiting(database):
    flow = plan(
        step("wait", Receive(Constant("never"))),
        step("nap", Receive(Constant("later"))),
        work("after", "wait"),
        name="waits",
    )
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await state_of(run, RunState.WAITING)
        changed = await run.skip("wait", output=5)
        assert changed.generation == 1
        await run.signal("later", "now")
        assert await run.result(timeout="60s") == {"nap": "now", "after": 6}
        opened = [each.call.name for each in await run.steps() if each.state == "waiting"]
        assert opened == ["wait", "nap"]


async def test_a_blocked_step_is_skipped_and_nobody_is_asked_any_more(database):
    flow = plan(work("a"), work("gated", "a", before=Gate()), work("after", "gated"), name="gated")
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await state_of(run, RunState.WAITING)
        await run.skip("gated", output=7)
        assert await run.result(timeout="60s") == 8
        assert await app.reviews.list(run_id=run.id) == []
        assert await app.reviews.check() == []
        assert RAN["gated"] == 0


async def test_a_paused_run_stays_paused_when_a_step_is_skipped(database):
    flow = plan(step("wait", Receive(Constant("never"))), work("after", "wait"), name="paused")
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await state_of(run, RunState.WAITING)
        await run.pause()
        changed = await run.skip("wait", output=1)
        assert changed.state is RunState.PAUSED
        await run.resume()
        assert await run.result(timeout="60s") == 2


async def test_a_step_that_is_not_reached_yet_is_skipped_in_advance(database):
    flow = plan(step("wait", Receive(Constant("go"))), work("after", "wait"), work("last", "after"), name="ahead")
    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await state_of(run, RunState.WAITING)
        await run.skip("after", output=20)
        await run.signal("go", 1)
        assert await run.result(timeout="60s") == 21
        assert RAN == {"last": 1}


async def test_one_item_is_skipped_by_its_address_and_the_others_are_kept(database):
    fan = step("fan", use("do", name=value(item)), each=Each(Constant([1, 2, 3])))
    flow = plan(fan, name="fan")
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        await run.skip("fan[1]/fan#1", output=20)
        assert (await run.result(timeout="60s"))["results"] == [1, 20, 1]
        assert RAN["item 1"] == 1


async def test_a_group_is_skipped_with_all_that_is_inside_it(database):
    group = step("group", Do(Block((work("one"), work("bad")), is_sequence=True)))
    flow = plan(group, work("after", "group"), name="group")
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        await run.skip("group", output=9)
        assert await run.result(timeout="60s") == 10


async def test_a_run_that_ended_in_part_completes_when_its_failed_step_is_done_by_hand(database):
    flow = plan(work("bad", on_failure=OnFailure.CONTINUE), work("after", "bad"), name="partly")
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        assert (await run.info()).state is RunState.PARTIAL
        await run.skip("bad", output=1)
        assert await run.result(timeout="60s") == 2
        assert (await run.info()).state is RunState.COMPLETED


async def test_what_was_done_by_hand_stays_over_a_retry_and_goes_with_a_rerun_of_the_step(database):
    flow = plan(work("a"), work("bad", "a"), work("item 2", "bad"), work("b"), name="kept")
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        await run.skip("bad", output=40)
        with pytest.raises(RunFailed, match="item 2"):
            await run.result(timeout="60s")
        await run.retry()
        with pytest.raises(RunFailed, match="item 2"):
            await run.result(timeout="60s")
        assert RAN["bad"] == 1
        await run.rerun(from_step="bad")
        with pytest.raises(RunFailed, match="bad"):
            await run.result(timeout="60s")
        assert RAN["bad"] == 2


async def test_a_large_output_is_given_like_any_other(database):
    async with app_on(database, [flow := plan(work("bad"), name="large")]) as app:
        run = await ended(app, flow)
        await run.skip("bad", output="x" * 1_000_000)
        assert await run.result(timeout="60s") == "x" * 1_000_000


async def test_a_skip_comes_once_for_its_key(database):
    async with app_on(database, [FAILING]) as app:
        run = await ended(app, FAILING)
        first = await run.skip("bad", output=1, key="k")
        await run.result(timeout="60s")
        again = await run.skip("bad", output=1, key="k")
        assert (again.generation, again.repeated) == (first.generation, True)
        with pytest.raises(StepfastError) as refused:
            await run.skip("bad", output=2, key="k")
        assert refused.value.code == "E-IDEM-001"


@workflow(name="plain_function")
async def plain() -> None:
    raise ValueError("no")


async def test_a_step_of_a_function_cannot_be_skipped(database):
    async with app_on(database, [plain]) as app:
        run = await ended(app, plain)
        with pytest.raises(Invalid, match="graphs and templates"):
            await run.skip("charge", output=1)


@pytest.mark.parametrize("name", ["nobody", "one"])
async def test_a_skip_that_cannot_be_is_refused_and_changes_nothing(database, name):
    fan = step("fan", Parallel((work("one"),)), each=Each(Constant([1, 2])))
    flow = plan(fan, work("bad", needs=("fan",)), name="refused")
    async with app_on(database, [flow]) as app:
        run = await ended(app, flow)
        before = (await run.info(), await run.history(), await run.steps())
        with pytest.raises(StepfastError):
            await run.skip(name, output=1)
        assert (await run.info(), await run.history(), await run.steps()) == before


async def test_a_completed_run_is_not_gone_on_with_by_hand(database):
    async with app_on(database, [flow := plan(work("a"), name="done")]) as app:
        run = await ended(app, flow)
        with pytest.raises(IllegalMove, match="by hand"):
            await run.skip("a", output=1)


async def test_a_run_that_has_not_begun_has_nothing_to_skip(database):
    async with app_on(database, [FAILING], worker=False) as app:
        run = await app.start(FAILING)
        await run.pause()
        with pytest.raises(IllegalMove, match="has not begun"):
            await run.skip("a", output=1)


SLEEPY = plan(
    work("a"),
    step("nap", Sleep(Constant("1h")), needs=("a",)),
    work("bad", "a", needs=("nap",)),
    work("after", "bad"),
    name="sleepy",
)


async def test_time_that_a_skipped_sleep_had_left_is_not_waited_for():
    async with engine(workflows=[SLEEPY]) as opened:
        run = await opened.start(SLEEPY)
        await opened.run_until_idle()
        await run.skip("nap")
        with pytest.raises(RunFailed, match="bad"):
            await opened.result(run)
