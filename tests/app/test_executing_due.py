"""`run.execute()` of a run that waited until now: what a worker would take, it takes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from stepfast import IllegalMove, Later, Retry, RunState, Stepfast, WaitTimeout, receive, sleep, step, workflow
from tests.support.apps import PATIENT
from tests.support.virtual_time import Time, virtual_time

tries: list[str] = []


def fails_once(name: str, error: Exception) -> str:
    """Raise it the first time; the second time all is well."""
    tries.append(name)
    if len(tries) == 1:
        raise error
    return name


@step(retry=Retry(attempts=2, base="1h", cap="1h", jitter=0))
async def flaky() -> str:
    return fails_once("backoff", OSError("away"))


@workflow(name="due_sleep")
async def sleeping() -> str:
    await sleep("1h")
    return "sleep"


@workflow(name="due_receive")
async def receiving() -> str:
    with suppress(WaitTimeout):
        await receive("go", timeout="1h")
    return "receive"


@workflow(name="due_backoff")
async def backing_off() -> str:
    return await flaky()


@workflow(name="due_later")
async def later() -> str:
    return fails_once("later", Later("1h"))


@workflow(name="due_retry", retry=Retry(attempts=2, base="1h", cap="1h", jitter=0))
async def tried_again() -> str:
    return fails_once("retry", OSError("away"))


WAITING = [sleeping, receiving, backing_off, later, tried_again]


@pytest.fixture(autouse=True)
def fresh():
    tries.clear()


@asynccontextmanager
async def client_on(database: str) -> AsyncIterator[tuple[Stepfast, Time]]:
    async with (
        virtual_time(database) as time,
        Stepfast(database, workflows=WAITING, clock=time.clock, worker=False) as client,
    ):
        client._settings = PATIENT
        yield client, time


@pytest.mark.parametrize("waiting", WAITING, ids=lambda waiting: waiting.__name__)
async def test_a_run_whose_time_has_come_is_executed(database, waiting):
    async with client_on(database) as (client, time):
        run = await client.start(waiting)
        await run.execute()
        assert (await run.info()).worker_id is None
        await time.advance("2h")
        assert await run.execute() is RunState.COMPLETED


@pytest.mark.parametrize("waiting", [sleeping, receiving], ids=lambda waiting: waiting.__name__)
async def test_a_run_whose_time_has_not_come_is_not(database, waiting):
    async with client_on(database) as (client, time):
        run = await client.start(waiting)
        await run.execute()
        await time.advance("59m")
        with pytest.raises(IllegalMove, match=f"Run {run.id} is waiting, so it cannot be claimed"):
            await run.execute()
