"""Several workers on one store: with one label, and with different code."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from stepfast import RunState, workflow
from tests.support.apps import QUICK, app_on
from tests.support.workflows import echo, say


@workflow
async def shout(word: str) -> str:
    return (await echo(word)).upper()


@workflow(name="shout", version=2)
async def shout_louder(word: str) -> str:
    return (await echo(word)).upper() + "!"


async def test_two_workers_with_one_label_live_side_by_side(database):
    settings = replace(QUICK, label="twin")
    async with app_on(database, [say], settings) as one, app_on(database, [say], settings) as other:
        words = [str(number) for number in range(20)]
        runs = [await app.start(say, word) for app, word in zip([one, other] * 10, words, strict=True)]
        assert await asyncio.gather(*(run.result(timeout="30s") for run in runs)) == words
        workers = await one.workers.list()
    assert [worker.label for worker in workers] == ["twin", "twin"]
    assert len({worker.worker_id for worker in workers}) == 2
    assert {worker.dead_at for worker in workers} == {None}


async def test_a_worker_without_the_workflow_leaves_the_run_pending(database):
    async with app_on(database, [shout], worker=False) as client, app_on(database, [say]) as other:
        run = await client.start(shout, "a")
        # Its neighbour was started later and has ended: the worker has looked past the run that it cannot execute.
        assert await (await other.start(say, "b")).result(timeout="30s") == "b"
        assert (await run.info()).state is RunState.PENDING


async def test_a_run_is_claimed_as_soon_as_a_worker_with_its_workflow_comes(database):
    async with app_on(database, [shout], worker=False) as client, app_on(database, [say]):
        run = await client.start(shout, "a")
        async with app_on(database, [shout]):
            assert await run.result(timeout="30s") == "A"


async def test_a_run_waits_for_a_worker_with_its_version(database):
    async with app_on(database, [shout_louder], worker=False) as client, app_on(database, [shout]) as old:
        run = await client.start(shout_louder, "a")
        assert await (await old.start(shout, "b")).result(timeout="30s") == "B"
        assert (await run.info()).state is RunState.PENDING
        async with app_on(database, [shout_louder]):
            assert await run.result(timeout="30s") == "A!"
