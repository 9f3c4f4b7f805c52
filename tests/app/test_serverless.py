"""The serverless host: one run, what is ready, and upkeep, each within a call."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
from dataclasses import replace

import pytest

from stepfast import Invalid, NotFound, Retry, RunState, Stepfast, StepfastError, receive, serverless, step, workflow
from stepfast.base import AppBase
from stepfast.engine import pruning
from stepfast.engine.pruning import Progress, Pruner
from stepfast.kernel.exchange import Enrolment
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.retention import PolicyChange
from stepfast.parts import Parts
from stepfast.serverless import Handled, lambda_handler
from stepfast.sinks import CallbackSink
from tests.support.apps import QUICK, app_on, has_beaten
from tests.support.following import until
from tests.support.sql import execute
from tests.support.turns import turn
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


async def test_a_busy_tenant_does_not_keep_others_waiting_behind_calls_for_few_runs(client):
    host = client.serverless()
    patient_ones = [await client.start(say, "later", tenant=tenant) for tenant in ("b", "c")]
    for _ in range(3):
        for _ in range(2):
            await client.start(say, "again", tenant="a")
        await host.process_available(max_runs=2)
    assert [(await run.info()).state for run in patient_ones] == [RunState.COMPLETED] * 2


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


async def test_calls_at_the_same_time_share_what_the_first_has_opened(database, monkeypatch):
    stores: list[object] = []
    open_store = AppBase._opened_parts

    async def counted(self: AppBase) -> Parts:
        parts = await open_store(self)
        stores.append(parts)
        return parts

    async with app_on(database, WORKFLOWS, worker=False) as client:
        runs = [await client.start(say, "hello"), await client.start(patient), await client.start(patient)]
    monkeypatch.setattr(AppBase, "_opened_parts", counted)
    app = app_on(database, WORKFLOWS)
    hosts = [app.serverless(), app.serverless()]
    calls = [hosts[number % 2].handle(run.id) for number, run in enumerate(runs)]
    answers = await asyncio.gather(*calls, hosts[0].upkeep(), hosts[1].process_available(1))
    # A run that `process_available` has taken first is in other hands.
    assert answers[0] in (Handled.COMPLETED, Handled.SUSPENDED)
    assert answers[1:3] == [Handled.SUSPENDED, Handled.SUSPENDED]
    assert (app._parts, len(stores)) == (None, 1)
    assert await hosts[0].handle(runs[0].id) is Handled.COMPLETED
    assert (app._parts, len(stores)) == (None, 2)


async def test_a_call_that_is_given_up_takes_the_app_from_no_other(database):
    async with app_on(database, WORKFLOWS, worker=False) as client:
        run = await client.start(say, "hello")
    app = app_on(database, WORKFLOWS)
    first = asyncio.create_task(app.serverless().handle(run.id))
    second = asyncio.create_task(app.serverless().handle(run.id))
    await turn()
    first.cancel()
    assert await second in (Handled.COMPLETED, Handled.SUSPENDED)
    assert (first.cancelled(), app._parts) == (True, None)


async def test_an_app_that_is_being_opened_is_not_opened_twice(database):
    app = app_on(database, WORKFLOWS, worker=False)
    answers = await asyncio.gather(app.open(), app.open(), return_exceptions=True)
    await app.close()
    assert [type(answer) for answer in answers] == [type(None), StepfastError]


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


async def test_upkeep_gives_back_what_a_dead_worker_held(database, caplog):
    begun = asyncio.Event()

    @step
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def hanging() -> None:
        await hang()

    host = app_on(database, WORKFLOWS, worker=False).serverless()
    async with app_on(
        database, [hanging], worker=replace(QUICK, heartbeat_ms=600_000, lease_ms=10**7, upkeep_ms=3_600_000)
    ) as other:
        run = await other.start(hanging)
        await begun.wait()
        await has_beaten(other)
        await execute(database, "update stepfast.worker set seen_at = 0, lease_ms = 100")
        assert (await host.upkeep()).stale_released == 1
        assert (await run.info()).worker_id is None
    by = {record.msg.event: record.msg.fields for record in caplog.records if record.name == "stepfast.upkeep"}
    me = f"upkeep-{socket.gethostname()}-{os.getpid()}"
    assert (by["worker_buried"]["buried_by"], by["runs_recovered"]["worker_id"]) == (me, me)


SILENT = Enrolment(WorkerId("01932f5e-7c1b-7d3a-9c56-0d4f6b8a1e22"), "", "host", 7, ("default",), ("say@1",), 100)


async def buried_by_upkeep_after_a_jump_of_the_clock(database, client, monkeypatch) -> bool:
    """Whether a worker is buried whose last heartbeat looks old, and that is heard of when upkeep looks again."""
    store, looks = client._open_parts().store, itertools.count()
    await store.enrol(SILENT)
    await execute(database, "update stepfast.worker set seen_at = 0")
    workers = store.workers

    async def heard_of_later(*given):
        if next(looks):
            await execute(database, "update stepfast.worker set seen_at = 100000000000000")
        return await workers(*given)

    monkeypatch.setattr(store, "workers", heard_of_later)
    await client.serverless().upkeep()
    return (await client.workers.get(SILENT.worker_id)).dead_at is not None


async def test_upkeep_buries_nobody_who_still_beats(database, client, monkeypatch):
    assert not await buried_by_upkeep_after_a_jump_of_the_clock(database, client, monkeypatch)


async def test_the_broken_twin_that_does_not_wait_for_a_beat_buries_a_live_worker(database, client, monkeypatch):
    monkeypatch.setattr(serverless, "LONGEST_SILENCE", 0)
    assert await buried_by_upkeep_after_a_jump_of_the_clock(database, client, monkeypatch)


async def test_upkeep_with_nothing_to_do_counts_nothing(client):
    assert await client.serverless().upkeep() == (0, 0, 0, 0, 0, 0)


async def test_upkeep_publishes_to_the_sinks_of_the_app(database):
    heard: list[str] = []
    client = app_on(database, WORKFLOWS, worker=False)
    client.sinks.add(CallbackSink("kept", lambda event: heard.append(event.type)), from_start=True)
    async with client:
        await client.start(say, "hello")
        assert (await client.serverless().upkeep()).events_published == 1
        assert heard == ["queued"]
        assert (await client.serverless().upkeep()).events_published == 0


async def let_go_at_once(client) -> None:
    """Set a policy that is shorter than anybody may set it, so that nobody has to wait for it."""
    change = PolicyChange(client.retention._id_for(None), "", "", 1)
    await client._open_parts().store.change_policy(change)


async def ended_runs(client, count: int) -> None:
    for number in range(count):
        run = await client.start(say, f"hello {number}")
        await client.serverless().handle(run.id)


async def pruned(client: Stepfast) -> int:
    return (await client.serverless().upkeep()).runs_pruned


async def test_upkeep_lets_go_what_retention_policies_say(client):
    await ended_runs(client, 2)
    assert await pruned(client) == 0
    await let_go_at_once(client)
    assert await until(lambda: pruned(client)) == 2
    assert await client.runs() == []


async def test_upkeep_prunes_no_longer_than_it_may(client, monkeypatch):
    await ended_runs(client, 1)
    await let_go_at_once(client)
    monkeypatch.setattr(serverless, "PART_MS", 0)
    assert await pruned(client) == 0
    monkeypatch.undo()
    assert await until(lambda: pruned(client)) == 1


async def pruned_behind_runs_that_stay(client, monkeypatch) -> int:
    """Runs that go of one host which looks at two in each call, where the first two are kept for ever."""
    await ended_runs(client, 2)
    run = await client.start(patient)
    await client.serverless().handle(run.id)
    await run.signal("go", "on")
    await client.serverless().handle(run.id)
    await let_go_at_once(client)
    await client.retention.set("forever", workflow="say")
    monkeypatch.setattr(pruning, "PAGE", 1)
    monkeypatch.setattr(serverless.Serverless, "_alarm", lambda self: iter([False, False, *[True] * 100]).__next__)
    host = client.serverless()
    return sum([(await host.upkeep()).runs_pruned for _ in range(5)])


async def test_runs_that_stay_keep_upkeep_from_no_run_behind_them(client, monkeypatch):
    assert await pruned_behind_runs_that_stay(client, monkeypatch) == 1


async def test_the_broken_twin_that_begins_anew_each_time_never_comes_to_them(client, monkeypatch):
    monkeypatch.setattr(Progress, "under", lambda self, policies, now: {})
    assert await pruned_behind_runs_that_stay(client, monkeypatch) == 0


async def test_upkeep_seals_so_that_what_is_sealed_may_go(database, monkeypatch):
    monkeypatch.setenv("STEPFAST_SEAL_KEYS", "1:" + "c2VjcmV0" * 8)
    async with app_on(database, WORKFLOWS, worker=False) as client:
        await ended_runs(client, 1)
        done = await client.serverless().upkeep()
        assert done.events_sealed >= 3
        await let_go_at_once(client)
        assert await until(lambda: pruned(client)) == 1
        assert (await client.audit.verify()).findings == ()


async def test_what_keeps_upkeep_from_pruning_keeps_it_from_nothing_else(client, monkeypatch):
    async def fail(*_: object) -> None:
        raise StepfastError("away")

    monkeypatch.setattr(Pruner, "make_pass", fail)
    await client.start(say, "hello")
    assert (await client.serverless().upkeep()).runs_pruned == 0


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


@pytest.mark.parametrize("records", ["x", None, ["x"], {"body": "x"}])
def test_a_lambda_refuses_records_that_are_no_list_of_objects(tmp_path, records):
    with pytest.raises(Invalid, match="must be a list of objects"):
        lambda_handler(app_on(f"sqlite:///{tmp_path}/app.db", WORKFLOWS))({"Records": records}, None)


def started_in(database: str) -> str:
    async def start() -> str:
        async with app_on(database, WORKFLOWS, worker=False) as client:
            return (await client.start(say, "hello")).id

    return asyncio.run(start())
