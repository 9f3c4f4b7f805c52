"""Waiting for results: when the app closes, when the store has a bad day, and again after an answer."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest

from stepfast import StepfastError, WaitTimeout, receive, workflow
from stepfast.engine import patience
from stepfast.kernel.errors import StoreUnavailable
from tests.support.apps import app_on
from tests.support.following import until
from tests.support.workflows import say


@pytest.fixture(autouse=True)
def a_busy_machine(monkeypatch):
    """A store that answers does so in time, however long this machine stands still."""
    monkeypatch.setattr(patience, "LAST_LOOK_S", 60)


@workflow
async def patient() -> str:
    return await receive("go", str)


async def test_whoever_waits_is_told_when_the_app_closes(database):
    app = app_on(database, [patient], worker=False)
    async with app:
        run = await app.start(patient)
        waiting = [asyncio.create_task(run.result()) for _ in range(2)]
        await until(lambda: _asked_for(app))
    for result in waiting:
        with pytest.raises(StepfastError, match=f"closed while run {run.id} was awaited"):
            await asyncio.wait_for(result, 30)


async def _asked_for(app):
    return app._parts.results._asking


async def test_a_result_that_is_known_can_be_had_after_the_app_has_closed(database):
    async with app_on(database, [say]) as app:
        run = await app.start(say, "hello")
        ended = asyncio.Event()
        app.on("completed")(lambda event: ended.set())
        await ended.wait()
    assert await run.result() == "hello"


async def test_a_result_that_is_not_known_is_refused_after_the_app_has_closed(database):
    async with app_on(database, [patient], worker=False) as app:
        run = await app.start(patient)
    with pytest.raises(StepfastError, match="closed"):
        await asyncio.wait_for(run.result(), 30)


async def test_an_error_that_nobody_expects_does_not_end_the_asking(database, monkeypatch, caplog):
    async with app_on(database, [say], worker=False) as client, app_on(database, [say]):
        store, failures = client._open_parts().store, iter([RuntimeError("a bug"), ValueError("another")])
        ask = store.outcomes

        async def outcomes(run_ids):
            for failure in failures:
                raise failure
            return await ask(run_ids)

        monkeypatch.setattr(store, "outcomes", outcomes)
        with caplog.at_level(logging.ERROR, "stepfast.results"):
            assert await (await client.start(say, "hello")).result(timeout="30s") == "hello"
    assert [record.getMessage().split()[0] for record in caplog.records] == ["results_failed"] * 2


async def test_a_result_can_be_asked_for_again(database):
    async with app_on(database, [say]) as app:
        run = await app.start(say, "hello")
        assert [await run, await run, await app.get(run.id)] == ["hello"] * 3


@pytest.mark.parametrize("timeout", [0, "1ms"])
async def test_a_timeout_that_is_too_short_for_an_answer_still_brings_the_stored_end(database, monkeypatch, timeout):
    async with app_on(database, [say]) as app:
        run = await app.start(say, "hello")
        await run
        monkeypatch.setattr(app._open_parts().store, "outcomes", _slowly(app._open_parts().store.outcomes))
        assert [await run.result(timeout=timeout), await app.get(run.id).result(timeout=timeout)] == ["hello"] * 2


def _slowly(ask):
    async def outcomes(run_ids):
        # Longer than the timeout, as a database that is far away or busy answers.
        for _ in range(50):
            await asyncio.to_thread(int)
        return await ask(run_ids)

    return outcomes


async def test_a_timeout_of_nothing_asks_whether_a_run_has_ended(database):
    async with app_on(database, [patient]) as app:
        run = await app.start(patient)
        with pytest.raises(WaitTimeout, match=f"Run {run.id} has not ended within 0 s"):
            await run.result(timeout=0)
        await run.signal("go", "now")
        assert await run == "now"
        assert await run.result(timeout=0) == "now"


async def for_ever(*asked):
    await asyncio.Event().wait()


async def away(*asked):
    raise StoreUnavailable("The database is away.")


def unanswered(run):
    """What is raised where nobody knows whether a run has ended."""
    return pytest.raises(WaitTimeout, match=f"Whether run {run.id} has ended could not be read .*: the store did not")


@pytest.mark.parametrize("timeout", [0, "1ms"])
@pytest.mark.parametrize("call", ["run", "outcomes"])
async def test_a_store_that_does_not_answer_does_not_keep_whoever_waits(database, monkeypatch, call, timeout):
    monkeypatch.setattr(patience, "LAST_LOOK_S", 0.01)
    async with app_on(database, [patient], worker=False) as app:
        run = await app.start(patient)
        monkeypatch.setattr(app._open_parts().store, call, for_ever)
        with unanswered(run):
            await asyncio.wait_for(app.get(run.id).result(timeout), 30)


async def test_a_store_that_is_away_ends_a_wait_as_its_time_does(database, monkeypatch):
    async with app_on(database, [patient], worker=False) as app:
        run = await app.start(patient)
        monkeypatch.setattr(app._open_parts().store, "outcomes", away)
        with unanswered(run) as raised:
            await run.result(timeout="10ms")
        assert isinstance(raised.value.__cause__, StoreUnavailable)


async def test_a_store_that_is_away_before_the_time_is_over_is_told_as_such(database, monkeypatch):
    async with app_on(database, [patient], worker=False) as app:
        run = await app.start(patient)
        monkeypatch.setattr(app._open_parts().store, "run", away)
        for timeout in (None, "1h"):
            with pytest.raises(StoreUnavailable, match="away"):
                await app.get(run.id).result(timeout)


async def test_a_store_that_has_answered_is_not_asked_again_when_the_time_is_over(database, monkeypatch):
    async with app_on(database, [patient], worker=False) as app:
        run = await app.start(patient)
        results, questions, asked_again = app._open_parts().results, itertools.count(), asyncio.Event()
        ask, wait = results._store.outcomes, results.wait

        async def outcomes(run_ids):
            if next(questions):
                asked_again.set()
                await for_ever()
            return await ask(run_ids)

        async def wait_until_asked_again(watch, look_at_once):
            """The time is over when the store has answered once, however fast that is."""
            task = asyncio.create_task(wait(watch, look_at_once))
            await asked_again.wait()
            task.cancel()
            raise TimeoutError

        monkeypatch.setattr(results._store, "outcomes", outcomes)
        monkeypatch.setattr(results, "wait", wait_until_asked_again)
        with pytest.raises(WaitTimeout, match=f"Run {run.id} has not ended within 1h. It goes on"):
            await asyncio.wait_for(run.result(timeout="1h"), 30)
