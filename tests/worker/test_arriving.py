"""Runs on their way to a worker: the store says already that it holds them, and the worker has not begun them yet."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from stepfast import receive, step, workflow
from stepfast.worker.held import HeldRuns
from stepfast.worker.lease import Lease
from tests.support.apps import QUICK, Bodies, app_on
from tests.support.virtual_time import until_parked_in

BRISK = replace(QUICK, heartbeat_ms=20)

# The first two say that the store lists a run which nobody here knows, the others come behind what was done about it.
BEATS = 5

bodies = Bodies()


@step
async def work() -> str:
    bodies.ran("work")
    return "done"


@workflow
async def ordered() -> str:
    await receive("go")
    return await work()


@workflow
async def simple() -> str:
    return await work()


async def slowed(app: Any, name: str) -> None:
    """Let the app's store keep back its first answer to that question until heartbeats were answered meanwhile."""
    (worker,) = app._parts._workers
    ask, heard = getattr(app._parts.store, name), worker._lease.heard
    beaten = asyncio.Condition()

    async def tell() -> None:
        async with beaten:
            beaten.notify_all()

    def hear(beat: Any, number: int) -> None:
        heard(beat, number)
        worker._run_errand(tell())

    async def ask_slowly(request: Any) -> Any:
        answer = await ask(request)
        if getattr(answer, "runs", answer):
            setattr(app._parts.store, name, ask)
            for _ in range(BEATS):
                async with beaten:
                    await beaten.wait()
        return answer

    worker._lease.heard = hear
    setattr(app._parts.store, name, ask_slowly)


async def types_of(run: Any) -> list[str]:
    return [event.type for event in await run.history()]


async def reads_slowly(database: str) -> list[str]:
    """What a run went through whose worker was slow to read what it goes on from."""
    bodies.clear()
    async with app_on(database, [ordered], BRISK) as app:
        run = await app.start(ordered)
        await until_parked_in(run, "receive:go")
        await slowed(app, "histories")
        await run.signal("go", None)
        assert await run.result(timeout=60) == "done"
        return await types_of(run)


async def hears_late(database: str) -> list[str]:
    """What a run went through that was given back before its worker heard that it has it."""
    bodies.clear()
    async with app_on(database, [simple], worker=False) as client, app_on(database, [simple], BRISK) as app:
        await slowed(app, "claim")
        run = await client.start(simple)
        assert await run.result(timeout=60) == "done"
        return await types_of(run)


async def test_a_run_is_kept_while_its_worker_reads_what_it_goes_on_from(database):
    assert "handed_back" not in await reads_slowly(database)
    assert bodies["work"] == 1


async def test_the_broken_twin_that_does_not_know_what_it_reads_of_gives_it_back(database, monkeypatch):
    monkeypatch.setattr(HeldRuns, "coming", lambda self, runs: nullcontext())
    assert "handed_back" in await reads_slowly(database)


async def test_a_run_that_was_given_back_is_not_begun_when_the_answer_that_brings_it_comes_after_all(database):
    assert "handed_back" in await hears_late(database)
    assert bodies["work"] == 1


async def test_the_broken_twin_that_begins_whatever_an_answer_brings_does_it_twice(database, monkeypatch):
    monkeypatch.setattr(Lease, "has_given_back", lambda self, run: False)
    assert "handed_back" in await hears_late(database)
    assert bodies["work"] == 2
