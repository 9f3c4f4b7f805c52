"""Runs that were put off: their worker looks when their time has come, however seldom it looks else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from stepfast import Retry, Stepfast, WaitTimeout, receive, sleep, step, workflow
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import Claim, Claimed
from stepfast.kernel.states import RunState
from stepfast.testing import VirtualClock
from stepfast.worker.claims import ClaimLoop
from stepfast.worker.held import HeldRuns
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.waking import WakeUp
from tests.support.apps import PATIENT, Bodies
from tests.support.turns import until_idle
from tests.support.virtual_time import Time, until_sleeping, virtual_time
from tests.worker.test_claims import begin_none

SELDOM = replace(PATIENT, poll_ms=24 * 3_600_000)
MINUTE = Retry(attempts=2, base="1m", factor=1, jitter=0)


def sleeping() -> Any:
    @workflow
    async def flow() -> str:
        await sleep("1m")
        return "done"

    return flow


def waiting_for_a_word() -> Any:
    @workflow
    async def flow() -> str:
        try:
            await receive("word", timeout="1m")
        except WaitTimeout:
            return "done"
        return "heard"

    return flow


def retried_step() -> Any:
    bodies = Bodies()

    @step(retry=MINUTE)
    async def fragile() -> str:
        bodies.ran("fragile")
        if bodies["fragile"] == 1:
            raise ConnectionError
        return "done"

    @workflow
    async def flow() -> str:
        return await fragile()

    return flow


def retried_workflow() -> Any:
    bodies = Bodies()

    @workflow(retry=MINUTE)
    async def flow() -> str:
        bodies.ran("flow")
        if bodies["flow"] == 1:
            raise ConnectionError
        return "done"

    return flow


async def until_put_off(app: Stepfast, run: Any, time: Time) -> None:
    """Wait, by reading it, until a run waits, nobody holds it, and its worker has heard of it."""
    store = app._open_parts().store
    while (await run.info()).state is RunState.RUNNING or not (look := await store.look(run.id)) or not look.waits:
        pass
    # A store shows what it has saved before the worker is answered, and a delay is counted from that answer on.
    await until_sleeping(run, time, 60_000)


@pytest.mark.parametrize("put_off", [sleeping, waiting_for_a_word, retried_step, retried_workflow])
async def test_a_run_goes_on_when_its_time_has_come_although_nobody_polls(database, put_off: Callable[[], Any]):
    flow = put_off()
    async with (
        virtual_time(database) as time,
        Stepfast(database, workflows=[flow], worker=SELDOM, clock=time.clock) as app,
    ):
        run = await app.start(flow)
        await until_put_off(app, run, time)
        await time.advance("1m")
        assert await run == "done"


async def resting(wake_up: WakeUp) -> asyncio.Task[None]:
    rest = asyncio.create_task(wake_up.rest(60_000))
    await until_idle()
    return rest


async def test_a_rest_is_made_shorter_while_it_lasts():
    clock = VirtualClock()
    wake_up = WakeUp(clock)
    rest = await resting(wake_up)
    wake_up.rest_until(clock.now() + 1_000)
    await until_idle()
    clock.advance("1s")
    await until_idle()
    assert rest.done()


async def test_a_rest_is_never_made_longer():
    clock = VirtualClock()
    wake_up = WakeUp(clock)
    rest = await resting(wake_up)
    wake_up.rest_until(clock.now() + 120_000)
    await until_idle()
    clock.advance("1m")
    await until_idle()
    assert rest.done()


async def test_a_rest_that_begins_just_before_its_end_has_come_ends_then():
    clock = VirtualClock()
    wake_up = WakeUp(clock)
    rest = await resting(wake_up)
    wake_up.rest_until(clock.now() + 1_000)
    clock.advance("1s")
    await until_idle()
    assert rest.done()


class SetBack(VirtualClock):
    """A clock that is set back by an hour after it was looked at for the first time."""

    _looks = 0

    def now(self) -> Instant:
        self._looks += 1
        return Instant(super().now() - (3_600_000 if self._looks > 1 else 0))


async def test_a_clock_that_is_set_back_as_a_rest_begins_does_not_make_it_longer():
    clock = SetBack()
    rest = asyncio.create_task(WakeUp(clock).rest(1_000))
    await until_idle()
    clock.advance("1s")
    await until_idle()
    assert rest.done()


class Late:
    """A store that says of a run when it is due, while time goes on; what is due is in other hands."""

    def __init__(self, clock: VirtualClock, due_in_ms: int) -> None:
        self._clock = clock
        self._due_at = Instant(clock.now() + due_in_ms)

    async def claim(self, request: Claim) -> Claimed:
        self._clock.advance("1s")
        return Claimed([], self._due_at)


async def pause_after(due_in_ms: int) -> int:
    """How long a worker rests that asked while a run was due so soon, and had its answer a second later."""
    clock, settings = VirtualClock(), WorkerSettings(queues=("q",))
    store: Any = Late(clock, due_in_ms)
    return await ClaimLoop(store, clock, settings, HeldRuns(settings), lambda: ["w@1"], begin_none).look()


async def test_a_run_whose_time_has_come_while_the_answer_was_on_its_way_is_asked_for_at_once():
    assert await pause_after(1_000) == 0


async def test_a_run_that_was_due_already_and_is_in_other_hands_is_asked_for_after_a_moment():
    assert await pause_after(0) == 1
