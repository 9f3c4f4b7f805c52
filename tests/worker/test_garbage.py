"""What a run leaves behind in its worker: nothing that the garbage collector would have to find."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from stepfast import step, workflow
from tests.support.apps import app_on

RUNS = 40


@step
async def double(number: int) -> int:
    return 2 * number


@workflow
async def doubling(number: int) -> int:
    first = await double(number)
    return sum(await asyncio.gather(double(first), double(number)))


@contextmanager
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def test_ended_runs_are_freed_without_the_garbage_collector(database):
    # Collections of all that short runs leave behind had cost a worker up to a third of its time.
    async with app_on(database, [doubling]) as app:
        await (await app.start(doubling, 0))
        with no_collections():
            for number in range(RUNS):
                await (await app.start(doubling, number))
            unreachable = gc.collect()
    assert unreachable < 5 * RUNS
