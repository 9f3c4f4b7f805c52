"""The engine for tests: nothing happens but what the test asks for, and time passes when the test says so."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from stepfast import (
    Domain,
    Later,
    Retry,
    RunFailed,
    RunState,
    Start,
    StepfastError,
    StepState,
    WrongCall,
    race,
    receive,
    sleep,
    step,
    timeout,
    workflow,
)
from stepfast.kernel.errors import Invalid
from stepfast.testing import CollectingSink, Engine, Stuck, VirtualClock, crash_after, engine
from tests.support.apps import Bodies, app_on
from tests.support.turns import turn
from tests.support.workflows import say

HOUR_MS = 3_600_000


@workflow
async def nap(span: str) -> str:
    await sleep(span)
    return "rested"


@workflow
async def wait_for_word() -> str:
    return await receive("word", str)


def flaky(failures: int, bodies: Bodies, base: str, cap: str = "1m"):
    """A workflow with one step that fails so many times."""

    @step(retry=Retry(jitter=0, base=base, cap=cap))
    async def try_it() -> int:
        bodies.ran("try_it")
        if bodies["try_it"] <= failures:
            raise ConnectionError("away")
        return bodies["try_it"]

    @workflow
    async def insist() -> int:
        return await try_it()

    return insist


async def test_a_run_stands_still_until_the_engine_is_told_to_run(database):
    async with engine(database=database, workflows=[say]) as opened:
        run = await opened.start(say, "held")
        assert (await run.info()).state is RunState.PENDING
        await opened.run_until_idle()
        assert await run.result() == "held"


async def test_a_sleep_ends_when_the_clock_is_moved_past_it_and_not_before(database):
    async with engine(database=database, workflows=[nap]) as opened:
        run = await opened.start(nap, "24h")
        await opened.run_until_idle()
        opened.clock.advance("23h")
        await opened.run_until_idle()
        assert (await run.info()).state is RunState.WAITING
        opened.clock.advance("1h")
        await opened.run_until_idle()
        assert await run.result() == "rested"


async def test_a_run_to_its_end_moves_the_clock_over_sleeps_and_backoffs(database):
    bodies = Bodies()
    insist = flaky(3, bodies, base="10s", cap="1h")

    @workflow
    async def long() -> str:
        await sleep("3d")
        return await nap("2h")

    async with engine(database=database, workflows=[insist, long, nap]) as opened:
        begun = opened.clock.now()
        assert await opened.run(insist) == 4
        assert opened.clock.now() - begun == (10 + 20 + 40) * 1_000
        begun = opened.clock.now()
        assert await opened.run(long) == "rested"
        assert opened.clock.now() - begun == (72 + 2) * HOUR_MS


async def test_a_backoff_is_idle_and_its_next_try_comes_when_the_clock_is_moved(database):
    bodies = Bodies()
    insist = flaky(1, bodies, base="1m")
    async with engine(database=database, workflows=[insist]) as opened:
        run = await opened.start(insist)
        await opened.run_until_idle()
        opened.clock.advance("59s")
        await opened.run_until_idle()
        assert bodies["try_it"] == 1
        opened.clock.advance("1s")
        await opened.run_until_idle()
        assert await run.result() == 2


async def test_a_signal_reaches_a_run_that_waits_and_one_that_rests_before_a_try(database):
    bodies = Bodies()

    @step(retry=Retry(base="1h", jitter=0))
    async def fail_once() -> None:
        bodies.ran("fail_once")
        if bodies["fail_once"] == 1:
            raise ConnectionError

    @workflow
    async def both() -> str:
        _, word = await asyncio.gather(fail_once(), receive("word", str))
        return f"{word}, late"

    async with engine(database=database, workflows=[both, wait_for_word]) as opened:
        waiting, resting = await opened.start(wait_for_word), await opened.start(both)
        await opened.run_until_idle()
        await opened.signal(waiting, "word", "held")
        await opened.signal(resting, "word", "held")
        await opened.run_until_idle()
        assert await waiting.result() == "held"
        assert [step.state for step in await opened.steps(resting)].count(StepState.COMPLETED) == 1
        assert await opened.result(resting) == "held, late"


async def test_waiting_for_the_end_of_a_run_that_only_a_signal_can_wake_says_so(database):
    async with engine(database=database, workflows=[wait_for_word]) as opened:
        run = await opened.start(wait_for_word)
        with pytest.raises(Stuck, match=rf"(?s)wait_for_word@1 .* Run {run.id} is waiting.* signal 'word'"):
            await opened.result(run)


async def test_a_step_that_hangs_fails_the_test_and_is_named(database):
    @step
    async def hang() -> None:
        await asyncio.Event().wait()

    @workflow
    async def stuck() -> None:
        await hang()

    async with engine(database=database, workflows=[stuck], patience="50ms") as opened:
        run = await opened.start(stuck)
        with pytest.raises(Stuck, match=rf"Under way: run {run.id} of stuck@1 \(hang#1\)"):
            await opened.run_until_idle()


async def test_children_threads_and_delays_are_worked_off(database):
    @step
    def here() -> str:
        return threading.current_thread().name

    @workflow
    def in_thread() -> str:
        return here()

    @workflow
    async def parent() -> list[str]:
        return list(await asyncio.gather(in_thread.aio(), in_thread.aio()))

    async with engine(database=database, workflows=[parent, in_thread]) as opened:
        run = await opened.start(parent, delay="10m")
        await opened.run_until_idle()
        assert (await run.info()).state is RunState.PENDING
        names = await opened.result(run)
        assert len(names) == 2
        assert all(name.startswith("stepfast-step") for name in names)


async def test_a_durable_timeout_and_a_hand_back_go_by_the_virtual_clock(database):
    bodies = Bodies()

    @step
    async def not_now() -> int:
        bodies.ran("not_now")
        if bodies["not_now"] == 1:
            raise Later("2h")
        return bodies["not_now"]

    @workflow
    async def in_time() -> int:
        async with timeout("30m"):
            await receive("never")
        return 0

    @workflow
    async def later() -> int:
        return await not_now()

    async with engine(database=database, workflows=[in_time, later]) as opened:
        begun = opened.clock.now()
        with pytest.raises(RunFailed, match="within 30m"):
            await opened.run(in_time)
        assert opened.clock.now() - begun == HOUR_MS // 2
        assert await opened.run(later) == 2
        assert opened.clock.now() - begun == HOUR_MS // 2 + 2 * HOUR_MS


@workflow(timeout="10m")
async def wait_ten_minutes() -> str:
    return await wait_for_word()


@workflow
async def wait_for_whoever_waits() -> str:
    try:
        name, _ = await race(word=wait_ten_minutes(), late=sleep("1h"))
    except RunFailed:
        return "out of time"
    return name


@pytest.mark.parametrize("is_interrupted", [False, True])
async def test_the_clock_is_moved_to_the_deadline_of_a_run_and_not_over_it(database, is_interrupted):
    async with engine(database=database, workflows=[wait_ten_minutes, wait_for_whoever_waits, wait_for_word]) as opened:
        begun = opened.clock.now()
        run = await opened.start(wait_ten_minutes)
        with pytest.raises(RunFailed, match="did not end before its deadline"):
            await opened.result(run)
        assert opened.clock.now() - begun == HOUR_MS // 6
        run = await opened.start(wait_for_whoever_waits)
        await opened.run_until_idle()
        if is_interrupted:
            await opened.crash()
        assert await opened.result(run) == "out of time"
        assert opened.clock.now() - begun == HOUR_MS // 3


async def test_a_run_that_is_out_of_time_takes_its_children_with_it(database):
    async with engine(database=database, workflows=[wait_ten_minutes, wait_for_word]) as opened:
        await opened.start(wait_ten_minutes)
        await opened.run_until_idle()
        opened.clock.advance("10m")
        await opened.run_until_idle()
        states = {view.workflow: view.state for view in await opened.app.runs()}
        assert states == {"wait_ten_minutes": RunState.FAILED, "wait_for_word": RunState.CANCELLED}


async def test_commands_reach_runs_that_wait_and_that_rest_before_a_try(database):
    bodies = Bodies()
    insist = flaky(1, bodies, base="1h")
    async with engine(database=database, workflows=[insist, wait_for_word]) as opened:
        runs = [await opened.start(insist), await opened.start(wait_for_word)]
        await opened.run_until_idle()
        for run in runs:
            await run.pause()
        await opened.run_until_idle()
        assert [(await run.info()).state for run in runs] == [RunState.PAUSED] * 2
        await runs[0].resume()
        await runs[1].cancel()
        assert await opened.result(runs[0]) == 2
        assert (await opened.info(runs[1])).state is RunState.CANCELLED


async def test_a_step_runs_into_its_timeout_when_the_clock_is_moved_while_it_runs(database):
    begun = asyncio.Event()

    @step(timeout="30s", retry=Retry(attempts=1))
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def in_time() -> None:
        await hang()

    async with engine(database=database, workflows=[in_time]) as opened:
        run = await opened.start(in_time)
        driving = asyncio.create_task(opened.run_until_idle())
        await begun.wait()
        opened.clock.advance("30s")
        await driving
        with pytest.raises(RunFailed, match="StepTimeout"):
            await run.result()


async def test_a_run_that_comes_to_rest_with_the_end_of_something_else_is_idle(database):
    @step(retry=Retry(attempts=2, base="100ms", jitter=0))
    async def away() -> None:
        raise ConnectionError

    @step
    async def linger() -> None:
        await asyncio.Event().wait()

    @step
    async def work() -> None:
        for _ in range(1_000):
            await turn()

    @workflow
    async def flow() -> None:
        await asyncio.gather(away(), race(slow=linger(), quick=work()))

    async with engine(database=database, workflows=[flow], patience="2s") as opened:
        run = await opened.start(flow)
        await opened.run_until_idle()
        assert [step.state for step in await opened.steps(run) if step.call.name == "linger"] == [StepState.CANCELLED]


async def test_any_number_of_resting_runs_keeps_no_other_from_its_turn(database):
    @step(retry=Retry(base="1h"))
    async def fail() -> None:
        raise ConnectionError

    @workflow
    async def rest() -> None:
        await fail()

    async with engine(database=database, workflows=[rest, say]) as opened:
        await opened.app.start_many(Start(rest) for _ in range(150))
        last = await opened.start(say, "held")
        await opened.run_until_idle()
        assert await last.result() == "held"


async def test_a_sink_collects_what_happened_in_order_and_once(database):
    sink = CollectingSink()
    async with engine(database=database, workflows=[say], sinks=[sink]) as opened:
        first = await opened.start(say, "one")
        await opened.run_until_idle()
        second = await opened.start(say, "two")
        await opened.run_until_idle()
        assert sink.types(first) == ["queued", "claimed", "started", "step_started", "step_completed", "completed"]
        assert sink.of(first) == await opened.events(first)
        assert sink.events == [*await opened.events(first), *await opened.events(second)]


def test_a_blocking_engine_does_the_same_without_an_event_loop():
    with engine(workflows=[nap, say, wait_for_word]) as opened:
        assert opened.run(nap, "24h") == "rested"
        run = opened.start(wait_for_word)
        opened.run_until_idle()
        opened.signal(run, "word", "held")
        assert opened.result(run) == "held"
        assert opened.info(run).state is RunState.COMPLETED
        assert [step.call.name for step in opened.steps(run)] == ["receive:word"] * 2
        assert opened.wait(run.history()) == opened.events(run)


def test_a_blocking_engine_has_every_name_of_an_engine():
    names = {name for name in dir(Engine) if not name.startswith("_")} - {"open"}
    with engine(workflows=[say]) as opened:
        assert {name for name in names | {"app", "clock"} if not hasattr(opened, name)} == set()
        assert [view.run_id for view in opened.wait(opened.app.runs())] == []


def test_a_blocking_engine_dies_and_goes_on(database):
    with crash_after("echo", database=database, workflows=[say, nap]) as opened:
        assert opened.run(say, "held") == "held"
        assert opened.crashes == 1
        assert "step 'echo'" in opened.died
        run = opened.start(nap, "24h")
        opened.crash_after(1)
        opened.insist(lambda: run.cancel(key="c-1"))
        opened.crash()
        assert opened.info(run).state is RunState.CANCELLED
        assert opened.crashes == 3
        assert opened.store_calls != []


async def test_a_blocking_engine_is_refused_where_an_event_loop_runs():
    with pytest.raises(WrongCall, match="use `async with engine"), engine(workflows=[say]):
        pass
    opening = engine(workflows=[say])
    opened = await asyncio.to_thread(opening.__enter__)
    with pytest.raises(WrongCall, match="take the fixture stepfast_engine"):
        opened.run(say, "held")
    await asyncio.to_thread(opening.__exit__, None, None, None)


def test_a_blocking_engine_that_is_closed_says_so():
    with engine(workflows=[say]) as opened:
        run = opened.start(say, "held")
    for call in (opened.run_until_idle, lambda: opened.start(say, "held"), lambda: opened.info(run)):
        with pytest.raises(StepfastError, match="This engine is closed"):
            call()


@pytest.mark.parametrize("sinks", [CollectingSink(), [print], [CollectingSink(), "sink"]])
def test_what_collects_nothing_is_refused_as_a_sink(sinks):
    with pytest.raises(Invalid, match=r"give a list of CollectingSink\(\)"):
        engine(workflows=[say], sinks=sinks)


async def test_a_second_engine_on_a_database_is_refused_and_the_first_goes_on(postgres_url):
    async with engine(database=postgres_url, workflows=[nap]) as first:
        with pytest.raises(Invalid, match=r"Another engine is open on .* a database of its own"):
            async with engine(database=postgres_url, workflows=[nap]):
                pass
        assert await first.run(nap, "24h") == "rested"
    async with engine(database=postgres_url, workflows=[nap]) as later:
        assert await later.run(nap, "24h") == "rested"


async def test_an_engine_leaves_nothing_behind():
    before = {thread.name for thread in threading.enumerate()}
    async with engine(workflows=[say]) as opened:
        database = opened.app.database.removeprefix("sqlite:///")
        await opened.run(say, "held")
    assert not Path(database).parent.exists()
    assert {thread.name for thread in threading.enumerate() if thread.name.startswith("stepfast-")} <= before


async def test_a_postgresql_database_has_its_own_time_back_afterwards(postgres_url):
    async with engine(database=postgres_url, workflows=[say]) as opened:
        assert await opened.app.now() == opened.clock.now()
        await opened.run(say, "held")
    async with app_on(postgres_url, [say]) as app:
        assert await app.now() > VirtualClock().now() + 24 * HOUR_MS
        assert await (await app.start(say, "held")) == "held"


async def test_a_database_whose_workers_are_alive_keeps_its_time(postgres_url):
    async with engine(database=postgres_url, workflows=[say]):
        pass
    async with app_on(postgres_url, [say]):
        with pytest.raises(Invalid, match="Workers are alive"):
            async with engine(database=postgres_url, workflows=[say]):
                pass


async def test_time_in_a_database_that_was_used_before_does_not_go_back(database):
    async with engine(database=database, workflows=[nap]) as opened:
        waiting = await opened.start(nap, "60d")
        await opened.run(nap, "30d")
        ended_at = opened.clock.now()
    async with engine(database=database, workflows=[nap]) as opened:
        assert opened.clock.now() >= ended_at
        assert await opened.result(waiting.id) == "rested"


async def test_an_engine_has_the_executors_that_it_is_given_and_no_others(database):
    shelf = Domain("shelf")

    @shelf.step("count")
    async def count() -> int:
        return 3

    async with engine(database=database, workflows=[], executors=[shelf]) as opened:
        await opened.app.register("stepfast: 1\nworkflow: counting\nsteps: [{id: n, use: shelf.count}]\n")
        assert await opened.run("counting") == 3
        names = [executor.name for executor in opened.app.executors.list() if executor.kind != "builtin"]
    assert names == ["shelf.count"]


@workflow
async def have_it_said() -> str:
    return await say(await wait_for_word())


async def test_children_of_a_call_that_is_taken_back_are_others_the_next_time(database):
    async with engine(database=database, workflows=[have_it_said, wait_for_word, say]) as opened:
        run = await opened.start(have_it_said)
        await opened.run_until_idle()
        await run.rollback(1)
        await run.resume()
        await opened.run_until_idle()
        (child,) = [view for view in await opened.app.runs("wait_for_word") if view.state is RunState.WAITING]
        await opened.signal(child.run_id, "word", "a")
        assert await opened.result(run) == await opened.run(say, "a")
        assert [event.type for event in await opened.events(run)].count("handed_back") == 0


@workflow
async def ask_far_away() -> str:
    return await have_it_said()


async def test_a_run_that_is_cancelled_is_so_down_to_the_last_of_its_children(database):
    async with engine(database=database, workflows=[ask_far_away, have_it_said, wait_for_word, say]) as opened:
        run = await opened.start(ask_far_away)
        await opened.run_until_idle()
        await run.cancel()
        await opened.run_until_idle()
        assert [view.state for view in await opened.app.runs()] == [RunState.CANCELLED] * 3
