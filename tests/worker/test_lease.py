"""The lease of a worker: what it makes of the answers to its heartbeats."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from stepfast import RunState, WorkerSettings, workflow
from stepfast.kernel.durations import Instant
from stepfast.kernel.errors import StoreUnavailable
from stepfast.kernel.exchange import Beat, Holding
from stepfast.kernel.ids import RunId, WorkerId
from tests.support.apps import app_on
from tests.support.holding import Hold


@workflow
async def nothing() -> None:
    return None


async def test_a_heartbeat_answered_while_its_worker_leaves_does_not_bring_it_back(database):
    """It may say that the worker is dead, for that is just what it became; a new lease would beat for ever."""
    before = set(threading.enumerate())
    async with app_on(database, [nothing]) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        lease = worker._lease
    lease._hear(Beat(Instant(0), False, []), 1)
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "stepfast-renewal"))
    assert "stepfast-heartbeat" not in [thread.name for thread in set(threading.enumerate()) - before]


async def test_a_worker_that_was_buried_says_under_which_id_it_goes_on(database, caplog):
    caplog.set_level(logging.INFO, "stepfast")
    async with app_on(database, [nothing]) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        before, lease = worker.worker_id, worker._lease
        lease._hear(Beat(Instant(0), False, []), 1)
        assert lease._renewal is not None
        await lease._renewal
        assert before != worker.worker_id
        assert f"worker_returned worker_id={worker.worker_id} before={before}" in caplog.text


class Returned:
    """A store that only notes what it is given back."""

    def __init__(self) -> None:
        self.runs: list[RunId] = []

    async def give_back(self, worker_id: str, run_ids: list[RunId]) -> None:
        self.runs += run_ids


async def comparing(database: str) -> tuple[Any, Returned, SimpleNamespace]:
    """The lease of a worker that has left, on a store that notes what it gives back, and its heartbeat."""
    async with app_on(database, [nothing]) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        lease: Any = worker._lease
    lease._store, lease._heartbeat = store, heartbeat = Returned(), SimpleNamespace(sent=100, kept_from=0.0)
    return lease, store, heartbeat


async def test_a_run_that_nobody_here_knows_is_given_back_although_messages_come_for_it_all_the_time(database):
    lease, store, heartbeat = await comparing(database)
    for heartbeat.sent in (101, 102):
        await lease.give_back_unknown({Holding(RunId("a"), 1, heartbeat.sent, False)}, heartbeat.sent)
    assert store.runs == ["a"]


async def test_a_run_that_was_leased_anew_meanwhile_is_not_given_back(database):
    lease, store, heartbeat = await comparing(database)
    for heartbeat.sent in (101, 102):
        await lease.give_back_unknown({Holding(RunId("a"), heartbeat.sent, 0, False)}, heartbeat.sent)
    assert store.runs == []


async def test_answers_that_waited_behind_a_blocked_loop_give_no_run_back(database):
    """The answer to the claim waits there too: it brings the runs that the store lists and nobody here knows yet."""
    lease, store, heartbeat = await comparing(database)
    unknown = {Holding(RunId("a"), 1, 0, False)}
    for beat in (98, 99, 100):
        await lease.give_back_unknown(unknown, beat)
    assert store.runs == []
    heartbeat.sent = 101
    await lease.give_back_unknown(unknown, 101)
    assert store.runs == ["a"]


async def test_runs_that_are_lost_for_two_reasons_are_told_of_once(database, caplog):
    """A worker that was frozen sees that its time is over, and hears that it was buried, in either order."""
    hold = Hold()

    @workflow
    async def held() -> None:
        await hold.step()

    async with app_on(database, [held]) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        await app.start(held)
        await hold.reached.wait()
        worker._lease.lost("no heartbeat was answered")
        worker._lease._hear(Beat(Instant(0), False, []), 1)
    lost = [record.getMessage() for record in caplog.records if "worker_lost_runs" in record.getMessage()]
    assert len(lost) == 1, lost
    assert "runs=1 " in lost[0]


async def test_an_answer_that_waits_behind_a_blocked_loop_keeps_the_lease(database):
    """The worker may look at its lease before it hears: what was answered meanwhile counts all the same."""
    lost: list[str] = []
    async with app_on(database, [nothing], worker=WorkerSettings(heartbeat_ms=10)) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        lease: Any = worker._lease
        lease.lost = lost.append
        watch = lease.watch()
        rest = watch.send(None)
        lease._kept_from -= 1_000
        sent = lease.beats_sent
        while lease.beats_sent < sent + 2:  # holds up the loop until one heartbeat was sent and answered
            pass
        rest.set_result(None)
        watch.send(None)
        watch.close()
    assert lost == []


async def test_a_pass_of_upkeep_keeps_the_lease_as_a_heartbeat_does(database):
    """A server that goes away shortly before a heartbeat is due would otherwise cost a worker its runs sooner."""
    async with app_on(database, [nothing], worker=WorkerSettings(lease_ms=1_000, upkeep_ms=10)) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        lease: Any = worker._lease
        begun = time.monotonic()
        while lease._kept_from <= begun:
            await app.workers.list()
        assert lease.kept_from >= lease._kept_from


class Away:
    """A store that answers no heartbeat."""

    async def beat(self, worker_id: str) -> Beat:
        raise StoreUnavailable("away")


async def test_a_worker_that_leaves_lets_go_of_steps_under_way_when_its_lease_is_over(database):
    """A grace time may be longer than a lease: others may take the runs of a worker that nobody hears of."""
    hold = Hold()

    @workflow
    async def held() -> None:
        await hold.step()

    settings = WorkerSettings(lease_ms=500, upkeep_ms=3_600_000)
    async with app_on(database, [held], worker=settings) as app:
        assert app._parts is not None
        (worker,) = app._parts._workers
        lease: Any = worker._lease
        run = await app.start(held)
        await hold.reached.wait()
        lease._heartbeat._store = Away()
        async with asyncio.timeout(30):
            await worker.stop(grace_ms=3_600_000)
        assert (await run.info()).state is RunState.RUNNING


async def test_what_an_earlier_life_of_a_worker_did_keeps_no_lease(database):
    lease, _, _ = await comparing(database)
    kept_from = lease.kept_from
    lease.keep(WorkerId("another"), kept_from + 1)
    assert lease.kept_from == kept_from
    lease.keep(lease.worker_id, kept_from + 1)
    assert lease.kept_from == kept_from + 1


async def hearing(database: str) -> tuple[Any, SimpleNamespace]:
    """The lease of a worker that has left and may bury others, and its heartbeat."""
    lease, _, heartbeat = await comparing(database)
    lease._settings, lease.heard = WorkerSettings(), lambda beat, number: None
    for number in range(97, 101):
        hear(lease, number)
    assert lease.may_bury
    return lease, heartbeat


def hear(lease: Any, number: int) -> None:
    lease._hear(Beat(Instant(0), True, []), number)


def jump(monkeypatch: pytest.MonkeyPatch) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 86_400)


async def test_after_its_clock_has_jumped_a_worker_buries_nobody_until_all_had_time_to_beat(database, monkeypatch):
    """By the new time everybody who shares the clock looks dead, the worker itself too."""
    lease, heartbeat = await hearing(database)
    jump(monkeypatch)
    may_bury = [lease.may_bury]
    for heartbeat.sent in (101, 102, 103):
        hear(lease, heartbeat.sent)
        may_bury.append(lease.may_bury)
    assert may_bury == [False, False, False, True]


async def test_answers_that_waited_while_the_clock_jumped_do_not_let_a_worker_bury(database, monkeypatch):
    """Behind a blocked loop they are heard all at once: in between nobody had time to beat."""
    lease, heartbeat = await hearing(database)
    heartbeat.sent = 105
    jump(monkeypatch)
    for number in range(101, 106):
        hear(lease, number)
    assert not lease.may_bury
    for heartbeat.sent in (106, 107):
        hear(lease, heartbeat.sent)
    assert lease.may_bury


async def test_a_worker_that_has_heard_nothing_for_a_while_buries_nobody_until_all_had_time_to_beat(database):
    """Its upkeep may reach a store that comes back before the heartbeats of others do."""
    lease, heartbeat = await hearing(database)
    lease._heard_at -= 2 * lease._settings.heartbeat_ms / 1_000
    may_bury = [lease.may_bury]
    for heartbeat.sent in (101, 102, 103):
        hear(lease, heartbeat.sent)
        may_bury.append(lease.may_bury)
    assert may_bury == [False, False, False, True]
