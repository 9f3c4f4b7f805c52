"""The serverless host: one run, what is ready, and upkeep, each within a call."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from stepfast import Invalid, NotFound, Retry, RunState, StepfastError, receive, step, workflow
from stepfast.serverless import Handled, lambda_handler
from tests.support.apps import QUICK, app_on
from tests.support.following import until
from tests.support.sql import execute
from tests.support.workflows import say


@workflow
async def patient() -> str:
    return await receive("go", str)


@step(retry=Retry(attempts=1))
async def break_down() -> None:
    raise ValueError("no")


@workflow
async def broken() -> None:
    await break_down()


WORKFLOWS = [say, patient, broken]


@pytest.fixture
async def client(database):
    async with app_on(database, WORKFLOWS, worker=False) as client:
        yield client


@pytest.mark.parametrize(
    ("started", "args", "answer"),
    [
        (say, ("hello",), Handled.COMPLETED),
        (patient, (), Handled.SUSPENDED),
        (broken, (), Handled.FAILED),
    ],
)
async def test_a_run_is_handled_until_it_ends_or_waits(client, started, args, answer):
    run = await client.start(started, *args)
    assert await client.serverless().handle(run.id) == answer
    assert await client.serverless().handle(run.id) == answer


async def test_what_came_for_a_suspended_run_completes_it(client):
    run = await client.start(patient)
    await client.serverless().handle(run.id)
    await run.signal("go", "on")
    assert await client.serverless().handle(run.id) == "completed"


async def test_a_cancelled_run_has_nothing_left_to_do(client):
    run = await client.start(patient)
    await run.cancel()
    assert await client.serverless().handle(run.id) == "completed"


async def test_a_run_that_somebody_else_holds_is_left_to_them(client, database):
    begun, may_go = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await may_go.wait()

    @workflow
    async def gated() -> None:
        await gate()

    async with app_on(database, [gated]) as other:
        run = await other.start(gated)
        await begun.wait()
        assert await client.serverless().handle(run.id) == "suspended"
        may_go.set()


async def test_a_run_that_does_not_exist_is_not_found(client):
    with pytest.raises(NotFound):
        await client.serverless().handle("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22")


async def test_an_app_that_is_closed_is_opened_for_the_call_alone(database):
    async with app_on(database, WORKFLOWS, worker=False) as client:
        run_id = (await client.start(say, "hello")).id
    app = app_on(database, WORKFLOWS)
    assert await app.serverless().handle(run_id) == "completed"
    with pytest.raises(StepfastError, match="not open"):
        app.get(run_id)


async def test_what_is_ready_is_processed_and_counted(client):
    for started in ("say", "say", "patient", "broken"):
        await client.start(started, *(["hello"] if started == "say" else []))
    done = await client.serverless().process_available(10)
    assert done == (4, 2, 1)
    assert await client.serverless().process_available(10) == (0, 0, 0)


async def test_no_more_runs_are_processed_than_asked_for(client):
    runs = [await client.start(say, "hello") for _ in range(3)]
    assert await client.serverless().process_available(2) == (2, 2, 0)
    assert [(await run.info()).state for run in runs].count(RunState.PENDING) == 1


async def test_upkeep_gives_back_what_a_dead_worker_held(database, monkeypatch):
    begun = asyncio.Event()

    @step
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def hanging() -> None:
        await hang()

    monkeypatch.setenv("STEPFAST_LEASE", "500ms")
    host = app_on(database, WORKFLOWS, worker=False).serverless()
    async with app_on(database, [hanging], worker=replace(QUICK, upkeep_ms=3_600_000)) as other:
        run = await other.start(hanging)
        await begun.wait()
        # As if its last heartbeat had been long ago, and none came since.
        await execute(database, "update stepfast.worker set seen_at = 0, lease_ms = 1")
        assert (await host.upkeep()).stale_released == 1
        assert (await run.info()).worker_id is None


async def test_upkeep_with_nothing_to_do_counts_nothing(client):
    assert await client.serverless().upkeep() == (0, 0, 0, 0)


async def test_upkeep_cancels_children_that_nobody_waits_for(client):
    @workflow
    async def parent() -> str:
        return await patient()

    run = await client.start(parent)
    await client.serverless().process_available()
    await run.cancel()

    async def seen_to():
        return (await client.serverless().upkeep()).suspended_checked

    assert await until(seen_to) == 1
    [child] = await client.runs("patient")
    assert child.state is RunState.CANCELLED


def test_a_lambda_handles_one_run(tmp_path):
    database = f"sqlite:///{tmp_path}/app.db"
    run_id = started_in(database)
    assert lambda_handler(app_on(database, WORKFLOWS))({"run_id": run_id}, None) == {"result": "completed"}


def test_a_lambda_names_the_messages_that_it_could_not_handle(tmp_path):
    database = f"sqlite:///{tmp_path}/app.db"
    bodies = [started_in(database), json.dumps({"run_id": started_in(database)}), "no run", json.dumps({"other": 1})]
    records = [{"messageId": str(number), "body": body} for number, body in enumerate(bodies)]
    answer = lambda_handler(app_on(database, WORKFLOWS))({"Records": records}, None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "2"}, {"itemIdentifier": "3"}]}


def test_a_lambda_refuses_an_event_that_names_no_run(tmp_path):
    with pytest.raises(Invalid, match="names no run"):
        lambda_handler(app_on(f"sqlite:///{tmp_path}/app.db", WORKFLOWS))({"source": "timer"}, None)


def started_in(database: str) -> str:
    async def start() -> str:
        async with app_on(database, WORKFLOWS, worker=False) as client:
            return (await client.start(say, "hello")).id

    return asyncio.run(start())
