"""Children, items and races: several durable calls at once."""

from __future__ import annotations

import pytest

from stepfast import (
    Outcome,
    Retry,
    RunFailed,
    RunState,
    WaitTimeout,
    each,
    race,
    receive,
    sleep,
    step,
    timeout,
    workflow,
)
from tests.durable.test_waiting import until
from tests.support.apps import Bodies, app_on
from tests.support.turns import turn
from tests.support.virtual_time import replayed, timed_app

ONCE = Retry(attempts=1)


@step
async def double(number: int) -> int:
    return number * 2


@step(retry=ONCE)
async def only_even(number: int) -> int:
    if number % 2:
        raise ValueError(f"{number} is odd")
    return number


@workflow
async def child(number: int) -> int:
    return await double(number)


@workflow
async def picky(number: int) -> int:
    return await only_even(number)


@workflow
def quiet_child(number: int) -> int:
    return number + 1


async def test_a_child_workflow_is_called_like_a_function(database):
    @workflow
    async def parent() -> int:
        return await child(1) + await quiet_child.aio(2)

    async with app_on(database, [parent, child, quiet_child]) as app:
        run = await app.start(parent)
        assert await run == 5
        children = [view for view in await app.runs() if view.parent_id == run.id]
    assert sorted(view.workflow for view in children) == ["child", "quiet_child"]


async def test_a_def_workflow_has_children_too(database):
    @workflow
    def parent() -> int:
        return child.sync(1) + quiet_child(2)

    async with app_on(database, [parent, child, quiet_child]) as app:
        assert await (await app.start(parent)) == 5


async def test_a_waiting_parent_holds_nothing(database):
    @workflow
    async def slow() -> None:
        await receive("go")

    @workflow
    async def parent() -> str:
        await slow()
        return "done"

    async with app_on(database, [parent, slow]) as app:
        run = await app.start(parent)
        await until(app, run.id, RunState.WAITING)
        (waiting,) = [view for view in await app.runs() if view.parent_id == run.id]
        await until(app, waiting.run_id, RunState.WAITING)
        await app.get(waiting.run_id).signal("go")
        assert await run == "done"


async def test_a_failed_child_raises_in_its_parent_and_is_no_dead_letter(database):
    @workflow
    async def parent() -> str:
        try:
            await picky(1)
        except RunFailed as error:
            return f"{type(error.__cause__).__name__}: {error.__cause__}"
        return ""

    async with app_on(database, [parent, picky]) as app:
        run = await app.start(parent)
        assert "1 is odd" in await run
        (view,) = [view for view in await app.runs() if view.parent_id == run.id]
        types = [event.type for event in await app.get(view.run_id).history()]
    assert "failed" in types
    assert "dlq_recorded" not in types


async def test_a_thousand_children_are_joined_in_order_by_one_wait(database):
    @workflow
    async def parent(count: int) -> list[int]:
        return await each(child, range(count))

    async with app_on(database, [parent, child]) as app:
        run = await app.start(parent, 1_000)
        assert await run == [2 * number for number in range(1_000)]
        claims = [event for event in await run.history() if event.type == "claimed"]
    assert len(claims) <= 4


async def test_children_at_once_are_bounded(database):
    running = Bodies()
    most = []

    @step
    async def busy(number: int) -> int:
        running["now"] += 1
        most.append(running["now"])
        await turn()
        running["now"] -= 1
        return number

    @workflow
    async def item(number: int) -> int:
        return await busy(number)

    @workflow
    async def parent() -> list[int]:
        return await each(item, range(6), at_once=2)

    async with app_on(database, [parent, item]) as app:
        assert await (await app.start(parent)) == list(range(6))
    assert max(most) <= 2


async def test_each_over_a_step_runs_inline_and_in_order(database):
    @workflow
    async def flow() -> list[int]:
        return await each(double, range(20), at_once=3)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        assert await run == [2 * number for number in range(20)]
        assert len(await app.runs()) == 1


@pytest.mark.parametrize("over", [only_even, picky], ids=["inline", "children"])
async def test_all_raises_the_first_failure(database, over):
    @workflow
    async def flow() -> str:
        try:
            await each(over, [2, 3, 4])
        except (ValueError, RunFailed) as error:
            return str(error)
        return ""

    async with app_on(database, [flow, picky]) as app:
        assert "3 is odd" in await (await app.start(flow))


@pytest.mark.parametrize("over", [only_even, picky], ids=["inline", "children"])
async def test_settled_gives_an_outcome_for_every_item(database, over):
    @workflow
    async def flow() -> list[str]:
        outcomes: list[Outcome[int]] = await each(over, [2, 3, 4], join="settled")
        return [str(outcome.value) if outcome.ok else "failed" for outcome in outcomes]

    async with app_on(database, [flow, picky]) as app:
        assert await (await app.start(flow)) == ["2", "failed", "4"]


@pytest.mark.parametrize("over", [only_even, picky], ids=["inline", "children"])
async def test_a_join_of_some_is_met_despite_failures(database, over):
    @workflow
    async def flow() -> int:
        return len(await each(over, [1, 2, 3, 4], join=2))

    async with app_on(database, [flow, picky]) as app:
        assert await (await app.start(flow)) == 2


async def test_a_join_that_cannot_be_met_is_refused(database):
    @workflow
    async def flow() -> None:
        await each(double, [1], join=2)

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="can never be met"):
            await (await app.start(flow))


async def test_each_over_nothing_is_an_empty_list(database):
    @workflow
    async def flow() -> list[int]:
        return await each(double, [])

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == []


async def test_a_race_names_its_winner_and_calls_the_others_off(database):
    @workflow
    async def flow() -> list[str]:
        name, value = await race(paid=receive("paid", str), late=sleep("10m"))
        return [name, value]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await run.signal("paid", "yes")
        assert await run == ["paid", "yes"]


async def test_a_timeout_calls_off_what_is_inside(database):
    @workflow
    async def flow() -> str:
        try:
            async with timeout("150ms"):
                await receive("never")
        except WaitTimeout:
            return "too late"
        return "in time"

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await time.advance("150ms")
        assert await time.result(run) == "too late"


async def test_what_ends_within_its_timeout_is_not_disturbed(database):
    @workflow
    async def flow() -> int:
        async with timeout("10m"):
            result = await double(4)
        await receive("go")
        return result

    async with timed_app(database, flow) as (app, time):
        assert await replayed(await app.start(flow), time) == 8
