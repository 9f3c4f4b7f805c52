"""S0's drain: a queue is worked off once, by a call and by a command. By HTTP it comes with the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from stepfast import RunState, Stepfast
from stepfast.serverless import Serverless
from stepfast.worker.settings import WorkerSettings
from tests.cli.office import WORKFLOWS, asking, checkout, failing
from tests.cli.processes import stepfast

OFFICE = "tests.cli.office:app"


@pytest.fixture
async def client(database: str) -> AsyncIterator[Stepfast]:
    async with Stepfast(database, workflows=WORKFLOWS, worker=False) as app:
        yield app


@pytest.fixture
def host(database: str) -> Serverless:
    return Stepfast(database, workflows=WORKFLOWS, worker=False).serverless()


async def test_a_drain_executes_everything_that_is_ready_and_says_how_much(client, host):
    for order in ("a", "b"):
        await client.start(checkout, order)
    await client.start(failing)
    assert await host.process_available() == (3, 2, 1)
    assert await client.queues.list() == []


async def test_a_drain_of_nothing_does_nothing(host):
    assert await host.process_available() == (0, 0, 0)


async def test_a_drain_takes_no_more_runs_than_it_may(client, host):
    for order in ("a", "b", "c"):
        await client.start(checkout, order)
    assert (await host.process_available(max_runs=2)).processed == 2
    assert len(await client.runs(state="pending")) == 1


async def test_drains_that_take_few_runs_leave_no_queue_out(client, database):
    host = Stepfast(database, workflows=WORKFLOWS, worker=WorkerSettings(queues=("busy", "quiet"))).serverless()
    for order in ("a", "b", "c"):
        await client.start(checkout, order, queue="busy")
    quiet = await client.start(checkout, "d", queue="quiet")
    assert (await host.process_available(max_runs=2)).processed == 2
    assert (await quiet.info()).state is RunState.COMPLETED


async def test_a_drain_leaves_what_is_not_due(client, host):
    later = await client.start(checkout, "a", delay="1h")
    assert (await host.process_available()).processed == 0
    assert (await later.info()).state is RunState.PENDING


async def test_a_drain_leaves_a_waiting_run_waiting(client, host):
    run = await client.start(asking)
    assert await host.process_available() == (1, 0, 0)
    assert (await run.info()).state is RunState.WAITING


async def test_a_drain_leaves_no_worker_behind(client, host):
    await client.start(checkout, "a")
    await host.process_available()
    assert [view for view in await client.workers.list() if view.dead_at is None] == []


async def drained(database: str, *options: str) -> int:
    arguments = ("worker", "--drain", "--app", OFFICE, "--database", database, *options)
    return (await asyncio.to_thread(stepfast, *arguments)).returncode


async def test_the_command_drains_one_queue_and_leaves_the_others(client, database):
    parse = await client.start(checkout, "a", queue="parse")
    other = await client.start(checkout, "b", queue="eval")
    assert await drained(database, "--queues", "parse") == 0
    assert [(await run.info()).state for run in (parse, other)] == [RunState.COMPLETED, RunState.PENDING]


async def test_the_command_ends_well_when_there_is_nothing_to_do(database):
    assert await drained(database) == 0
