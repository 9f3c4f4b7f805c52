"""Waiting for time and for signals: without holding anything, and without losing anything."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepfast import (
    IllegalMove,
    NotFound,
    RunFailed,
    RunState,
    Stepfast,
    WaitTimeout,
    WrongCall,
    receive,
    sleep,
    step,
    workflow,
)
from tests.support.apps import Bodies, app_on
from tests.support.virtual_time import timed_app, until_parked_in


async def until(app: Stepfast, run_id: str, wanted: RunState) -> None:
    """Wait, by reading it, until a run is in a state."""
    while (await app.get(run_id).info()).state is not wanted:
        pass


async def test_a_sleeping_run_holds_no_slot_and_wakes_by_itself(database):
    @workflow
    async def flow() -> str:
        await sleep("300ms")
        return "rested"

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        assert (await run.info()).worker_id is None
        await time.advance("300ms")
        assert await time.result(run) == "rested"
        types = [event.type for event in await run.history()]
    assert types == [
        "queued",
        "claimed",
        "started",
        "step_waiting",
        "waiting",
        "claimed",
        "step_completed",
        "completed",
    ]


async def test_a_def_workflow_sleeps_too(database):
    bodies = Bodies()

    @step
    def before() -> None:
        bodies.ran("before")

    @workflow
    def flow() -> str:
        before()
        sleep("100ms")
        return "rested"

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await time.advance("100ms")
        assert await time.result(run) == "rested"
    assert bodies["before"] == 1


async def test_a_signal_is_received_by_a_waiting_run(database):
    @workflow
    async def flow() -> int:
        return await receive("amount", int) + 1

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await run.signal("amount", 41)
        assert await run == 42


async def test_a_signal_from_another_process_wakes_the_run(database):
    @workflow
    async def flow() -> str:
        return await receive("word", str)

    async with app_on(database, [flow]) as app, app_on(database, [flow], worker=False) as client:
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await client.get(run.id).signal("word", "hello")
        assert await run == "hello"


async def test_signals_that_come_early_are_kept_and_taken_in_order(database):
    @workflow
    async def flow() -> list[int]:
        return [await receive("n", int) for _ in range(3)]

    async with app_on(database, [flow], worker=False) as client:
        run = await client.start(flow)
        for number in range(3):
            await run.signal("n", number)
    async with app_on(database, [flow]) as app:
        assert await app.get(run.id).result() == [0, 1, 2]


async def test_a_signal_to_a_run_that_is_held_reaches_it_without_a_park(database):
    reached, let_go = asyncio.Event(), asyncio.Event()

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    @workflow
    async def flow() -> str:
        word, _ = await asyncio.gather(receive("word", str), hold())
        return str(word)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await reached.wait()
        await run.signal("word", "hello")
        while "signalled" not in [event.type for event in await run.history()]:
            pass
        let_go.set()
        assert await run == "hello"


@pytest.mark.parametrize("value", [None, False, 0, "", [], {"a": [1]}])
async def test_any_json_value_can_be_sent_and_none_is_a_value(database, value):
    @workflow
    async def flow():
        return [await receive("any")]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run.signal("any", value)
        assert await run == [value]


async def test_a_receive_that_times_out_raises_and_can_be_caught(database):
    @workflow
    async def flow() -> str:
        try:
            return await receive("never", str, timeout="100ms")
        except WaitTimeout as error:
            return error.code

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await time.advance("100ms")
        assert await time.result(run) == "E-WAIT-001"


async def test_a_signal_of_the_wrong_type_fails_the_receive_with_its_name(database):
    @workflow
    async def flow() -> int:
        return await receive("amount", int)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run.signal("amount", "many")
        with pytest.raises(RunFailed, match="amount"):
            await run


async def test_a_signal_to_an_ended_run_is_refused(database):
    @workflow
    async def flow() -> None:
        return None

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await run
        with pytest.raises(IllegalMove, match="completed"):
            await run.signal("late", 1)


async def test_a_signal_to_no_run_is_refused(database):
    async with app_on(database, []) as app:
        with pytest.raises(NotFound):
            await app.get("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22").signal("x", 1)


async def test_the_same_key_delivers_a_signal_once(database):
    @workflow
    async def flow() -> list[str]:
        return [await receive("n", str), await receive("last", str)]

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        for _ in range(3):
            await run.signal("n", "once", key="k")
        await run.signal("last", "end")
        assert await run == ["once", "end"]


async def test_a_finally_around_a_wait_runs_its_step_once_at_the_end(database):
    bodies = Bodies()

    @step
    async def tidy() -> None:
        bodies.ran("tidy")

    @workflow
    async def flow() -> str:
        try:
            for _ in range(3):
                await receive("go")
        finally:
            await tidy()
        return "done"

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        for _ in range(3):
            await until(app, run.id, RunState.WAITING)
            await run.signal("go")
            while (await run.info()).state is RunState.WAITING:
                pass
        assert await run == "done"
    assert bodies["tidy"] == 1


async def test_a_bare_except_around_a_wait_does_not_act_while_parking(database):
    bodies = Bodies()

    @step
    async def act() -> None:
        bodies.ran("act")

    @workflow
    async def flow() -> str:
        try:
            await receive("go")
        except BaseException:
            await act()
            raise
        return "done"

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await run.signal("go")
        assert await run == "done"
    assert bodies["act"] == 0


async def test_the_first_of_a_wait_and_a_sleep_is_the_same_on_every_replay(database):
    bodies = Bodies()

    @step
    async def note(word: str) -> None:
        bodies.ran(word)

    @workflow
    async def flow() -> str:
        calls = {asyncio.ensure_future(receive("paid", str)), asyncio.ensure_future(sleep("10m"))}
        done, rest = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for call in rest:
            call.cancel()
        await note("decided")
        await sleep("50ms")
        return str(done.pop().result())

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until(app, run.id, RunState.WAITING)
        await run.signal("paid", "yes")
        assert await time.result(run) == "yes"
    assert bodies["decided"] == 1


async def test_a_wait_in_a_steps_body_is_refused(database):
    @step
    async def waits() -> None:
        await sleep(1)

    @workflow
    async def flow() -> str:
        try:
            await waits()
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        assert "sleep" in await run
        assert len(await run.steps()) == 1


async def test_a_thousand_sleeping_runs_all_wake(database):
    @workflow
    async def flow(number: int) -> int:
        await sleep("200ms")
        return number

    async with timed_app(database, flow) as (app, time):
        runs = await asyncio.gather(*(app.start(flow, number) for number in range(1_000)))
        while (await app.queues.get("default")).waiting < 1_000:
            pass
        await time.advance("200ms")
        while await app.queues.list():
            await time.advance("1ms")
        assert await asyncio.gather(*runs) == list(range(1_000))


def looks_held_up(app: Any, until: asyncio.Event) -> list[int]:
    """Lets a run read what has come for it only later; the list gets how many readings are under way, each time."""
    look, under_way, counts = app._parts.store.look, [], []

    async def late_look(run_id):
        under_way.append(run_id)
        counts.append(len(under_way))
        await until.wait()
        try:
            return await look(run_id)
        finally:
            under_way.remove(run_id)

    app._parts.store.look = late_look
    return counts


async def test_signals_that_come_while_a_run_reads_its_mail_are_read_once_together(database):
    """A thousand questions for one run would keep everybody else from the few lines that a store has."""
    began, may_end, may_read = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @step
    async def hold() -> None:
        began.set()
        await may_end.wait()

    @workflow
    async def flow() -> list[int]:
        await hold()
        return [await receive("n", int) for _ in range(20)]

    async with app_on(database, [flow]) as app:
        counts = looks_held_up(app, until=may_read)
        run = await app.start(flow)
        await began.wait()
        for number in range(20):
            await run.signal("n", number)
        may_read.set()
        may_end.set()
        assert await run.result(timeout="60s") == list(range(20))
    assert max(counts) == 1


@pytest.mark.parametrize("comes", ["before it begins", "while it is parked", "after an outage"])
async def test_what_comes_for_several_is_for_the_one_that_asked_first(database, comes):
    async def word(limit: str | None) -> str:
        try:
            return await receive("word", str, timeout=limit)
        except WaitTimeout:
            return "nothing"

    @workflow
    async def flow() -> list[str]:
        return [*await asyncio.gather(word(None), word("1m"), word("30s"))]

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow, delay="1s")
        if comes == "before it begins":
            await run.signal("word", "first")
        await time.advance("1s")
        waits = ["receive:word"] * (2 if comes == "before it begins" else 3)
        await until_parked_in(run, *waits)
        if comes == "after an outage":
            await run.pause()
        if comes != "before it begins":
            await run.signal("word", "first")
        await time.advance("2m")
        if comes == "after an outage":
            await run.resume()
        assert await time.result(run) == ["first", "nothing", "nothing"]
