"""A run that failed in an `each` is retried: what came to a good end is not done again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepfast import Outcome, Retry, RunFailed, RunState, each, step, workflow
from stepfast.testing import Engine, crash_points, engine
from stepfast.workflows import group_calls
from tests.support.apps import Bodies

BODIES = Bodies()
BROKEN: set[int] = set()


@step(retry=Retry(attempts=1))
async def score(number: int) -> int:
    BODIES.ran(str(number))
    if number in BROKEN:
        raise ValueError(f"no score for {number}")
    return number * 10


@workflow
async def child(number: int) -> int:
    return await score(number)


@workflow
async def as_children(size: int) -> list[int]:
    return await each(child, range(size))


@workflow
async def spread_out(size: int) -> list[int]:
    return await each(score, range(size), spread=True)


@workflow
def in_a_thread(size: int) -> list[int]:
    return each.sync(child, range(size))


@workflow
async def few_at_once(size: int) -> list[int]:
    return await each(child, range(size), at_once=2)


@workflow
async def four_at_once(size: int) -> list[int]:
    return await each(child, range(size), at_once=4)


@workflow
async def inline(size: int) -> list[int]:
    return await each(score, range(size))


@workflow
async def most(size: int) -> list[int]:
    return await each(child, range(size), join=size - 1)


def values_of(outcomes: list[Outcome[int]]) -> list[Any]:
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]


@workflow
async def settled(size: int) -> list[Any]:
    return values_of(await each(child, range(size), join="settled"))


@workflow
def settled_in_a_thread(size: int) -> list[Any]:
    return values_of(each.sync(child, range(size), join="settled"))


@workflow
async def settled_spread_out(size: int) -> list[Any]:
    return values_of(await each(score, range(size), join="settled", spread=True))


@workflow
async def settled_few_at_once(size: int) -> list[Any]:
    return values_of(await each(child, range(size), at_once=2, join="settled"))


@workflow
async def settled_inline(size: int) -> list[Any]:
    return values_of(await each(score, range(size), join="settled"))


@workflow
async def borne(size: int) -> list[Any]:
    outcomes = await each(child, range(size), join="settled")
    return [
        *(str(outcome.error.__cause__) if outcome.error else outcome.value for outcome in outcomes),
        await score(size),
    ]


@workflow
async def own_error(size: int) -> list[Any]:
    outcomes = await each(child, range(size), join="settled")
    if not all(outcome.ok for outcome in outcomes):
        raise RuntimeError("some are missing")
    return [outcome.value for outcome in outcomes]


@workflow(retry=Retry(attempts=3, base="1s"))
async def by_itself(size: int) -> list[int]:
    return await each(child, range(size))


@workflow(retry=Retry(attempts=2, base="1s"))
async def attempts(size: int) -> int:
    """Tries one after the other, and raises the last failure."""
    failure: Exception | None = None
    for start in range(0, size, 2):
        try:
            await each(child, range(start, start + 2))
        except RunFailed as error:
            failure = failure or error
    await child(size)
    if failure is not None:
        raise failure
    return size


@workflow(name="changing")
async def before(size: int) -> list[int]:
    return await each(child, range(size))


@workflow(name="changing")
async def after(size: int) -> list[int]:
    return await each(child, range(size - 1))


@workflow(name="changing")
async def without(size: int) -> str:
    return f"none of {size}"


@workflow
async def caught(size: int) -> str:
    try:
        await each(child, range(size))
    except RunFailed as error:
        return f"caught {error.__cause__}, {await score(size)}"
    return "all"


FORMS: list[Any] = [as_children, spread_out, in_a_thread, few_at_once, inline]
SETTLED: list[Any] = [settled, settled_in_a_thread, settled_spread_out, settled_few_at_once, settled_inline]
WORKFLOWS = [child, *FORMS, *SETTLED, borne, own_error, most, by_itself, caught, attempts, four_at_once]


@pytest.fixture(autouse=True)
def a_new_day():
    BODIES.clear()
    BROKEN.clear()


async def failed(opened: Engine, flow: Any, size: int = 5) -> Any:
    run = await opened.start(flow, size)
    await opened.run_until_idle()
    assert (await opened.info(run)).state is RunState.FAILED
    return run


async def ended_well(opened: Engine, run: Any) -> set[str]:
    """The items that had come to a good end; others may have been under way, and were called off."""
    views = [view for view in await opened.app.runs(limit=100) if view.parent_id == run.id]
    whole = [await opened.info(opened.app.get(view.run_id)) for view in views if view.state is RunState.COMPLETED]
    steps = [step for step in await run.steps() if step.kind == "step" and step.state == "completed"]
    return {str(json.loads(each.input or "{}")["number"]) for each in (*whole, *steps)}


async def retried(opened: Engine, run: Any) -> Any:
    await run.retry()
    return await opened.result(run)


async def retried_for_the_last(database: str, flow: Any) -> set[str]:
    """The last of five items fails and is mended, and the run is retried; what had ended well before that."""
    BROKEN.add(4)
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, flow)
        kept = await ended_well(opened, run)
        BROKEN.clear()
        assert await retried(opened, run) == [0, 10, 20, 30, 40]
    return kept


@pytest.mark.parametrize("flow", [*FORMS, *SETTLED], ids=lambda flow: flow.workflow.name)
async def test_a_retry_does_again_what_failed_and_nothing_else(database, flow: Any):
    kept = await retried_for_the_last(database, flow)
    assert kept
    assert {BODIES[item] for item in kept} == {1}
    assert BODIES["4"] == 2


@pytest.mark.parametrize("flow", [*FORMS, *SETTLED], ids=lambda flow: flow.workflow.name)
async def test_a_retry_that_fails_again_can_be_retried_again(database, flow: Any):
    BROKEN.update({1, 3})
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, flow)
        BROKEN.remove(1)
        with pytest.raises(RunFailed, match="no score for 3"):
            await retried(opened, run)
        BROKEN.clear()
        assert await retried(opened, run) == [0, 10, 20, 30, 40]


async def test_a_workflow_that_retries_by_itself_does_again_what_failed(database):
    BROKEN.add(2)
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        with pytest.raises(RunFailed, match="no score for 2"):
            await opened.result(await opened.start(by_itself, 5))
    assert BODIES["2"] == 3
    # Others may have been under way at a failure, and were called off.
    assert sum(BODIES.values()) < 15


async def test_a_join_that_needs_some_keeps_those_that_it_has(database):
    BROKEN.update({0, 3})
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, most)
        BROKEN.remove(0)
        kept = await ended_well(opened, run)
        assert await retried(opened, run) == [0, 10, 20, 40]
    assert {BODIES[item] for item in kept} <= {1}


@pytest.mark.parametrize("flow", [settled, settled_in_a_thread], ids=lambda flow: flow.workflow.name)
async def test_all_failures_of_a_join_that_settles_are_done_again_when_one_is_raised(database, flow: Any):
    BROKEN.update({1, 3})
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, flow)
        BROKEN.clear()
        assert await retried(opened, run) == [0, 10, 20, 30, 40]
    assert BODIES == {"0": 1, "1": 2, "2": 1, "3": 2, "4": 1}


async def test_outcomes_that_the_code_went_on_from_stay_when_something_else_is_retried(database):
    BROKEN.update({1, 3})
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, borne, 3)
        BROKEN.clear()
        assert await retried(opened, run) == [0, "no score for 1", 20, 30]
    assert BODIES == {"0": 1, "1": 1, "2": 1, "3": 2}


async def test_the_failure_of_a_join_that_settles_can_be_retried_by_its_name(database):
    BROKEN.add(1)
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, own_error, 3)
        BROKEN.clear()
        assert "each:child.1" in str(await run.why())
        await run.retry(step="each:child.1")
        assert await opened.result(run) == [0, 10, 20]
    assert BODIES == {"0": 1, "1": 2, "2": 1}


async def test_a_failure_that_the_code_has_caught_stays_when_something_else_is_retried(database):
    BROKEN.update({2, 5})
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, caught)
        BROKEN.clear()
        assert await retried(opened, run) == "caught no score for 2, 50"
    assert BODIES["2"] == 1


async def test_groups_that_fail_side_by_side_are_done_again_by_one_retry(database):
    BROKEN.update(range(4))
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await failed(opened, four_at_once, 6)
        BROKEN.clear()
        assert await retried(opened, run) == [0, 10, 20, 30, 40, 50]


async def test_other_calls_of_the_same_children_keep_their_records(database):
    BROKEN.update({1, 4})
    async with engine(database=database, workflows=WORKFLOWS) as opened:
        run = await opened.start(attempts, 6)
        with pytest.raises(RunFailed, match="no score for 1"):
            await opened.result(run)
        BROKEN.remove(1)
        assert await opened.result(await opened.start(attempts, 2)) == 2
    # The failure of the third pair was caught and not raised: it stays.
    assert (BODIES["3"], BODIES["4"], BODIES["5"] <= 1) == (1, 1, True)
    assert (BODIES["6"], BODIES["1"]) == (1, 3)


@pytest.mark.parametrize(("changed", "result"), [(after, [0, 10]), (without, "none of 3")], ids=["fewer", "none"])
async def test_code_that_was_mended_may_want_other_children(database, changed: Any, result: Any):
    BROKEN.add(2)
    async with engine(database=database, workflows=[before, child]) as opened:
        run = await failed(opened, before, 3)
    async with engine(database=database, workflows=[changed, child]) as opened:
        assert await retried(opened, opened.app.get(run.id)) == result


@pytest.mark.parametrize("flow", [as_children, settled], ids=lambda flow: flow.workflow.name)
async def test_a_process_may_die_at_any_point_of_it(flow: Any):
    async def scenario(opened: Engine) -> Any:
        BODIES.clear()
        BROKEN.add(2)
        run = await opened.start(flow, 4)
        await opened.run_until_idle()
        BROKEN.clear()
        await opened.insist(lambda: run.retry(key="once"))
        result = await opened.result(run)
        # Beside what failed, only what was under way at the one death, or at the failure, is done again.
        assert sum(BODIES.values()) <= 4 + 4 + 4
        return result

    tried = await crash_points(scenario, workflows=WORKFLOWS, every=2)
    assert tried.points


async def test_the_broken_twin_that_forgets_what_was_done_does_all_again(database, monkeypatch):
    end_round = group_calls.FirstCall.end_round

    def forget(self: group_calls.FirstCall, ended: Any, error: str | None) -> None:
        end_round(self, [] if error else ended, error)

    monkeypatch.setattr(group_calls.FirstCall, "end_round", forget)
    kept = await retried_for_the_last(database, as_children)
    assert {BODIES[item] for item in kept} == {2}
