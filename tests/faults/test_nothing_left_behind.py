"""Stop, close and cancel leave no thread, task, connection or file behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections import Counter
from typing import NamedTuple

import pytest

from stepfast import step, sync, testing, workflow
from stepfast.base import AppBase
from stepfast.parts import Parts
from stepfast.worker.heartbeat import Heartbeat
from stepfast.workflows.functions import AnyWorkflow
from tests.support.apps import QUICK, app_on
from tests.support.turns import turn, until_idle

# One thing that is left behind each time is seen at once.
CYCLES = 5

begun: asyncio.Event


@step
async def echo(word: str) -> str:
    return word


@step
async def never_ends() -> None:
    begun.set()
    await asyncio.Event().wait()


@step
def in_a_thread(word: str) -> str:
    return word


@workflow
async def finished(word: str) -> str:
    return await echo(await in_a_thread.aio(word))


@workflow
async def unfinished() -> None:
    await never_ends()


WORKFLOWS: list[AnyWorkflow] = [finished, unfinished]


class Belongings(NamedTuple):
    """What a process has."""

    threads: Counter[str]
    tasks: int
    files: Counter[str]


def belongings() -> Belongings:
    gc.collect()
    threads = Counter(thread.name.rpartition("_")[0] or thread.name for thread in threading.enumerate())
    # The loop keeps a few threads of its own for `to_thread`, up to a number that is not ours.
    own = Counter({name: number for name, number in threads.items() if not name.startswith("asyncio")})
    return Belongings(own, len(asyncio.all_tasks()), Counter(_open_files()))


def _open_files() -> list[str]:
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}").split(":")[0])
        except FileNotFoundError:
            continue
    return found


async def with_finished_runs(database: str) -> None:
    async with app_on(database, WORKFLOWS) as app:
        assert await (await app.start(finished, "a")).result(timeout="60s") == "a"


async def with_an_unfinished_run(database: str) -> None:
    begun.clear()
    async with app_on(database, WORKFLOWS) as app:
        await app.start(unfinished, tenant="other")
        await begun.wait()


async def with_a_cancelled_waiter(database: str) -> None:
    begun.clear()
    async with app_on(database, WORKFLOWS) as app:
        run = await app.start(unfinished)
        await begun.wait()
        waiting = asyncio.ensure_future(run.result())
        await until_idle()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def with_a_cancelled_owner(database: str) -> None:
    async def own() -> None:
        async with app_on(database, WORKFLOWS) as app:
            await app.start(unfinished)
            await begun.wait()
            await asyncio.Event().wait()

    begun.clear()
    owner = asyncio.ensure_future(own())
    await begun.wait()
    owner.cancel()
    await asyncio.gather(owner, return_exceptions=True)


async def with_an_owner_that_is_cancelled_while_it_closes(database: str) -> None:
    async def own() -> None:
        async with app:
            await app.start(unfinished)
            await asyncio.Event().wait()

    begun.clear()
    app = app_on(database, WORKFLOWS)
    owner = asyncio.ensure_future(own())
    await begun.wait()
    owner.cancel()
    while app._parts is not None:
        await turn()
    owner.cancel()
    await asyncio.gather(owner, return_exceptions=True)
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == "stepfast-closing"))


async def with_a_worker_of_its_own(database: str) -> None:
    async with app_on(database, WORKFLOWS, worker=False) as app, app.worker(lease="2s") as worker:
        await (await app.start(finished, "a")).result(timeout="60s")
        await worker.stop()


async def with_commands(database: str) -> None:
    begun.clear()
    async with app_on(database, WORKFLOWS) as app:
        run = await app.start(unfinished)
        await begun.wait()
        await run.pause()
        await run.resume()
        await run.cancel()
        await run.rerun()
        await run.cancel()


async def with_a_serverless_host(database: str) -> None:
    async with app_on(database, WORKFLOWS, worker=False) as client:
        run = await client.start(finished, "a")
        await client.start(finished, "b")
    host = app_on(database, WORKFLOWS).serverless()
    assert await host.handle(run.id) == "completed"
    assert (await host.process_available()).succeeded == 1
    await host.upkeep()


async def with_a_blocking_app(database: str) -> None:
    def block() -> None:
        with sync.Stepfast(database, workflows=WORKFLOWS, worker=QUICK) as app:
            assert app.start(finished, "a").result(timeout="60s") == "a"

    await asyncio.to_thread(block)


async def with_an_engine_for_tests(database: str) -> None:
    async with testing.engine(workflows=WORKFLOWS, database=database) as engine:
        run = await engine.start(finished, "a")
        assert await engine.result(run) == "a"


LIVES = [
    with_commands,
    with_a_serverless_host,
    with_a_blocking_app,
    with_an_engine_for_tests,
    with_finished_runs,
    with_an_unfinished_run,
    with_a_cancelled_waiter,
    with_a_cancelled_owner,
    with_an_owner_that_is_cancelled_while_it_closes,
    with_a_worker_of_its_own,
]


async def left_behind(database: str, live) -> tuple[Belongings, Belongings]:
    """What the process has after one life of an app, and after many."""
    global begun
    begun = asyncio.Event()
    await live(database)
    once = belongings()
    for _ in range(CYCLES):
        await live(database)
    return once, belongings()


@pytest.mark.parametrize("live", LIVES)
async def test_an_app_that_was_opened_and_closed_leaves_nothing_behind(database, live):
    once, often = await left_behind(database, live)
    assert often == once


async def test_a_start_that_is_cancelled_just_as_it_is_answered_is_cancelled(database, monkeypatch):
    async with app_on(database, WORKFLOWS, worker=False) as app:
        starting = asyncio.ensure_future(app.start(finished, "a"))
        assert app._parts is not None
        store_start = app._parts.store.start

        async def start_and_cancel(*args):
            answers = await store_start(*args)
            asyncio.get_running_loop().call_soon(starting.cancel)
            return answers

        monkeypatch.setattr(app._parts.store, "start", start_and_cancel)
        await asyncio.wait({starting})
    assert starting.cancelled()


async def test_the_broken_twin_that_does_not_stop_its_heartbeat_leaves_threads_behind(database, monkeypatch):
    heartbeats: list[Heartbeat] = []
    stop = Heartbeat.stop

    async def forget(self: Heartbeat) -> None:
        heartbeats.append(self)

    monkeypatch.setattr(Heartbeat, "stop", forget)
    once, often = await left_behind(database, with_finished_runs)
    for heartbeat in heartbeats:
        await stop(heartbeat)
    assert often.threads != once.threads


async def test_the_broken_twin_that_is_closed_by_its_caller_alone_leaves_threads_behind(database, monkeypatch):
    half_closed: list[Parts] = []

    async def close(self: AppBase) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            half_closed.append(parts)
            await parts.close()

    monkeypatch.setattr(AppBase, "close", close)
    once, often = await left_behind(database, with_an_owner_that_is_cancelled_while_it_closes)
    for parts in half_closed:
        for worker in parts._workers:
            await worker._lease.end()
        await parts.store.close()
    assert often.threads != once.threads
