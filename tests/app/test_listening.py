"""Callbacks in the process: `@app.on(...)`."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace

import pytest

from stepfast import Invalid, Retry, RunFailed, RunState, Stepfast, emit, step, workflow
from stepfast.listening import RunEvent
from tests.support.apps import QUICK, app_on
from tests.support.following import looks_of, state_of, until
from tests.support.sql import execute
from tests.support.virtual_time import timed_app
from tests.support.workflows import say


@step(retry=Retry(attempts=1))
async def break_down() -> None:
    raise ValueError("no")


@workflow
async def broken() -> None:
    await break_down()


@workflow
async def telling() -> None:
    await emit("order.placed", {"id": 7})


class Heard(list[RunEvent]):
    async def events(self, number):
        async def enough():
            return len(self) >= number

        await until(enough)
        return [(event.run_id, event.type) for event in self]


@pytest.fixture
def heard():
    return Heard()


async def test_a_callback_hears_of_ends(database, heard):
    app = app_on(database, [say, broken])
    app.on("completed", "failed")(heard.append)
    async with app:
        good, bad = await app.start(say, "hello"), await app.start(broken)
        await good.result(timeout="30s")
        with pytest.raises(RunFailed):
            await bad.result(timeout="30s")
        assert set(await heard.events(2)) == {(good.id, "completed"), (bad.id, "failed")}


async def test_a_run_is_saved_before_a_callback_hears_of_it(database, heard):
    app = app_on(database, [say])
    seen = []

    @app.on("completed")
    async def look(event):
        seen.append((await app.get(event.run_id).info()).state)
        heard.append(event)

    async with app:
        await (await app.start(say, "hello")).result(timeout="30s")
        await heard.events(1)
    assert seen == [RunState.COMPLETED]


async def test_a_callback_hears_of_steps_and_of_a_workflows_own_events(database, heard):
    app = app_on(database, [telling, say])
    app.on("order.placed", "step_completed")(heard.append)
    async with app:
        await (await app.start(telling)).result(timeout="30s")
        await heard.events(1)
        assert (heard[0].type, heard[0].data) == ("order.placed", '{"id":7}')


async def test_a_callback_hears_of_commands(database, heard):
    app = app_on(database, [say], worker=False)
    app.on("queued", "paused", "resumed", "cancelled", "rerun")(heard.append)
    async with app:
        run = await app.start(say, "hello")
        await run.pause(actor="ann", reason="wait")
        await run.resume()
        await run.cancel()
        await run.rerun()
        types = [kind for _, kind in await heard.events(5)]
    assert types == ["queued", "paused", "resumed", "cancelled", "rerun"]
    assert (heard[1].actor, heard[1].data) == ("ann", '{"reason": "wait"}')


async def test_a_command_that_was_carried_out_before_is_not_told_again(database, heard):
    app = app_on(database, [say], worker=False)
    app.on("paused", "cancelled")(heard.append)
    async with app:
        run = await app.start(say, "hello")
        await run.pause(key="one")
        await run.pause(key="one")
        await run.cancel()
        assert [kind for _, kind in await heard.events(2)] == ["paused", "cancelled"]


async def test_the_pause_of_a_run_under_way_is_told_when_it_holds(database, heard, monkeypatch):
    begun, may_go = asyncio.Event(), asyncio.Event()

    @step
    async def gate() -> None:
        begun.set()
        await may_go.wait()

    @workflow
    async def gated() -> None:
        await gate()
        await gate()

    app = app_on(database, [gated])
    app.on("paused", "step_completed")(heard.append)
    async with app:
        looked = looks_of(app, monkeypatch)
        run = await app.start(gated)
        await begun.wait()
        await run.pause()
        await looked.wait()
        may_go.set()
        assert [kind for _, kind in await heard.events(2)] == ["step_completed", "paused"]


async def killed_its_worker(database, heard):
    """A run whose worker is buried by the upkeep of another app, which listens."""
    begun = asyncio.Event()

    @step
    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow
    async def hanging() -> None:
        await hang()

    watching = app_on(database, [say], replace(QUICK, max_crashes=1))
    watching.on("failed", "dlq_recorded")(heard.append)
    silent = replace(QUICK, heartbeat_ms=600_000, lease_ms=10**7, upkeep_ms=3_600_000)
    async with app_on(database, [hanging], silent) as dying, watching:
        run = await dying.start(hanging)
        await begun.wait()
        await execute(database, "update stepfast.worker set seen_at = 0, lease_ms = 100 where lease_ms > 1000000")
        await state_of(watching.get(run.id), RunState.FAILED)
        return run.id, await heard.events(2), heard[-1].data


async def test_a_callback_hears_of_a_run_that_upkeep_failed_for_its_crashes(database, heard):
    run_id, events, data = await killed_its_worker(database, heard)
    assert events == [(run_id, "dlq_recorded"), (run_id, "failed")]
    assert json.loads(data)["error_type"] == "stepfast.kernel.errors:LeaseLost"


async def test_a_callback_hears_of_a_run_that_upkeep_failed_for_its_deadline(database, heard):
    @workflow(timeout="10ms")
    async def late() -> None: ...

    async with (
        timed_app(database, say) as (watching, time),
        Stepfast(database, workflows=[late], worker=False, clock=time.clock) as client,
    ):
        watching.on("failed", "dlq_recorded")(heard.append)
        run = await client.start(late)
        with pytest.raises(RunFailed):
            await time.result(run)
        assert await heard.events(2) == [(run.id, "dlq_recorded"), (run.id, "failed")]
        history = [event.data for event in await run.history() if event.type == "failed"]
    assert [json.loads(data or "") for data in history] == [json.loads(heard[-1].data or "")]


async def test_what_a_callback_raises_is_logged_and_hurts_nobody(database, heard, caplog):
    app = app_on(database, [say])

    @app.on("completed")
    def fail(event):
        raise RuntimeError("a bad callback")

    app.on("completed")(heard.append)
    with caplog.at_level(logging.ERROR, "stepfast"):
        async with app:
            for _ in range(2):
                await (await app.start(say, "hello")).result(timeout="30s")
            await heard.events(2)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["listener_failed"] * 2


async def test_closing_waits_for_callbacks_that_are_under_way(database):
    app = app_on(database, [say])
    may_go, done = asyncio.Event(), []

    @app.on("completed")
    async def slow(event):
        await may_go.wait()
        done.append(event.type)

    async with app:
        await (await app.start(say, "hello")).result(timeout="30s")
        asyncio.get_running_loop().call_later(0.05, may_go.set)
    assert done == ["completed"]


@pytest.mark.parametrize("types", [(), ("",), ("claimed",), ("completed", "reaped")])
async def test_types_that_nobody_can_hear_are_refused(database, types):
    with pytest.raises(Invalid):
        app_on(database, [say]).on(*types)
