"""Hints that never arrive: polling and leases alone find every run that is ready, and what a dead worker held."""

from __future__ import annotations

import asyncio

import pytest

from stepfast import StepfastError
from stepfast.engine.hints import Hints
from stepfast.worker.claims import ClaimLoop
from tests.faults.processes import RESULT, results, victim
from tests.support.apps import app_on
from tests.support.victims import died
from tests.support.workflows import say

# Twenty times the polling interval of these workers; whoever has not looked by then does not look.
MANY_POLLS = "1s"


@pytest.fixture
def deaf(monkeypatch):
    """Processes that tell each other nothing, as when every notification is lost."""
    monkeypatch.setattr(Hints, "send", lambda self, topic: None)
    monkeypatch.setattr(Hints, "_heard", lambda self, topic: None)


async def claimed_without_a_hint(database: str, patience: str) -> str:
    async with app_on(database, [say], worker=False) as client, app_on(database, [say]) as app:
        async with asyncio.timeout(60):
            await idle(app)
        run = await client.start(say, "a")
        return await run.result(timeout=patience)


async def idle(app) -> None:
    """Wait until the app's worker has looked and found nothing."""
    (worker,) = app._parts._workers
    await worker.drained.wait()


@pytest.mark.usefixtures("deaf")
async def test_a_ready_run_is_claimed_by_polling_alone(database):
    assert await claimed_without_a_hint(database, "60s") == "a"


@pytest.mark.usefixtures("deaf")
async def test_the_broken_twin_that_rests_until_it_is_woken_never_claims(database, monkeypatch):
    async def rest_for_ever(self, pause_ms: int) -> None:
        await self._wake.wait()

    monkeypatch.setattr(ClaimLoop, "_rest", rest_for_ever)
    with pytest.raises(StepfastError, match="has not ended"):
        await claimed_without_a_hint(database, MANY_POLLS)


async def test_what_a_killed_worker_held_is_taken_up_within_lease_upkeep_and_polling(database, tmp_path):
    trace = str(tmp_path / "trace")
    with victim(database=database, trace=trace, deaf=True, start=3, die_after=5) as process:
        await died(process)
    with victim(database=database, trace=trace, deaf=True):
        assert await asyncio.wait_for(results(database, 3), 60) == [RESULT] * 3


async def test_runs_born_leased_to_a_process_that_dies_at_once_are_taken_up(database, tmp_path):
    trace = str(tmp_path / "trace")
    with victim(database=database, trace=trace, start=20, die_when="started") as process:
        await died(process)
    async with app_on(database, [], worker=False) as client:
        born = [run for run in await client.runs(limit=100) if run.worker_id is not None]
    assert born, "no run was born leased, so that this proves nothing"
    with victim(database=database, trace=trace):
        assert await asyncio.wait_for(results(database, 20), 60) == [RESULT] * 20
