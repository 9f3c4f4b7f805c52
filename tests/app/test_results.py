"""Waiting for results: when the app closes, when the store has a bad day, and again after an answer."""

from __future__ import annotations

import asyncio
import logging

import pytest

from stepfast import StepfastError, WaitTimeout, receive, workflow
from tests.support.apps import app_on
from tests.support.following import until
from tests.support.workflows import say


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
