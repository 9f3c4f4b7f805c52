"""Workers of an app: started and stopped by hand, several in one process."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import Invalid, Retry, RunFailed, RunState, StepfastError, WorkerSettings, step, workflow
from tests.support.apps import app_on
from tests.support.workflows import echo, say


@workflow(queue="parse")
async def parse(word: str) -> str:
    return await echo(word)


class Gate:
    """A step that tells when it has begun, and goes on when it may."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_go = asyncio.Event()


@pytest.fixture
def gate():
    return Gate()


@pytest.fixture
def gated(gate):
    @step
    async def first() -> str:
        gate.begun.set()
        await gate.may_go.wait()
        return "first"

    @workflow
    async def two() -> str:
        await first()
        return await echo("second")

    return two


@pytest.fixture
def client(database):
    return app_on(database, [say, parse], worker=False)


async def test_a_worker_works_from_start_to_stop(client):
    async with client:
        worker = client.worker(poll="50ms")
        await worker.start()
        assert await (await client.start(say, "hello")).result(timeout="30s") == "hello"
        await worker.stop()


async def test_a_worker_opens_an_app_that_is_closed_and_closes_it_again(client):
    worker = client.worker()
    await worker.start()
    assert await (await client.start(say, "hello")).result(timeout="30s") == "hello"
    await worker.stop()
    with pytest.raises(StepfastError, match="not open"):
        await client.start(say, "again")


async def test_stats_count_what_a_worker_has_done(client):
    async with client, client.worker() as worker:
        await (await client.start(say, "hello")).result(timeout="30s")
        stats = worker.stats()
    assert (bool(stats.worker_id), stats.runs_processed) == (True, 1)


async def test_a_worker_that_was_not_started_has_no_stats(client):
    with pytest.raises(StepfastError, match="not been started"):
        client.worker().stats()


async def test_a_worker_is_started_once(client):
    async with client, client.worker() as worker:
        with pytest.raises(StepfastError, match="started before"):
            await worker.start()


async def test_several_workers_of_an_app_serve_their_own_queues(client):
    async with client, client.worker(queues=["default"]) as one, client.worker(queues=["parse"]) as two:
        runs = [await client.start(say, "a"), await client.start(parse, "b")]
        assert [await run.result(timeout="30s") for run in runs] == ["a", "b"]
    assert (one.stats().runs_processed, two.stats().runs_processed) == (1, 1)


async def test_the_other_worker_goes_on_when_one_is_stopped(client):
    async with client, client.worker() as one, client.worker():
        await one.stop()
        assert await (await client.start(say, "hello")).result(timeout="30s") == "hello"


async def test_an_embedded_worker_serves_the_queues_of_its_workflows(database):
    async with app_on(database, [parse]) as app:
        assert await (await app.start(parse, "hello")).result(timeout="30s") == "hello"


async def test_workers_are_listed(client):
    async with client, client.worker(label="web"):
        assert [(view.label, view.dead_at) for view in await client.workers.list()] == [("web", None)]


async def test_closing_the_app_stops_its_workers(client):
    async with client:
        worker = client.worker()
        await worker.start()
    async with client:
        assert [view.dead_at is None for view in await client.workers.list()] == [False]


@pytest.mark.parametrize(
    "options", [{"concurrency": 0}, {"lease": 0}, {"tenants": []}, {"queues": []}, {"max_runs": 0}]
)
def test_options_that_do_not_fit_are_refused(database, options):
    with pytest.raises(Invalid):
        app_on(database, [say], worker=False).worker(**options)


def test_a_lease_brings_its_heartbeat_along():
    assert WorkerSettings(lease_ms=9_000).heartbeat_ms == 3_000


def test_a_heartbeat_that_was_set_stays_when_the_lease_changes():
    assert WorkerSettings(lease_ms=30_000, heartbeat_ms=5_000).with_lease(60_000).heartbeat_ms == 5_000


async def test_a_step_under_way_is_recorded_when_its_worker_stops(database, gate, gated):
    async with app_on(database, [gated], worker=False) as app:
        worker = app.worker()
        await worker.start()
        run = await app.start(gated)
        await gate.begun.wait()
        stopping = asyncio.create_task(worker.stop(grace="1m"))
        gate.may_go.set()
        await stopping
        assert [record.call.name for record in await run.steps()] == ["first"]


async def test_a_step_is_cut_off_when_the_grace_time_is_over(database, gate, gated):
    async with app_on(database, [gated], worker=False) as app:
        worker = app.worker()
        await worker.start()
        run = await app.start(gated)
        await gate.begun.wait()
        await worker.stop(grace=0)
        assert ((await run.info()).worker_id, await run.steps()) == (None, [])


async def test_a_step_that_rests_before_a_retry_does_not_hold_up_a_stop(database):
    @step(retry=Retry(attempts=2, base="1h", cap="1h"))
    async def fail() -> None:
        raise ValueError("no")

    @workflow
    async def failing() -> None:
        await fail()

    async with app_on(database, [failing], worker=False) as app:
        worker = app.worker()
        await worker.start()
        run = await app.start(failing)
        async for event in events_of(run):
            if event == "retry_scheduled":
                break
        await asyncio.wait_for(worker.stop(grace="10m"), 30)
        assert (await run.info()).worker_id is None


async def events_of(run):
    """The types of a run's events, as they come."""
    seen = 0
    while True:
        for event in await run.history(after=seen):
            seen = event.seq
            yield event.type


async def test_the_setting_for_retries_holds_for_steps_without_a_policy(database, monkeypatch):
    monkeypatch.setenv("WORKER_MAX_RETRIES", "1")
    monkeypatch.setenv("WORKER_RETRY_BACKOFF_BASE_MS", "1")
    attempts = []

    @step
    async def fail() -> None:
        attempts.append(1)
        raise ValueError("no")

    @workflow
    async def failing() -> None:
        await fail()

    async with app_on(database, [failing], worker=True) as app:
        with pytest.raises(RunFailed):
            await (await app.start(failing)).result(timeout="30s")
    assert len(attempts) == 2


async def test_a_worker_takes_no_more_runs_than_it_may(client):
    async with client:
        runs = [await client.start(say, "a") for _ in range(3)]
        async with client.worker(max_runs=2) as worker:
            await asyncio.wait_for(worker.spent.wait(), 30)
        states = [(await run.info()).state for run in runs]
        assert states.count(RunState.PENDING) == 1


async def test_queues_share_the_number_of_runs_that_a_worker_may_take(client):
    async with client:
        runs = [await client.start(say, "a", queue=queue) for queue in ("slow", "slow", "fast", "fast")]
        async with client.worker(max_runs=3, queues=["empty", "fast", "slow"]) as worker:
            await asyncio.wait_for(worker.spent.wait(), 30)
        states = [(await run.info()).state for run in runs]
        assert states.count(RunState.PENDING) == 1


async def test_a_full_queue_leaves_others_their_share_of_the_runs_that_a_worker_may_take(client):
    async with client:
        for _ in range(9):
            await client.start(say, "a", queue="busy")
        quiet = await client.start(say, "a", queue="quiet")
        async with client.worker(max_runs=4, queues=["busy", "quiet"]) as worker:
            await asyncio.wait_for(worker.spent.wait(), 30)
            assert await quiet.result(timeout="30s") == "a"
        assert worker.stats().runs_processed == 4


async def test_workers_of_one_run_that_follow_each_other_serve_all_tenants(client):
    async with client:
        for tenant in ("a", "b", "c"):
            for _ in range(3):
                await client.start(say, tenant, tenant=tenant)
        for _ in range(3):
            async with client.worker(max_runs=1) as worker:
                await asyncio.wait_for(worker.spent.wait(), 30)
        ended = [view.tenant for view in await client.runs(state=RunState.COMPLETED)]
        assert sorted(ended) == ["a", "b", "c"]


async def test_a_worker_that_was_never_started_can_be_stopped(client):
    await client.worker().stop()


async def test_a_worker_whose_start_is_called_off_leaves_the_list_of_those_alive(client, monkeypatch):
    async with client:
        store, announced = client._open_parts().store, asyncio.Event()
        enrol = store.enrol

        async def enrol_unheard(enrolment):
            await enrol(enrolment)
            announced.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(store, "enrol", enrol_unheard)
        start = asyncio.create_task(client.worker().start())
        await announced.wait()
        start.cancel()
        await asyncio.wait({start})
        assert [view.dead_at is None for view in await client.workers.list()] == [False]


async def test_a_run_that_is_not_due_does_not_keep_a_worker_from_being_drained(database):
    async with app_on(database, [say], worker=False) as app:
        await app.start(say, "later", delay="1h")
        async with app.worker(poll="50ms") as worker:
            await asyncio.wait_for(worker.drained.wait(), 30)
        assert worker.stats().runs_processed == 0
