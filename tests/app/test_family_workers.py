"""Workers for one run and what it starts: `app.worker(only=...)`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepfast import NotFound, RunState, each, step, workflow
from tests.support.apps import QUICK, app_on
from tests.support.sql import execute
from tests.support.turns import turn
from tests.support.workflows import say


class Crowd:
    """How many are in the step at once, and how many ever were."""

    def __init__(self) -> None:
        self.now = self.most = 0


CROWD = Crowd()
# Long enough for those that were claimed together to meet.
TURNS = 100


@step
async def stay() -> None:
    CROWD.now += 1
    CROWD.most = max(CROWD.most, CROWD.now)
    for _ in range(TURNS):
        await turn()
    CROWD.now -= 1


@workflow(queue="narrow")
async def child(number: int) -> int:
    await stay()
    return number


@workflow
async def parent(number: int) -> int:
    return len(await each(child, range(number), spread=True))


WORKFLOWS = [say, parent, child]


@pytest.fixture
async def client(database):
    async with app_on(database, WORKFLOWS, worker=False) as app:
        yield app


async def test_a_worker_for_one_run_executes_what_it_starts_and_nothing_else(client):
    others = [await client.start(say, "other"), await client.start(child, 1)]
    run = await client.start(parent, 5)
    async with client.worker(poll="50ms", only=run.id):
        assert await run.result(timeout="30s") == 5
    assert {(await other.info()).state for other in others} == {RunState.PENDING}


async def most_at_once(database, settings):
    CROWD.most = 0
    app = app_on(database, WORKFLOWS, worker=settings).as_client()
    async with app:
        run = await app.start(parent, 5)
        async with app.worker(only=run.id):
            assert await run.result(timeout="30s") == 5
    return CROWD.most


async def test_a_worker_for_one_run_keeps_to_the_room_of_each_queue(database):
    assert await most_at_once(database, replace(QUICK, queue_concurrency={"narrow": 1})) == 1


async def test_children_with_room_for_all_are_executed_side_by_side(database):
    assert await most_at_once(database, QUICK) > 1


async def test_a_run_that_may_have_killed_its_worker_is_taken_too(client):
    run = await client.start(say, "hello")
    await execute(client.database, f"update stepfast.task set crashes = 1 where run_id = '{run.id}'")
    async with client.worker(poll="50ms", only=run.id):
        assert await run.result(timeout="30s") == "hello"


async def test_a_worker_for_one_run_leaves_the_turns_of_tenants_as_they_are(client):
    waiting = [await client.start(say, tenant, tenant=tenant) for tenant in ("a", "b")]
    await client.serverless().process_available(max_runs=1)
    await client.start(say, "a", tenant="a")
    asked_for = await client.start(say, "z", tenant="z")
    async with client.worker(poll="50ms", only=asked_for.id):
        assert await asked_for.result(timeout="30s") == "z"
    await client.serverless().process_available(max_runs=1)
    assert [(await run.info()).state for run in waiting] == [RunState.COMPLETED] * 2


def test_a_worker_for_something_that_is_no_run_is_refused(database):
    with pytest.raises(NotFound, match="'nobody'"):
        app_on(database, WORKFLOWS, worker=False).worker(only="nobody")
