"""Loops whose store fails them for a while: a line in the log tells of it, and they go on."""

from __future__ import annotations

import asyncio
import threading

import pytest

from stepfast import StepfastError
from stepfast.kernel.errors import StoreUnavailable
from stepfast.worker.claims import ClaimLoop
from stepfast.worker.upkeep import UpkeepLoop
from tests.support.apps import app_on
from tests.support.workflows import say

FAILURES = {"named": StoreUnavailable("away"), "unnamed": KeyError("what")}


class Failing:
    """A method of a store that fails so many times before it works again."""

    def __init__(self, method, error: Exception, times: int) -> None:
        self._method = method
        self._error = error
        self._left = times
        self.worked = threading.Event()

    async def __call__(self, *args, **named):
        if self._left:
            self._left -= 1
            raise self._error
        answer = await self._method(*args, **named)
        self.worked.set()
        return answer


def fail(app, name: str, error: Exception, times: int) -> Failing:
    store = app._parts.store
    failing = Failing(getattr(store, name), error, times)
    setattr(store, name, failing)
    return failing


def lines(caplog, event: str) -> int:
    return sum(record.getMessage().startswith(f"{event} ") for record in caplog.records)


async def claims_go_on(database: str, caplog, error: Exception, patience: str = "60s") -> int:
    async with app_on(database, [say], worker=False) as client, app_on(database, [say]) as app:
        claim = fail(app, "claim", error, times=3)
        run = await client.start(say, "a")
        assert await run.result(timeout=patience) == "a"
        assert claim.worked.is_set()
    return lines(caplog, "claim_failed")


@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES)
async def test_a_claim_that_fails_for_a_while_is_one_line_and_work_goes_on(database, caplog, error):
    assert await claims_go_on(database, caplog, error) == 1


async def test_the_broken_twin_whose_claim_loop_ends_with_a_failure_never_claims_again(database, caplog, monkeypatch):
    async def run_without_a_net(self) -> None:
        while True:
            self._wake.clear()
            pause_ms = await self.look()
            if pause_ms:
                await self._rest(pause_ms)

    monkeypatch.setattr(ClaimLoop, "run", run_without_a_net)
    with pytest.raises(StepfastError, match="has not ended"):
        await claims_go_on(database, caplog, FAILURES["named"], patience="3s")


@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES)
async def test_upkeep_that_always_fails_stops_nothing_else(database, caplog, error):
    async with app_on(database, [say]) as app:
        fail(app, "upkeep", error, times=10**9)
        while not lines(caplog, "upkeep_failed"):
            assert await (await app.start(say, "a")).result(timeout="60s") == "a"


async def upkeep_goes_on(database: str, error: Exception) -> bool:
    async with app_on(database, [say]) as app:
        upkeep = fail(app, "upkeep", error, times=2)
        return await asyncio.to_thread(upkeep.worked.wait, 5)


@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES)
async def test_upkeep_that_failed_twice_is_one_line_and_goes_on(database, caplog, error):
    assert await upkeep_goes_on(database, error)
    assert lines(caplog, "upkeep_failed") == 1


async def test_the_broken_twin_whose_upkeep_ends_with_a_failure_does_not_come_back(database, monkeypatch):
    async def pass_without_a_net(self):
        return await self._store.upkeep(self._request())

    monkeypatch.setattr(UpkeepLoop, "make_pass", pass_without_a_net)
    assert not await upkeep_goes_on(database, FAILURES["named"])


@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES)
async def test_a_heartbeat_that_fails_twice_is_one_line_and_costs_no_lease(database, caplog, error):
    async with app_on(database, [say]) as app:
        (before,) = await app.workers.list()
        beat = fail(app, "beat", error, times=2)
        assert await asyncio.to_thread(beat.worked.wait, 10)
        (after,) = await app.workers.list()
    assert lines(caplog, "heartbeat_failed") == 1
    assert (after.worker_id, after.dead_at) == (before.worker_id, None)


async def test_heartbeats_that_fail_after_one_that_was_answered_are_told_of_anew(database, caplog):
    async with app_on(database, [say]) as app:
        for _ in range(2):
            beat = fail(app, "beat", FAILURES["named"], times=3)
            assert await asyncio.to_thread(beat.worked.wait, 10)
    told = [record.msg.fields["failures"] for record in caplog.records if "heartbeat_failed" in record.getMessage()]
    assert told == [1, 1]
