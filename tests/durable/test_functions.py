"""Durable functions: what is recorded, what is run again, and what the code sees."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from contextvars import ContextVar
from functools import partial, update_wrapper
from typing import Any

import pytest

from stepfast import Retry, RunFailed, RunState, StepfastError, WrongCall, sleep, step, workflow
from tests.support.apps import Bodies, app_on

ONCE = Retry(attempts=1)


async def test_a_workflow_returns_what_its_code_returns(database):
    @step
    async def double(number: int) -> int:
        return number * 2

    @workflow
    async def sums(first: int, second: int) -> int:
        return await double(first) + await double(second)

    async with app_on(database, [sums]) as app:
        run = await app.start(sums, 1, second=2)
        assert await run == 6
        assert (await run.info()).state is RunState.COMPLETED


WHOSE = ContextVar("whose", default="nobody's")


class Marking(partial[Any]):
    """As a decorator may be made that does something before the coroutine is there."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        WHOSE.set("the first run's")
        return super().__call__(*args, **options)


async def test_what_wraps_an_async_workflow_is_called_inside_its_own_run(database):
    async def whose() -> str:
        return WHOSE.get()

    first = workflow(name="first")(update_wrapper(Marking(whose), whose))
    second = workflow(name="second")(whose)
    async with app_on(database, [first, second]) as app:
        assert await (await app.start(first)) == "the first run's"
        assert await (await app.start(second)) == "nobody's"


async def test_a_def_workflow_calls_def_and_async_steps(database):
    @step
    def double(number: int) -> int:
        return number * 2

    @step
    async def triple(number: int) -> int:
        return number * 3

    @workflow
    def sums(number: int) -> int:
        return double(number) + triple.sync(number)

    async with app_on(database, [sums]) as app:
        assert await (await app.start(sums, 2)) == 10


async def test_an_async_workflow_runs_def_steps_in_threads(database):
    @step
    def thread_name() -> str:
        return threading.current_thread().name

    @workflow
    async def where() -> str:
        return await thread_name.aio()

    async with app_on(database, [where]) as app:
        assert (await (await app.start(where))).startswith("stepfast-step")


@pytest.mark.parametrize("kind", ["async", "def"])
async def test_a_call_in_the_wrong_form_names_the_right_one(database, kind):
    @step
    def plain() -> int:
        return 1

    @step
    async def awaited() -> int:
        return 1

    @workflow
    async def in_async() -> int:
        return plain()

    @workflow
    def in_def() -> int:
        return awaited()  # type: ignore[return-value]

    wrong, form = (in_async, r"plain\.aio") if kind == "async" else (in_def, r"awaited\.sync")
    async with app_on(database, [wrong]) as app:
        with pytest.raises(RunFailed, match=form) as failed:
            await (await app.start(wrong))
        assert isinstance(failed.value.__cause__, WrongCall)


async def test_outside_a_run_steps_and_workflows_are_the_plain_functions():
    @step
    async def double(number: int) -> int:
        return number * 2

    @step
    def triple(number: int) -> int:
        return number * 3

    @workflow
    async def both(number: int) -> int:
        return await double(number) + await triple.aio(number)

    assert await both(1) == 5
    assert triple(1) == 3


async def test_inside_a_step_other_steps_are_plain_functions(database):
    @step
    async def inner() -> int:
        return 1

    @step
    async def outer() -> int:
        return sum(await asyncio.gather(inner(), inner()))

    @workflow
    async def nested() -> int:
        return await outer()

    async with app_on(database, [nested]) as app:
        run = await app.start(nested)
        assert await run == 2
        assert [record.call.name for record in await run.steps()] == ["outer"]


async def test_a_finished_step_is_not_run_again_by_the_next_holder(database):
    bodies, reached, let_go = Bodies(), asyncio.Event(), asyncio.Event()

    @step
    async def first() -> int:
        bodies.ran("first")
        return 1

    @step
    async def second() -> int:
        bodies.ran("second")
        reached.set()
        await let_go.wait()
        return 2

    @workflow
    async def both() -> int:
        return await first() + await second()

    async with app_on(database, [both]) as app:
        run = await app.start(both)
        await reached.wait()
    let_go.set()
    async with app_on(database, [both]) as app:
        assert await app.get(run.id).result() == 3
    assert bodies == {"first": 1, "second": 2}


async def test_a_def_workflow_goes_on_from_its_records(database):
    bodies, reached, let_go = Bodies(), threading.Event(), threading.Event()

    @step
    def first() -> int:
        bodies.ran("first")
        return 1

    @step
    def second() -> int:
        bodies.ran("second")
        reached.set()
        let_go.wait(60)
        return 2

    @workflow
    def both() -> int:
        return first() + second()

    async with app_on(database, [both]) as app:
        run = await app.start(both)
        await asyncio.to_thread(reached.wait)
        closing = asyncio.ensure_future(app.close())
        let_go.set()
        await closing
    async with app_on(database, [both]) as app:
        assert await app.get(run.id).result() == 3
    assert bodies["first"] == 1


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}])
async def test_an_empty_result_counts_as_a_result(database, value):
    bodies, reached, let_go = Bodies(), asyncio.Event(), asyncio.Event()

    @step
    async def empty():
        bodies.ran("empty")
        return value

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    @workflow
    async def flow():
        got = await empty()
        await hold()
        return got

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await reached.wait()
    let_go.set()
    async with app_on(database, [flow]) as app:
        assert await app.get(run.id).result() == value
    assert bodies["empty"] == 1


async def test_branches_of_gather_and_task_groups_get_their_own_records_back(database):
    reached, let_go = asyncio.Event(), asyncio.Event()
    numbers = iter(range(1_000))

    @step
    async def number() -> int:
        return next(numbers)

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    async def branch() -> list[int]:
        return [await number(), *await asyncio.gather(number(), number())]

    seen: list[list[list[int]]] = []

    @workflow
    async def flow() -> list[list[int]]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch()) for _ in range(5)]
        seen.append([task.result() for task in tasks])
        await hold()
        return seen[-1]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await reached.wait()
    let_go.set()
    async with app_on(database, [flow]) as app:
        await app.get(run.id).result()
    assert seen[0] == seen[1]


async def test_first_completed_is_decided_the_same_way_on_replay(database):
    reached, let_go = asyncio.Event(), asyncio.Event()
    slow_may_go = asyncio.Event()

    @step
    async def slow() -> str:
        await slow_may_go.wait()
        return "slow"

    @step
    async def fast() -> str:
        return "fast"

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    seen: list[str] = []

    @workflow
    async def flow() -> str:
        calls = {asyncio.ensure_future(slow()), asyncio.ensure_future(fast())}
        done, rest = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        seen.append(done.pop().result())
        slow_may_go.set()
        await asyncio.wait(rest)
        await hold()
        return seen[-1]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await reached.wait()
    let_go.set()
    async with app_on(database, [flow]) as app:
        assert await app.get(run.id).result() == "fast"
    assert seen == ["fast", "fast"]


async def test_a_failed_step_can_be_caught_and_is_caught_again_on_replay(database):
    bodies, reached, let_go = Bodies(), asyncio.Event(), asyncio.Event()

    @step(retry=ONCE)
    async def fragile() -> int:
        bodies.ran("fragile")
        raise LookupError("gone", 7)

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    @workflow
    async def flow() -> list[str]:
        try:
            await fragile()
        except LookupError as error:
            caught = [type(error).__name__, *map(str, error.args)]
        await hold()
        return caught

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await reached.wait()
    let_go.set()
    async with app_on(database, [flow]) as app:
        assert await app.get(run.id).result() == ["LookupError", "gone", "7"]
    assert bodies["fragile"] == 1


async def test_a_workflow_that_raises_fails_with_its_own_error_as_the_cause(database):
    @workflow
    async def flow() -> None:
        raise ValueError("no such clause")

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        with pytest.raises(RunFailed, match="no such clause") as failed:
            await run
        assert isinstance(failed.value.__cause__, ValueError)
        assert (await run.info()).state is RunState.FAILED


async def test_a_task_group_that_fails_calls_off_its_other_steps(database):
    called_off = asyncio.Event()

    @step(retry=ONCE)
    async def fails() -> None:
        raise ValueError("stop")

    @step
    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            called_off.set()

    @workflow
    async def flow() -> str:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(endless())
                group.create_task(fails())
        except ExceptionGroup:
            return "called off"
        return "both"

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == "called off"
    assert called_off.is_set()


async def test_mutating_an_argument_in_a_step_does_not_change_the_callers_value(database):
    @step
    async def append(items: list[int]) -> int:
        items.append(1)
        return len(items)

    @workflow
    async def flow() -> list[int]:
        items: list[int] = []
        await append(items)
        return items

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == []


LEAVING = [SystemExit(3), asyncio.CancelledError(), GeneratorExit("out"), KeyboardInterrupt()]


@pytest.mark.parametrize("timeout", [None, "1m"])
@pytest.mark.parametrize("leave", LEAVING, ids=repr)
async def test_a_step_that_raises_an_exit_fails_and_the_worker_lives(database, leave, timeout):
    if isinstance(leave, KeyboardInterrupt):
        # Raised in the loop's own thread it is the user's, and ends the process; in a step's thread it is the step's.
        @step(retry=ONCE, timeout=timeout)
        def leaves() -> None:
            raise leave

        @workflow
        def flow() -> None:
            leaves()
    else:

        @step(retry=ONCE, timeout=timeout)
        async def leaves_async() -> None:
            raise leave

        @workflow
        async def flow() -> None:
            await leaves_async()

    @workflow
    async def other() -> int:
        return 1

    async with app_on(database, [flow, other]) as app:
        with pytest.raises(RunFailed):
            await (await app.start(flow))
        assert await (await app.start(other)) == 1


async def test_a_workflow_that_calls_exit_fails_and_the_worker_lives(database):
    @workflow
    async def leaves() -> None:
        raise SystemExit(3)

    @workflow
    async def other() -> int:
        return 1

    async with app_on(database, [leaves, other]) as app:
        with pytest.raises(RunFailed, match="SystemExit"):
            await (await app.start(leaves))
        assert await (await app.start(other)) == 1


async def test_input_output_in_workflow_code_is_refused_with_the_way_to_do_it(database):
    @workflow
    async def flow() -> None:
        await asyncio.open_connection("127.0.0.1", 1)

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="@step"):
            await (await app.start(flow))


async def test_a_task_factory_in_workflow_code_is_refused_with_the_way_to_make_tasks(database):
    @workflow
    async def flow() -> None:
        asyncio.get_running_loop().set_task_factory(None)

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match=r"set_task_factory: the tasks of a run are its branches.*TaskGroup"):
            await (await app.start(flow))


async def test_a_durable_call_in_a_task_that_was_not_made_by_the_loop_is_refused_with_the_way_to_make_one(database):
    async def rest() -> None:
        await sleep("1h")

    @workflow
    async def flow() -> None:
        await asyncio.Task(rest(), loop=asyncio.get_running_loop())

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match=r"in a Task that the workflow's loop has not made.*asyncio\.create_task"):
            await (await app.start(flow))


async def _by_the_loops_timer() -> None:
    asyncio.get_running_loop().call_later(1, print)


async def _within_asyncios_timeout() -> None:
    async with asyncio.timeout(1):
        await asyncio.Event().wait()


@pytest.mark.parametrize("wait", [_by_the_loops_timer, _within_asyncios_timeout])
async def test_timers_of_asyncio_in_workflow_code_are_refused_with_those_that_are_durable(database, wait):
    @workflow
    async def flow() -> None:
        await wait()

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match=r"`await sleep\(\.\.\.\)`.*`async with timeout\(\.\.\.\)`"):
            await (await app.start(flow))


async def _within_wait_for(step_call: Coroutine[Any, Any, int]) -> None:
    await asyncio.wait_for(step_call, 1)


async def _by_another_loop(step_call: Coroutine[Any, Any, int]) -> None:
    asyncio.get_running_loop().run_until_complete(step_call)


@pytest.mark.parametrize("call", [_within_wait_for, _by_another_loop])
async def test_a_coroutine_that_was_given_to_a_refused_call_is_closed(database, call):
    given = []

    @step
    async def one() -> int:
        return 1

    @workflow
    async def flow() -> None:
        given.append(one())
        await call(given[0])

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match="cannot be replayed"):
            await (await app.start(flow))
    assert [inspect.getcoroutinestate(coroutine) for coroutine in given] == [inspect.CORO_CLOSED]


async def test_events_tell_the_run_in_order_without_gaps(database):
    @step
    async def one() -> int:
        return 1

    @workflow
    async def flow() -> int:
        return await one()

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        events = await run.history()
    types = ["queued", "claimed", "started", "step_started", "step_completed", "completed"]
    assert [event.type for event in events] == types
    assert [event.seq for event in events] == [1, 2, 3, 4, 5, 6]
    positions = [event.position for event in events]
    assert positions == sorted(positions)


async def test_the_same_key_gives_the_same_run(database):
    bodies = Bodies()

    @step
    async def charge(amount: int) -> int:
        bodies.ran("charge")
        return amount

    @workflow
    async def flow(amount: int) -> int:
        return await charge(amount)

    async with app_on(database, [flow]) as app:
        first = await app.start(flow, 5, key="order-17")
        again = await app.start(flow, 5, key="order-17")
        assert first.id == again.id
        assert await again == 5
    assert bodies["charge"] == 1


async def test_a_thousand_concurrent_runs_all_complete(database):
    @step
    async def double(number: int) -> int:
        return number * 2

    @workflow
    async def flow(number: int) -> int:
        return await double(number) + await double(number)

    async with app_on(database, [flow]) as app:
        runs = await asyncio.gather(*(app.start(flow, number) for number in range(1_000)))
        results = await asyncio.gather(*runs)
    assert results == [number * 4 for number in range(1_000)]


async def test_a_result_that_cannot_be_stored_fails_that_step_with_the_path(database):
    bodies = Bodies()

    @step
    async def bad() -> dict[str, list[float]]:
        bodies.ran("bad")
        return {"scores": [1.0, float("nan")]}

    @workflow
    async def flow() -> str:
        try:
            await bad()
        except StepfastError as error:
            return f"{error.code} {error}"
        return "stored"

    async with app_on(database, [flow]) as app:
        message = await (await app.start(flow))
    assert message.startswith("E-VAL-003")
    assert "scores" in message
    assert "[1]" in message
    assert bodies["bad"] == 1


async def test_a_result_that_was_not_awaited_is_told_to_be(database):
    @step
    async def number() -> int:
        return 7

    calls: list[Coroutine[Any, Any, int]] = []

    @workflow
    async def flow() -> Any:
        calls.append(number())
        return calls[-1]

    async with app_on(database, [flow]) as app:
        with pytest.raises(RunFailed, match=r"which nobody has awaited\. An `await` is missing before the call"):
            await (await app.start(flow))
    calls[-1].close()


async def test_two_runs_do_not_share_their_records(database):
    numbers = iter(range(10))

    @step
    async def number() -> int:
        return next(numbers)

    @workflow
    async def flow() -> int:
        return await number()

    async with app_on(database, [flow]) as app:
        first, second = await app.start(flow), await app.start(flow)
        assert {await first, await second} == {0, 1}
