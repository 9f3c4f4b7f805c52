"""Rows with numbers that nobody can count on from: their run alone is set aside, and says so."""

from __future__ import annotations

import pytest

from stepfast.kernel.errors import StepfastError
from stepfast.kernel.ids import RunId
from stepfast.stores.sqlite.store import SqliteStore
from tests.stores.harness import Harness
from tests.support.guards import rewrite, url_of

COLUMNS = ("token", "claims", "crashes", "strikes", "tries", "wakes", "generation")
ENOUGH = ("token", "claims", "event")


def greatest(harness: Harness) -> int:
    return 2**63 - 1 if isinstance(harness.store, SqliteStore) else 2**31 - 1


async def spoil(harness: Harness, run_id: RunId, what: str) -> None:
    """Put the greatest number that there is into the row of a run's task, or on its last event."""
    number = greatest(harness)
    if what == "event":
        await harness.unguard()
        where = "where run_id = :run_id and seq = (select max(e.seq) from stepfast.event e where e.run_id = :run_id)"
        await harness.sql(f"update stepfast.event set seq = {number} {where}", run_id=run_id)
    else:
        await harness.sql(f"update stepfast.task set {what} = {number} where run_id = :run_id", run_id=run_id)


async def set_aside(harness: Harness, run_id: RunId) -> bool:
    named = {(finding.clause, finding.run_id) for finding in await harness.store.findings()}
    state = await harness.task(run_id, "state, worker_id")
    return state == ("waiting", None) and ("waiting_for_nothing", run_id) in named


@pytest.mark.parametrize("what", [*(column for column in COLUMNS if column != "crashes"), "event"])
async def test_a_ready_run_is_set_aside_and_the_others_are_claimed(harness, what):
    await harness.enrol("w1")
    bad, *good = await harness.start_many(3)
    await spoil(harness, bad, what)
    assert [run.run_id for run in await harness.claim(worker="w1")] == good
    assert await set_aside(harness, bad)


async def test_a_suspect_is_set_aside_and_the_others_are_claimed(harness):
    await harness.enrol("w1")
    bad, *good = await harness.start_many(3)
    await spoil(harness, bad, "crashes")
    assert [run.run_id for run in await harness.claim(worker="w1")] == good
    assert await harness.claim(worker="w1", suspects=(1,)) == []
    assert await set_aside(harness, bad)


async def test_a_claim_of_one_goes_past_a_run_that_is_set_aside(harness):
    await harness.enrol("w1")
    bad, good = await harness.start_many(2)
    await spoil(harness, bad, "token")
    assert [run.run_id for run in await harness.claim(worker="w1", room=1)] == [good]


async def test_a_claim_of_given_runs_has_the_others(harness):
    await harness.enrol("w1")
    bad, good = await harness.start_many(2)
    await spoil(harness, bad, "token")
    claimed = await harness.store.claim_runs(harness.worker_id("w1"), [bad, good], ["order@1"])
    assert [run.run_id for run in claimed] == [good]
    assert await set_aside(harness, bad)


@pytest.mark.parametrize("what", [*COLUMNS, "event"])
async def test_a_run_of_a_dead_worker_is_set_aside_and_the_others_go_back(harness, what):
    await harness.enrol("w1")
    bad, *good = await harness.start_many(3)
    await harness.claim(worker="w1")
    await spoil(harness, bad, what)
    assert sorted((await harness.bury()).returned) == sorted(good)
    assert await set_aside(harness, bad)


@pytest.mark.parametrize("what", ENOUGH)
async def test_a_worker_that_leaves_hands_the_others_back(harness, what):
    await harness.enrol("w1")
    bad, *good = await harness.start_many(3)
    await harness.claim(worker="w1")
    await spoil(harness, bad, what)
    assert sorted(await harness.store.retire(harness.worker_id("w1"))) == sorted(good)
    assert await set_aside(harness, bad)


async def ignore_spent_numbers(harness: Harness) -> None:
    if isinstance(harness.store, SqliteStore):
        await harness.sql("drop view spent")
        await harness.sql("create view spent as select run_id from task where 0")
    await rewrite(url_of(harness), "is_spent", (">= 2000000000", "< 0"))


@pytest.mark.parametrize("what", ENOUGH)
async def test_the_broken_twin_that_counts_on_claims_nothing(harness, what):
    await ignore_spent_numbers(harness)
    await harness.enrol("w1")
    bad, *_ = await harness.start_many(3)
    await spoil(harness, bad, what)
    with pytest.raises(StepfastError):
        await harness.claim(worker="w1")


@pytest.mark.parametrize("what", ["token", "event"])
async def test_the_broken_twin_that_counts_on_gives_nothing_back(harness, what):
    await ignore_spent_numbers(harness)
    await harness.enrol("w1")
    bad, *_ = await harness.start_many(3)
    await harness.claim(worker="w1")
    await spoil(harness, bad, what)
    with pytest.raises(StepfastError):
        await harness.bury()
