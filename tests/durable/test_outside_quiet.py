"""Questions after outside work that is not done leave nothing in the history; what comes of one is told as ever."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from stepfast import Outside, Pending, Retry, RunState, Stepfast, step, workflow
from stepfast.testing import engine
from stepfast.workflows import stay
from tests.support.apps import PATIENT
from tests.support.turns import turn
from tests.support.virtual_time import until, until_state, virtual_time

QUESTIONS = 40
ASKED: Counter[str] = Counter()
ANSWERS: list[Any] = []


@step
async def enquire(handle: str) -> Pending | int:
    ASKED[handle] += 1
    answer: Pending | int = ANSWERS[0](ASKED[handle])
    return answer


@step
async def commission() -> Outside[int]:
    return Outside("job", poll=enquire, every="30s")


@workflow
async def commissioned() -> Any:
    return await commission()


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    ASKED.clear()
    ANSWERS.clear()


def after(number: int, progress: bool = False) -> Any:
    """A poll that has its answer after so many questions."""
    return lambda asked: 7 if asked > number else Pending(asked if progress else None)


async def asked_often(opened: Any, times: int) -> Any:
    run = await opened.start(commissioned)
    for _ in range(times + 1):
        await opened.run_until_idle()
        opened.clock.advance(30)
    return run


async def test_questions_that_bring_nothing_leave_no_events(database):
    ANSWERS.append(after(QUESTIONS))
    async with engine(database=database, workflows=[commissioned]) as opened:
        run = await asked_often(opened, QUESTIONS)
        told = [event.type for event in await run.history()]
        assert (ASKED["job"], told) == (
            QUESTIONS,
            ["queued", "claimed", "started", "step_started", "step_waiting", "waiting"],
        )
        assert (await run.info()).state is RunState.WAITING


async def test_the_claim_that_brings_the_end_is_told_with_it(database):
    ANSWERS.append(after(3))
    async with engine(database=database, workflows=[commissioned]) as opened:
        run = await asked_often(opened, 4)
        assert await opened.result(run) == 7
        history = await run.history()
        assert [event.type for event in history][6:] == ["claimed", "step_completed", "completed"]
        assert len({event.token for event in history[6:]}) == 1
        assert [event.seq for event in history] == list(range(1, len(history) + 1))


async def test_progress_is_told_with_its_claim_and_nothing_else_is(database):
    ANSWERS.append(after(3, progress=True))
    async with engine(database=database, workflows=[commissioned]) as opened:
        run = await asked_often(opened, 3)
        told = [event.type for event in await run.history()][6:]
        assert told == ["claimed", "step_progress", "waiting"] * 3


async def test_a_process_that_dies_while_it_asks_is_told_of(database):
    ANSWERS.append(after(3))
    async with engine(database=database, workflows=[commissioned]) as opened:
        run = await asked_often(opened, 1)
        opened.crash_after(3)
        assert await opened.result(run) == 7
        history = await run.history()
        assert [event.seq for event in history] == list(range(1, len(history) + 1))


async def test_with_every_claim_told_the_history_grows_by_questions(monkeypatch):
    monkeypatch.setattr(stay, "nothing_came", lambda run, waits: False)
    ANSWERS.append(after(QUESTIONS))
    async with engine(workflows=[commissioned]) as opened:
        run = await asked_often(opened, QUESTIONS)
        assert len(await run.history()) > 2 * QUESTIONS


class Crowd:
    """How many questions are asked at once, at most."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.asked: set[str] = set()
        self.go_on = asyncio.Event()

    async def ask(self, handle: str) -> int:
        self.asked.add(handle)
        self.now += 1
        self.most = max(self.most, self.now)
        await turn()
        await self.go_on.wait()
        self.now -= 1
        return 1


CROWDS: list[Crowd] = []


@step(retry=Retry(attempts=1))
async def ask_in_line(handle: str) -> Pending | int:
    return await CROWDS[-1].ask(handle)


@step
async def join_line(name: str) -> Outside[int]:
    return Outside(name, poll=ask_in_line, every="1s")


@workflow
async def lined_up(name: str) -> Any:
    return await join_line(name)


@pytest.mark.parametrize("max_polls", [1, 2, 4])
async def test_no_more_questions_are_asked_at_once_than_a_worker_may(database, max_polls):
    CROWDS.append(crowd := Crowd())
    worker = replace(PATIENT, max_polls=max_polls)
    async with (
        virtual_time(database) as time,
        Stepfast(database, workflows=[lined_up], worker=worker, clock=time.clock) as app,
    ):
        runs = [await app.start(lined_up, str(number)) for number in range(4)]
        for run in runs:
            await until_state(run, RunState.WAITING)
        await time.advance("1s")
        # All of them are to ask by now; who may not yet, waits for its turn.
        while {(await run.info()).state for run in runs} != {RunState.RUNNING}:
            await time.advance("1ms")
        await until(runs[0], lambda: crowd.now >= max_polls)
        crowd.go_on.set()
        assert [await run.result(timeout="60s") for run in runs] == [1, 1, 1, 1]
    assert crowd.most == max_polls
