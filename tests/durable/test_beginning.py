"""That a run's code has begun is told once in each generation, whoever had the run before."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepfast import Later, Retry, Run, RunState, continue_as, receive, step, workflow
from stepfast.testing import Engine, engine
from stepfast.worker.execute import Executor, WorkerStops
from stepfast.workflows.functions import AnyWorkflow
from tests.support.apps import Bodies

BODIES = Bodies()


@step(retry=Retry(attempts=1))
async def fill(glass: int) -> int:
    BODIES.ran("fill")
    if BODIES["fill"] == 1:
        raise ValueError("it is cracked")
    return glass


@workflow(retry=Retry(attempts=2, base="1h", jitter=0))
async def pour() -> int:
    return await fill(1)


@workflow
async def pour_once() -> int:
    return await fill(1)


@workflow
async def put_off() -> str:
    BODIES.ran("put_off")
    if BODIES["put_off"] < 4:
        raise Later("1h")
    return "done"


@workflow
async def hear() -> str:
    return await receive("word", str)


@workflow
async def count_down(left: int) -> int:
    return left if left == 0 else await continue_as(left - 1)


@workflow
async def greet() -> str:
    return "hello"


@pytest.fixture
async def bench(database):
    BODIES.clear()
    flows: list[AnyWorkflow] = [pour, pour_once, put_off, hear, count_down, greet]
    async with engine(workflows=flows, database=database) as opened:
        yield opened


async def beginnings(bench: Engine, run: Run[Any]) -> dict[int, int]:
    """How often it is told, for each generation."""
    return Counter(event.generation for event in await bench.events(run) if event.type == "started")


async def claims(bench: Engine, run: Run[Any]) -> int:
    return sum(event.type == "claimed" for event in await bench.events(run))


def hand_back_first(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The first holders of a run give it back before its code begins."""
    execute, left = Executor.execute, iter(range(times))

    def execute_later(self, run, workflow, history, done):
        if next(left, None) is None:
            execute(self, run, workflow, history, done)
        else:
            self.refuse(run, ConnectionError("not now"), done)

    monkeypatch.setattr(Executor, "execute", execute_later)


def stop_first(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The first holders of a run stop when its code is about to begin."""
    execute, left = Executor.execute, iter(range(times))

    def execute_and_stop(self, run, workflow, history, done):
        execute(self, run, workflow, history, done)
        if next(left, None) is not None:
            self.stop(run, WorkerStops("the worker stops"))

    monkeypatch.setattr(Executor, "execute", execute_and_stop)


async def test_a_run_that_was_handed_back_before_it_began_tells_of_it_when_it_does(bench, monkeypatch):
    hand_back_first(monkeypatch, 2)
    run = await bench.start(greet)
    assert await bench.result(run) == "hello"
    assert (await claims(bench, run), await beginnings(bench, run)) == (3, {1: 1})


async def test_a_run_that_was_handed_back_after_it_began_does_not_tell_it_again(bench, monkeypatch):
    stop_first(monkeypatch, 2)
    run = await bench.start(greet)
    assert await bench.result(run) == "hello"
    assert (await claims(bench, run), await beginnings(bench, run)) == (3, {1: 1})


async def test_a_run_whose_holder_died_before_its_first_commit_tells_of_it_afterwards(bench):
    lost = 0
    for call in range(1, 7):
        run = await bench.start(greet)
        bench.crash_after(call)
        assert await bench.result(run) == "hello"
        assert await beginnings(bench, run) == {1: 1}
        types = [event.type for event in await bench.events(run)]
        lost += "reaped" in types[: types.index("started")]
    assert lost > 0


async def test_code_that_puts_its_run_off_begins_once(bench):
    run = await bench.start(put_off)
    assert await bench.result(run) == "done"
    assert (await claims(bench, run), await beginnings(bench, run)) == (4, {1: 1})


async def test_a_run_that_is_woken_has_begun(bench):
    run = await bench.start(hear)
    await bench.run_until_idle()
    await bench.signal(run, "word", "go")
    assert await bench.result(run) == "go"
    assert (await claims(bench, run), await beginnings(bench, run)) == (2, {1: 1})


@pytest.mark.parametrize("times", [0, 1])
async def test_each_generation_of_a_run_that_goes_on_begins_once(bench, monkeypatch, times):
    hand_back_first(monkeypatch, times)
    run = await bench.start(count_down, 2)
    assert await bench.result(run) == 0
    assert await beginnings(bench, run) == {1: 1, 2: 1, 3: 1}


async def test_each_try_of_a_run_begins_once(bench):
    run = await bench.start(pour)
    assert await bench.result(run) == 1
    assert await beginnings(bench, run) == {1: 1, 2: 1}


async def test_a_run_that_is_retried_begins_once_more_also_when_it_was_handed_back(bench, monkeypatch):
    run = await bench.start(pour_once)
    await bench.run_until_idle()
    hand_back_first(monkeypatch, 1)
    await run.retry()
    assert await bench.result(run) == 1
    await run.rerun()
    assert await bench.result(run) == 1
    assert await beginnings(bench, run) == {1: 1, 2: 1, 3: 1}


async def test_a_run_that_is_rolled_back_in_its_generation_has_begun(bench):
    run = await bench.start(hear)
    await bench.run_until_idle()
    await run.rollback(to=1)
    assert (await run.info()).state is RunState.PAUSED
    await run.resume()
    await bench.run_until_idle()
    await bench.signal(run, "word", "go")
    assert await bench.result(run) == "go"
    assert await beginnings(bench, run) == {1: 1}


async def test_the_broken_twin_that_goes_by_the_number_of_claims_tells_nothing(bench, monkeypatch):
    hand_back_first(monkeypatch, 1)
    execute = Executor.execute

    def execute_by_claims(self, run, workflow, history, done):
        run.begun = run.claims > 1
        execute(self, run, workflow, history, done)

    monkeypatch.setattr(Executor, "execute", execute_by_claims)
    run = await bench.start(greet)
    assert await bench.result(run) == "hello"
    assert await beginnings(bench, run) == {}
