"""PostgreSQL that dies, stays away, or cannot be reached by one worker."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from stepfast import step, workflow
from stepfast.worker import lease
from tests.faults.server import own_server
from tests.faults.test_kill import bodies_run_after_their_result_was_seen
from tests.stores.postgres_proxies import Proxy, Streams
from tests.support.apps import MORTAL, app_on, migrated
from tests.support.postgres import drop_database, fresh_database

RUNS, STEPS = 100, 5


@pytest.fixture
async def server():
    with own_server() as server:
        await migrated(server.url)
        yield server


class Wall(Proxy):
    """Passes everything on; while it is shut nothing gets through, and nobody is told."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.open = asyncio.Event()
        self.open.set()

    async def serve(self, client: Streams) -> None:
        server = await self.dial()
        await asyncio.gather(self._pass_on(client[0], server[1]), self._pass_on(server[0], client[1]))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.open.wait()
            writer.write(data)
        writer.close()


class Visits:
    """When each execution of a body began and ended; the first stays until it is sent away."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.left = asyncio.Event()
        self.spans: list[list[float]] = []

    async def stay(self) -> None:
        span = [time.monotonic()]
        self.spans.append(span)
        self.begun.set()
        try:
            if len(self.spans) == 1:
                await asyncio.Event().wait()
        finally:
            span.append(time.monotonic())
            self.left.set()

    @property
    def overlap(self) -> bool:
        first, second = self.spans[:2]
        return len(first) == 1 or second[0] < first[1]


@pytest.fixture
def visits():
    return Visits()


@pytest.fixture
def flow(visits):
    @step
    async def stays() -> str:
        await visits.stay()
        return "done"

    @workflow
    async def visit() -> str:
        return await stays()

    return visit


async def test_runs_under_way_survive_a_killed_server_and_their_worker_goes_on(server):
    trace: list[tuple[int, int]] = []
    is_under_load, is_dead = asyncio.Event(), asyncio.Event()

    @step
    async def work(number: int, index: int) -> int:
        trace.append((number, index))
        if len(trace) > RUNS * STEPS // 3:
            is_under_load.set()
        if index == STEPS - 2:
            await is_dead.wait()
        return index

    @workflow
    async def chain(number: int) -> int:
        return sum([await work(number, index) for index in range(STEPS)])

    async with app_on(server.url, [chain], MORTAL) as app:
        runs = await asyncio.gather(*(app.start(chain, number) for number in range(RUNS)))
        await is_under_load.wait()
        await asyncio.to_thread(server.kill)
        is_dead.set()
        await asyncio.to_thread(server.start)
        results = await asyncio.gather(*(run.result(timeout="60s") for run in runs))
    assert results == [sum(range(STEPS))] * RUNS
    assert bodies_run_after_their_result_was_seen(trace) == []
    assert max(Counter(trace).values()) <= 2


async def test_a_worker_stops_by_itself_when_the_server_stays_away_and_comes_back_with_it(server, visits, flow):
    async with app_on(server.url, [flow], MORTAL) as app:
        run = await app.start(flow)
        await visits.begun.wait()
        await asyncio.to_thread(server.kill)
        # The body is sent away while the server is still dead: nothing but the worker's own deadline can do that.
        await visits.left.wait()
        await asyncio.to_thread(server.start)
        assert await run.result(timeout="60s") == "done"
    assert len(visits.spans) == 2
    assert not visits.overlap


async def a_body_overlaps_when_its_worker_is_cut_off(postgres_server: str, visits: Visits, flow) -> bool:
    url = await fresh_database(postgres_server)
    await migrated(url)
    wall = Wall(url)
    async with wall.listening() as cut_off_url, app_on(cut_off_url, [flow], MORTAL) as cut_off:
        run = await cut_off.start(flow)
        await visits.begun.wait()
        async with app_on(url, [flow], MORTAL) as other:
            wall.open.clear()
            assert await other.get(run.id).result(timeout="60s") == "done"
        overlap = visits.overlap
        wall.open.set()
    await drop_database(url, postgres_server)
    return overlap


async def test_a_worker_that_is_cut_off_has_stopped_before_another_takes_its_run(postgres_server, visits, flow):
    assert not await a_body_overlaps_when_its_worker_is_cut_off(postgres_server, visits, flow)


async def test_the_broken_twin_without_a_deadline_of_its_own_goes_on_beside_the_new_holder(
    postgres_server, visits, flow, monkeypatch
):
    monkeypatch.setattr(lease, "OWN_DEADLINE", 1_000)
    assert await a_body_overlaps_when_its_worker_is_cut_off(postgres_server, visits, flow)
