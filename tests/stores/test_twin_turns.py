"""No ready run waits for ever behind others: higher priorities that keep coming, a busy tenant, a busy queue."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stepfast import RunState, workflow
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.durations import Instant
from stepfast.kernel.exchange import QueueRoom
from stepfast.kernel.ids import WorkerId
from stepfast.stores.sqlite import starting
from stepfast.testing import VirtualClock
from stepfast.worker import lease
from stepfast.worker.claims import ClaimLoop
from stepfast.worker.held import HeldRuns
from stepfast.worker.settings import WorkerSettings
from stepfast.worker.shares import Order, Shares
from tests.stores.harness import HOUR_MS, Harness, end
from tests.support.apps import app_on
from tests.support.guards import rewrite, url_of
from tests.support.workflows import say

PRIORITY = 4
BETWEEN_MS = HOUR_MS // 2
LOOKS = 30


@workflow
async def other() -> None:
    """What the workers of another app execute."""


async def hours_behind_higher_priorities(harness: Harness) -> float | None:
    """How long a run waits while as many runs of a higher priority come as can be taken; None: longer than a day."""
    await harness.enrol()
    patient = await harness.start()
    for number in range(48):
        await harness.start(priority=PRIORITY)
        (run,) = await harness.claim(room=1)
        if run.run_id == patient.run_id:
            return number * BETWEEN_MS / HOUR_MS
        await harness.save(end(run))
        await harness.advance(BETWEEN_MS)
    return None


async def test_a_run_waits_an_hour_for_each_level_above_it_and_no_longer(harness):
    assert await hours_behind_higher_priorities(harness) == PRIORITY


async def test_the_broken_twin_whose_levels_are_worth_a_century_never_comes_to_it(harness, monkeypatch):
    monkeypatch.setattr(starting, "PRIORITY_MS", 10**12)
    await rewrite(url_of(harness), "start_runs", ("3600000::bigint", "1000000000000::bigint"))
    assert await hours_behind_higher_priorities(harness) is None


class BusyWorker:
    """A worker with one slot whose runs end at once, while one tenant brings a new run for each that is taken."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        settings = WorkerSettings(queues=("default",), concurrency=1)
        clock = VirtualClock(Instant(harness.now))
        codes = ["order@1"]
        self._claims = ClaimLoop(harness.store, clock, settings, HeldRuns(settings), lambda: codes, self._begin)
        self._claims.worker_id = WorkerId("w1")
        self._taken: list[str] = []

    async def looks_until(self, tenant: str) -> int | None:
        """How many looks it takes until a run of this tenant is begun; None: more than many."""
        for look in range(1, LOOKS + 1):
            await self._claims.look()
            if tenant in self._taken:
                return look
        return None

    async def _begin(self, runs: list[HeldRun]) -> None:
        for run in runs:
            self._taken.append(run.tenant)
            await self._harness.save(end(run))
        await self._harness.start_many(len(runs), tenant="busy")


async def looks_behind_a_busy_tenant(harness: Harness) -> int | None:
    await harness.enrol()
    await harness.start_many(5, tenant="busy")
    await harness.start(tenant="quiet")
    return await BusyWorker(harness).looks_until("quiet")


async def test_a_busy_tenant_keeps_another_waiting_for_one_turn(harness):
    assert await looks_behind_a_busy_tenant(harness) == 2


async def test_the_broken_twin_that_always_begins_with_the_first_tenant_never_comes_to_it(harness, monkeypatch):
    take = ClaimLoop._take

    async def take_and_forget_whose_turn_it_was(self, runs):
        await take(self, runs)
        self._cursors = dict.fromkeys(self._cursors, "")

    monkeypatch.setattr(ClaimLoop, "_take", take_and_forget_whose_turn_it_was)
    assert await looks_behind_a_busy_tenant(harness) is None


async def looks_until_a_suspect(harness: Harness) -> int | None:
    """The same for a run whose first worker has died, behind a tenant that keeps bringing fresh ones."""
    await harness.held("w9", tenant="quiet")
    await harness.bury("w9")
    await harness.enrol()
    await harness.start_many(5, tenant="busy")
    return await BusyWorker(harness).looks_until("quiet")


async def test_fresh_runs_keep_a_suspect_waiting_for_one_turn(harness):
    assert await looks_until_a_suspect(harness) == 2


async def test_the_broken_twin_that_asks_for_no_suspects_never_comes_to_it(harness, monkeypatch):
    request = ClaimLoop._request

    def request_fresh_runs_alone(self):
        self.suspects_wait = False
        return request(self)

    monkeypatch.setattr(ClaimLoop, "_request", request_fresh_runs_alone)
    assert await looks_until_a_suspect(harness) is None


class ShortLived:
    """A worker that takes a few runs in its life, while one queue brings a new run for each that is taken."""

    def __init__(self, harness: Harness, max_runs: int, order: Order) -> None:
        self._harness = harness
        settings = WorkerSettings(queues=("busy", "quiet"), max_runs=max_runs)
        clock, codes = VirtualClock(Instant(harness.now)), ["order@1"]
        self._claims = ClaimLoop(harness.store, clock, settings, HeldRuns(settings), lambda: codes, self._begin)
        self._claims.worker_id = WorkerId("w1")
        self._claims.shares = Shares(order)
        self.taken: list[str] = []

    async def live(self) -> None:
        while not self._claims.spent.is_set():
            await self._claims.look()

    async def _begin(self, runs: list[HeldRun]) -> None:
        for run in runs:
            self.taken.append(run.queue)
            await self._harness.save(end(run))
        await self._harness.start_many(len(runs), queue="busy")


def in_turn(number: int) -> Order:
    """Begin with the next queue in each life, as a random order does sooner or later."""

    def order(rooms: Sequence[QueueRoom]) -> list[QueueRoom]:
        first = number % len(rooms)
        return [*rooms[first:], *rooms[:first]]

    return order


def always_the_same(number: int) -> Order:
    return list


async def lives_behind_a_busy_queue(harness: Harness, max_runs: int, order=in_turn) -> int | None:
    """How many workers come and go until one takes a run of the quiet queue; each takes exactly what it may."""
    await harness.enrol()
    await harness.start_many(30, queue="busy")
    await harness.start(queue="quiet")
    for life in range(LOOKS):
        worker = ShortLived(harness, max_runs, order(life))
        await worker.live()
        assert len(worker.taken) == max_runs
        if "quiet" in worker.taken:
            return life + 1
    return None


@pytest.mark.parametrize(("max_runs", "lives"), [(1, 2), (2, 1), (20, 1)])
async def test_a_busy_queue_keeps_another_waiting_for_few_workers_of_few_runs(harness, max_runs, lives):
    assert await lives_behind_a_busy_queue(harness, max_runs) == lives


async def test_the_broken_twin_that_always_begins_with_the_first_queue_never_comes_to_it(harness):
    assert await lives_behind_a_busy_queue(harness, 1, always_the_same) is None


async def lives_behind_a_busy_tenant(url: str) -> int | None:
    """How many workers of one run come and go until one takes a quiet tenant's, while a busy one brings more and more.

    Between them come those of another app, whose runs are all of one tenant.
    """
    async with app_on(url, [say], worker=False) as app, app_on(url, [other], worker=False) as neighbour:
        quiet = await app.start(say, "quiet", tenant="quiet")
        for life in range(LOOKS):
            await app.start(say, "busy", tenant="busy")
            await app.serverless().process_available(max_runs=1)
            if (await quiet.info()).state is RunState.COMPLETED:
                return life + 1
            await neighbour.start(other, tenant="zeal")
            await neighbour.serverless().process_available(max_runs=1)
    return None


async def test_a_busy_tenant_keeps_another_waiting_for_one_worker_of_one_run(database):
    assert await lives_behind_a_busy_tenant(database) == 2


async def test_the_broken_twin_whose_workers_all_begin_with_the_first_tenant_never_comes_to_it(database, monkeypatch):
    monkeypatch.setattr(ClaimLoop, "begin_after", lambda self, served: None)
    assert await lives_behind_a_busy_tenant(database) is None


async def test_the_broken_twin_whose_workers_go_on_after_those_of_other_apps_never_comes_to_it(database, monkeypatch):
    monkeypatch.setattr(lease, "_crew", lambda codes, tenants: "everybody")
    assert await lives_behind_a_busy_tenant(database) is None


async def lives_behind_a_tenant_that_kills(harness: Harness, crew: str = "crew") -> int | None:
    """How many workers of one slot are killed by a tenant's runs until one takes another tenant's."""
    await harness.start_many(LOOKS, tenant="deadly")
    await harness.start(tenant="quiet")
    for life in range(LOOKS):
        name = f"w{life}"
        turns = await harness.turns(name, crew=crew.format(life))
        (run,) = await harness.claim(worker=name, room=1, after=turns.get("default", ""))
        if run.tenant == "quiet":
            return life + 1
    return None


async def test_a_tenant_whose_runs_kill_their_workers_keeps_another_waiting_for_one(harness):
    assert await lives_behind_a_tenant_that_kills(harness) == 2


async def test_the_broken_twin_that_hears_nothing_of_the_killed_never_comes_to_it(harness):
    assert await lives_behind_a_tenant_that_kills(harness, "{}") is None
