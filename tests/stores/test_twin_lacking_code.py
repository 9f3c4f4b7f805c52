"""A run that waits for code is brought back by nothing else; stores that do not look for that wait bring it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from stepfast.conformance.store.acts import HOUR_MS
from stepfast.kernel.ids import RunId, WorkerId
from stepfast.kernel.states import TaskState, WaitKind
from stepfast.stores.sqlite import delivering, groups, saving, workers
from tests.stores.harness import Harness, end, park, wait
from tests.support.guards import rewrite, url_of

FOR_CODE = wait(-1, WaitKind.CODE, name="order@1")
Go = Callable[[Harness, WorkerId], Awaitable[None]]
SEEN, UNSEEN = "kind = 'code'", "kind = 'no such kind'"


async def its_moment_comes(harness: Harness) -> RunId:
    run = await harness.parked(FOR_CODE, wait(1, WaitKind.TIME, due_in_ms=1_000))
    await harness.advance(1_000)
    await harness.claim()
    return run.run_id


async def its_signal_comes(harness: Harness) -> RunId:
    run = await harness.parked(FOR_CODE, wait(1))
    await harness.signal(run.run_id)
    return run.run_id


async def its_child_ends(harness: Harness) -> RunId:
    parent, _ = await harness.parent(children=1, need=1)
    await harness.save(park(parent, FOR_CODE))
    (child,) = await harness.claim(queue="children")
    await harness.save(end(child))
    return parent.run_id


class Guard(NamedTuple):
    """What may come for a run, and where each store looks whether it waits for code."""

    come: Callable[[Harness], Awaitable[RunId]]
    function: str
    sql: dict[str, str]
    statement: str


GUARDS = {
    "its moment": Guard(its_moment_comes, "save", saving.SQL, "park"),
    "a signal": Guard(its_signal_comes, "deliver", delivering.SQL, "is_awaited"),
    "the end of a child": Guard(its_child_ends, "join_ends", groups.SQL, "wake"),
}


@pytest.mark.parametrize("what", GUARDS)
async def test_what_comes_for_a_run_that_waits_for_code_does_not_bring_it_back(harness, what):
    state, _ = await harness.standing(await GUARDS[what].come(harness))
    assert state is TaskState.WAITING


@pytest.mark.parametrize("what", GUARDS)
async def test_the_broken_twin_brings_it_back(harness, monkeypatch, what):
    guard = GUARDS[what]
    text = guard.sql[guard.statement]
    assert SEEN in text
    monkeypatch.setitem(guard.sql, guard.statement, text.replace(SEEN, UNSEEN))
    await rewrite(url_of(harness), guard.function, (SEEN, UNSEEN))
    state, _ = await harness.standing(await guard.come(harness))
    assert state is not TaskState.WAITING


async def leave(harness: Harness, worker_id: WorkerId) -> None:
    await harness.store.retire(worker_id)


async def die(harness: Harness, worker_id: WorkerId) -> None:
    assert (await harness.bury()).buried == [worker_id]


GOING = {leave: ("retire", "if found then"), die: ("upkeep", "if cardinality(buried) > 0 then")}


async def left_by_one_of_two_workers(harness: Harness, go: Go) -> TaskState:
    """What becomes of a run that met the code of one worker, when that goes and another stays that has it too."""
    await harness.enrol("w2", lease_ms=HOUR_MS)
    run = await harness.parked(FOR_CODE)
    await go(harness, run.worker_id)
    state, _ = await harness.standing(run.run_id)
    return TaskState(state)


@pytest.mark.parametrize("go", GOING)
async def test_the_worker_that_stays_gets_what_did_not_fit_the_one_that_goes(harness, go):
    assert await left_by_one_of_two_workers(harness, go) is TaskState.READY


@pytest.mark.parametrize("go", GOING)
async def test_the_broken_twin_that_goes_without_a_word_leaves_it_waiting(harness, monkeypatch, go):
    monkeypatch.setitem(workers.SQL, "codes_that_stay", "select '[]' where ? is not null")
    function, guard = GOING[go]
    await rewrite(url_of(harness), function, (guard, "if false then"))
    assert await left_by_one_of_two_workers(harness, go) is TaskState.WAITING
