"""Calls at once, against each other and against time: in `def` workflows too, and the same on every replay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from stepfast import (
    Outcome,
    Retry,
    Stepfast,
    WaitTimeout,
    WrongCall,
    each,
    race,
    receive,
    sleep,
    step,
    timeout,
    workflow,
)
from stepfast.kernel.durations import Instant
from stepfast.testing import VirtualClock, engine
from tests.support.apps import PATIENT, Bodies, app_on
from tests.support.turns import turn
from tests.support.virtual_time import (
    Time,
    replayed,
    timed_app,
    until_parked_in,
    until_ran,
    until_sleeping,
    virtual_time,
)


@step
async def triple(number: int) -> int:
    return number * 3


@step
def quadruple(number: int) -> int:
    return number * 4


@workflow
async def tripled(number: int) -> int:
    return await triple(number)


@step(retry=Retry(attempts=1))
async def not_two(number: int) -> int:
    if number == 2:
        raise ValueError("two")
    return number


@pytest.mark.parametrize("over", [triple, quadruple, tripled], ids=["async step", "def step", "workflow"])
async def test_each_blocks_in_a_def_workflow(database, over):
    @workflow
    def flow() -> list[int]:
        results = each.sync(over, range(5), at_once=2)
        receive("go")
        return results

    factor = 4 if over is quadruple else 3
    async with timed_app(database, flow, tripled) as (app, time):
        assert await replayed(await app.start(flow), time) == [factor * number for number in range(5)]


async def test_each_settles_in_a_def_workflow(database):
    @workflow
    def flow() -> list[bool]:
        outcomes: list[Outcome[int]] = each.sync(not_two, range(4), join="settled")
        return [outcome.ok for outcome in outcomes]

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == [True, True, False, True]


async def test_a_race_blocks_in_a_def_workflow(database):
    @workflow
    def flow() -> list[str]:
        first = race.sync(paid=lambda: receive("paid", str), late=lambda: sleep("10m"))
        second = race.sync(never=lambda: receive("never"), late=lambda: sleep("20ms"))
        return [*first, second[0]]

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_parked_in(run, "receive:paid", "sleep")
        await run.signal("paid", "yes")
        await until_parked_in(run, "receive:never", "sleep")
        await time.advance("20ms")
        assert await time.result(run) == ["paid", "yes", "late"]


async def test_a_timeout_is_a_plain_with_in_a_def_workflow(database):
    bodies = Bodies()

    @step
    def note() -> None:
        bodies.ran("note")

    @workflow
    def flow() -> list[str]:
        words = []
        try:
            with timeout("60ms"):
                note()
                receive("never")
        except WaitTimeout as error:
            words.append(error.code)
        with timeout("10m"):
            note()
            words.append(cast(str, receive("word", str)))
        receive("go")
        return words

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await run.signal("word", "in time")
        await until_parked_in(run, "receive:never", "sleep")
        await time.advance("60ms")
        assert await replayed(run, time) == ["E-WAIT-001", "in time"]
    assert bodies["note"] == 2


async def test_a_timeout_calls_off_a_combinator_in_a_def_workflow(database):
    @workflow
    def flow() -> str:
        try:
            with timeout("10m"), timeout("40ms"):
                race.sync(a=lambda: receive("a"), b=lambda: receive("b"))
        except WaitTimeout as error:
            receive("go")
            return str(error)
        return ""

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_parked_in(run, "receive:a", "receive:b", "sleep", "sleep")
        await time.advance("40ms")
        assert "40ms" in await replayed(run, time)
        waiting = [record.call for record in await run.steps() if record.state == "waiting"]
        cancelled = [record.call for record in await run.steps() if record.state == "cancelled"]
    # Both receives and the longer timer were opened, and closed; the shorter timer fired, and the last receive ended.
    assert len(cancelled) == 3
    assert len(waiting) == 5


async def test_a_finally_within_a_timeout_that_ran_out_has_its_step_in_a_def_workflow(database):
    bodies = Bodies()

    @step
    def tidy(what: str) -> None:
        bodies.ran(what)

    def branch() -> Awaitable[None]:
        async def patient() -> None:
            try:
                await receive("never")
            finally:
                await tidy.aio("branch")

        return patient()

    @workflow
    def flow() -> list[str]:
        told = []
        try:
            with timeout("20ms"):
                try:
                    receive("never")
                except Exception:  # noqa: BLE001 - that it is no Exception is what is tested
                    told.append("swallowed")
                finally:
                    tidy("block")
                    tidy("block again")
        except WaitTimeout as error:
            told.append(error.code)
        try:
            with timeout("20ms"):
                race.sync(a=branch)
        except WaitTimeout as error:
            told.append(error.code)
        receive("go")
        return told

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_parked_in(run, "receive:never", "sleep")
        await time.advance("20ms")
        await until_parked_in(run, "receive:never", "sleep")
        await time.advance("20ms")
        assert await replayed(run, time) == ["E-WAIT-001", "E-WAIT-001"]
    assert (bodies["block"], bodies["block again"], bodies["branch"]) == (1, 1, 1)


async def test_the_outer_of_two_timeouts_that_ran_out_together_is_the_one_that_raises(database):
    @workflow
    def flow() -> list[str]:
        told = []
        try:
            with timeout("20ms"):
                try:
                    with timeout("20ms"):
                        receive("never")
                except WaitTimeout:
                    told.append("inner")
        except WaitTimeout:
            told.append("outer")
        receive("go")
        return told

    async with timed_app(database, flow) as (app, time):
        run = await app.start(flow)
        await until_parked_in(run, "receive:never", "sleep", "sleep")
        await time.advance("20ms")
        assert await replayed(run, time) == ["outer"]


async def test_a_def_workflow_that_computes_within_a_timeout_is_not_parked(database):
    gate, reached = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    @workflow
    def flow() -> int:
        with timeout("10m"):
            first = triple.sync(1)
            loop.call_soon_threadsafe(reached.set)
            gate.wait()
            return first + triple.sync(2)

    async with app_on(database, [flow]) as app:
        run = await app.start(flow)
        await reached.wait()
        while len(await run.steps()) < 2:
            pass
        gate.set()
        assert await run == 9
        assert "waiting" not in [event.type for event in await run.history()]


@step(retry=Retry(attempts=1))
async def stumble() -> None:
    raise ValueError("stumbled")


async def race_two(tidying: Callable[[], Any]) -> str:
    return (await race(slow=tidying(), quick=triple(1)))[0]


async def spread_two(tidying: Callable[[], Any]) -> str:
    calls: dict[int, Callable[[], Any]] = {0: tidying, 1: stumble}
    try:
        await each(lambda n: calls[n](), [0, 1])
    except ValueError as error:
        return str(error)
    return "not reached"


def race_two_blocking(tidying: Callable[[], Any]) -> str:
    return race.sync(slow=tidying, quick=lambda: triple(1))[0]


@pytest.mark.parametrize(("combined", "result"), [(race_two, "quick"), (spread_two, "stumbled")])
async def test_what_is_called_off_tidies_up_before_the_code_goes_on(database, combined, result):
    bodies = Bodies()

    @step
    async def note(what: str) -> None:
        bodies.ran(what)

    async def tidying() -> None:
        try:
            await receive("never")
        finally:
            await note("tidied")
            await sleep("1s")
            await note("rested")

    @workflow
    async def flow() -> list[str]:
        found = await combined(tidying)
        return [found, *bodies]

    async with engine(database=database, workflows=[flow]) as opened:
        assert await opened.run(flow) == [result, "tidied", "rested"]
    assert bodies == {"tidied": 1, "rested": 1}


async def test_what_is_called_off_tidies_up_in_a_def_workflow_too(database):
    bodies = Bodies()

    @step
    async def note(what: str) -> None:
        bodies.ran(what)

    async def tidying() -> None:
        try:
            await receive("never")
        finally:
            await note("tidied")

    @workflow
    def flow() -> str:
        return race_two_blocking(tidying)

    async with engine(database=database, workflows=[flow]) as opened:
        assert await opened.run(flow) == "quick"
    assert bodies == {"tidied": 1}


@pytest.mark.parametrize("name", ["each", "race"])
async def test_the_wrong_form_of_a_combinator_names_the_right_one(database, name):
    forms: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "each": (lambda: each(triple, [1]), lambda: each.sync(triple, [1])),
        "race": (lambda: race(), lambda: race.sync(a=lambda: sleep(1))),
    }
    plain, blocking = forms[name]

    @workflow
    def in_def() -> str:
        try:
            plain()
        except WrongCall as error:
            return str(error)
        return ""

    @workflow
    async def in_async() -> str:
        try:
            blocking()
        except WrongCall as error:
            return str(error)
        return ""

    async with app_on(database, [in_def, in_async]) as app:
        assert f"{name}.sync(...)" in await (await app.start(in_def))
        assert f"await {name}(...)" in await (await app.start(in_async))
    with pytest.raises(WrongCall, match="outside"):
        blocking()


async def test_a_plain_with_in_an_async_workflow_names_the_other_form(database):
    @workflow
    async def flow() -> str:
        try:
            with timeout("1m"):
                return ""
        except WrongCall as error:
            return str(error)

    async with app_on(database, [flow]) as app:
        assert "async with timeout" in await (await app.start(flow))


async def test_an_item_whose_code_is_cancelled_from_inside_settles_as_a_failure(database):
    async def odd_one_out(number: int) -> int:
        if number == 1:
            raise asyncio.CancelledError
        return await triple(number)

    @workflow
    async def flow() -> list[str]:
        outcomes = await each(odd_one_out, range(3), join="settled")
        return [str(outcome.value) if outcome.ok else type(outcome.error).__name__ for outcome in outcomes]

    async with app_on(database, [flow]) as app:
        assert await (await app.start(flow)) == ["0", "StepFailed", "6"]


class StuckOnce:
    """A step that hangs the first time it is called."""

    def __init__(self) -> None:
        self.bodies = Bodies()

        @step
        async def stuck_once() -> str:
            self.bodies.ran("stuck_once")
            if self.bodies["stuck_once"] == 1:
                await asyncio.Event().wait()
            return "done"

        self.step = stuck_once

    async def outwaited(self, run: Any, time: Time) -> Any:
        """What a run returns, and replays, that goes on 30 ms after this hangs."""
        await until_ran(run, self.bodies, "stuck_once")
        await until_sleeping(run, time, 30)
        await time.advance("30ms")
        return await replayed(run, time)


async def test_a_step_that_was_called_off_and_called_again_in_its_branch_replays(database):
    once = StuckOnce()

    @workflow
    async def flow() -> str:
        try:
            async with timeout("30ms"):
                await once.step()
        except WaitTimeout:
            pass
        result = await once.step()
        await receive("go")
        return result

    async with timed_app(database, flow) as (app, time):
        assert await once.outwaited(await app.start(flow), time) == "done"
    assert once.bodies["stuck_once"] == 2


async def test_a_step_that_lost_a_race_does_not_take_the_record_of_an_equal_call(database):
    once = StuckOnce()

    @workflow
    async def flow() -> str:
        await race(a=once.step(), late=sleep("30ms"))
        result = await once.step()
        await receive("go")
        return result

    async with timed_app(database, flow) as (app, time):
        assert await once.outwaited(await app.start(flow), time) == "done"
    assert once.bodies["stuck_once"] == 2


async def test_a_call_that_is_called_off_before_it_begins_replays(database):
    bodies = Bodies()

    @step
    async def once() -> str:
        bodies.ran("once")
        return "done"

    @workflow
    async def flow() -> str:
        task = asyncio.ensure_future(once())
        await turn()
        task.cancel()
        result = await once()
        await receive("go")
        return result

    async with timed_app(database, flow) as (app, time):
        assert await replayed(await app.start(flow), time) == "done"
    assert bodies["once"] == 1


async def test_a_signal_that_was_on_its_way_to_a_receive_that_is_called_off_goes_to_the_next(database, monkeypatch):
    reached, let_go, open_gate, looked = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    open_gate.set()

    @step
    async def hold() -> None:
        reached.set()
        await let_go.wait()

    @workflow
    async def flow() -> list[str]:
        name, _ = await race(held=hold(), word=receive("word", str))
        words = [await receive("word", str)]
        await receive("next")
        words.append(await receive("word", str))
        await receive("go")
        return [name, *words]

    async with timed_app(database, flow) as (app, time):
        store = app._open_parts().store
        save, look = store.save, store.look

        async def gated_save(decisions, again=False):
            await open_gate.wait()
            return await save(decisions, again)

        async def noted_look(run_id):
            seen = await look(run_id)
            if seen is not None and seen.inbox:
                looked.set()
            return seen

        monkeypatch.setattr(store, "save", gated_save)
        monkeypatch.setattr(store, "look", noted_look)
        run = await app.start(flow)
        await reached.wait()
        while "waiting" not in [record.state for record in await run.steps()]:
            pass
        open_gate.clear()
        let_go.set()
        await run.signal("word", "first")
        await looked.wait()
        open_gate.set()
        await run.signal("word", "second")
        await until_parked_in(run, "receive:next")
        await run.signal("next")
        assert await replayed(run, time) == ["held", "first", "second"]


class ClockAhead:
    """A process whose clock is far ahead of the store's, and which has not heard of it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.local, self.sleep = clock.local, clock.sleep

    def now(self) -> Instant:
        return Instant(self.local() + 60_000)

    def follow(self, store_now: Instant, asked_at: Instant) -> None:
        """It goes by its own."""


def app_ahead(database: str, flow: Any, time: Time) -> Stepfast:
    """An app whose clock is ahead of the time of its store."""
    return Stepfast(database, workflows=[flow], worker=PATIENT, clock=ClockAhead(time.clock))


async def test_a_sleep_never_ends_before_its_time_by_the_stores_clock(database):
    @workflow
    async def flow() -> str:
        await asyncio.gather(sleep("700ms"), receive("poke"))
        return "rested"

    async with virtual_time(database) as time, app_ahead(database, flow, time) as app:
        begun = time.clock.now()
        run = await app.start(flow)
        await until_parked_in(run, "receive:poke", "sleep")
        await run.signal("poke")
        await until_parked_in(run, "sleep")
        await time.advance("650ms")
        assert await time.result(run) == "rested"
    assert time.clock.now() - begun >= 700


async def test_a_signal_that_comes_in_time_counts_when_the_workers_clock_is_ahead(database):
    @workflow
    async def flow() -> str:
        _, word = await asyncio.gather(receive("poke"), receive("word", str, timeout="30s"))
        return word

    async with virtual_time(database) as time, app_ahead(database, flow, time) as app:
        run = await app.start(flow)
        await until_parked_in(run, "receive:poke", "receive:word")
        await run.signal("poke")
        while (await run.info()).claims < 2:
            pass
        await run.signal("word", "in time")
        assert await time.result(run) == "in time"
