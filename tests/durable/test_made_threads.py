"""Threads and event loops that workflow code starts by itself: a call there would not be recorded, and is refused."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from stepfast import WrongCall, step, workflow
from stepfast.workflows.made_threads import let_go_of_this_thread, watch_this_thread
from tests.support.apps import Bodies, app_on

bodies = Bodies()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    bodies.clear()


@step
def thread_step(number: int) -> int:
    bodies.ran("thread_step")
    return number


@step
async def loop_step(number: int) -> int:
    bodies.ran("loop_step")
    return number


@workflow
def thread_child(number: int) -> int:
    bodies.ran("thread_child")
    return number


def by_pool(call, *args) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call, *args).result()


def by_thread(call, *args) -> object:
    answers: list[object] = []

    def work() -> None:
        try:
            answers.append(call(*args))
        except WrongCall as error:
            answers.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(answers[0], WrongCall):
        raise answers[0]
    return answers[0]


def by_pool_with_context(call, *args) -> object:
    return by_pool(copy_context().run, call, *args)


async def awaited(call, *args) -> object:
    return await call(*args)


def by_own_loop(call, *args) -> object:
    return asyncio.run(awaited(call, *args))


WAYS = [
    (by_pool, thread_step),
    (by_thread, thread_step),
    (by_pool_with_context, thread_step),
    (by_pool, loop_step.sync),
    (by_pool, thread_child),
    (by_own_loop, loop_step),
    (by_own_loop, thread_step.aio),
]


@pytest.mark.parametrize(("way", "call"), WAYS)
async def test_a_call_beside_a_def_workflow_is_refused(database, way, call):
    @workflow
    def flow() -> str:
        try:
            way(call, 1)
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [flow, thread_child]) as app:
        assert "no call is recorded" in await (await app.start(flow))
    assert not bodies


async def test_threads_that_step_bodies_start_call_steps_as_plain_functions(database):
    @step
    def outer_step() -> object:
        return by_pool(by_thread, thread_step, 7)

    @step
    async def outer_loop_step() -> object:
        return await asyncio.to_thread(by_pool, thread_step, 8)

    @workflow
    async def flow() -> list[object]:
        return [await outer_step.aio(), await outer_loop_step()]

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == [7, 8]


async def test_threads_of_others_call_steps_as_plain_functions_while_workflows_run(database):
    called, go_on = threading.Event(), threading.Event()

    @workflow
    def flow() -> int:
        called.set()
        go_on.wait()
        return 1

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await asyncio.to_thread(called.wait)
        assert await asyncio.to_thread(by_pool, thread_step, 9) == 9
        go_on.set()
        assert await run == 1


async def test_a_pool_that_a_def_workflow_has_used_is_everybodys_when_it_has_ended(database):
    with ThreadPoolExecutor(1) as pool:

        @step
        def by_that_pool() -> int:
            return pool.submit(thread_step, 5).result()

        @workflow
        def first() -> int:
            return pool.submit(len, "abc").result()

        @workflow
        async def second() -> int:
            return await by_that_pool.aio()

        async with app_on(database, [first, second]) as app:
            assert (await (await app.start(first)), await (await app.start(second))) == (3, 5)
        assert pool.submit(thread_step, 6).result() == 6


def everything_by(pool: ThreadPoolExecutor) -> list[int]:
    return list(pool.map(thread_step, range(4)))


@pytest.mark.parametrize("of_one_run", [True, False])
async def test_what_step_bodies_give_to_a_pool_is_let_alone_also_when_a_def_workflow_uses_it(database, of_one_run):
    used, go_on = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:

        @step
        def by_that_pool() -> int:
            return sum(everything_by(pool))

        @workflow
        def computing() -> int:
            found: int = sum(pool.map(abs, range(4)))
            if of_one_run:
                return found + by_that_pool()
            used.set()
            go_on.wait()
            return found

        @workflow
        async def other() -> int:
            return await by_that_pool.aio()

        async with app_on(database, [computing, other]) as app:
            run = await app.start(computing)
            if not of_one_run:
                await asyncio.to_thread(used.wait)
                assert await (await app.start(other)) == 6
                go_on.set()
            assert await run == (12 if of_one_run else 6)


class OwnPool(ThreadPoolExecutor):
    """Somebody's own kind of pool."""


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, OwnPool])
async def test_all_that_a_def_workflow_gives_to_a_pool_is_refused(database, kind):
    @workflow
    def flow() -> list[str]:
        with kind(1) as pool:
            assert pool.submit(len, "abc").result() == 3
            given = [pool.submit(thread_step, number) for number in range(4)]
            given.append(pool.submit(lambda: pool.submit(thread_step, 4)).result())
            return [type(each.exception()).__name__ for each in given]

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == ["WrongCall"] * 5
    assert not bodies


async def test_coroutines_that_as_completed_would_take_in_any_order_are_refused(database):
    @workflow
    async def flow() -> str:
        try:
            for call in asyncio.as_completed([loop_step(number) for number in range(5)]):
                await call
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [flow]) as app:
        assert "asyncio.create_task(call)" in await (await app.start(flow))
    assert not bodies


async def test_tasks_are_taken_by_as_completed_as_they_end(database):
    @workflow
    async def flow() -> list[int]:
        tasks = [asyncio.create_task(loop_step(number)) for number in range(5)]
        return sorted([await call for call in asyncio.as_completed(tasks)])

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == list(range(5))


@pytest.fixture
def quick_turns():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def make_threads_again_and_again(_: int) -> None:
    for _ in range(500):
        watch_this_thread()
        made = [threading.Thread(target=int) for _ in range(8)]
        let_go_of_this_thread()
        assert made


def test_threads_that_one_workflow_makes_do_not_trouble_the_end_of_another(quick_turns):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make_threads_again_and_again, range(8)))
