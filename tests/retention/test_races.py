"""Commands that meet somebody who prunes: each run goes whole or is there as before, and the trail stays sound."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from stepfast import Run, Stepfast, StepfastError
from stepfast.engine.pruning import PruneScope
from stepfast.signing import KeyedSigner
from tests.retention.conftest import KEYS
from tests.retention.test_kill import ORPHANS
from tests.retention.workflows import ALL, pass_on, say
from tests.stores.postgres import asking
from tests.support.apps import PATIENT
from tests.support.guards import rewrite
from tests.support.sql import fetch

RUNS = 30
COMMANDS = {
    "annotate": lambda run: run.annotate("seen", "yes"),
    "rerun": lambda run: run.rerun(),
    "signal": lambda run: run.signal("late", 1),
    "cancel": lambda run: run.cancel(),
}


@pytest.fixture(params=[True, False], ids=["sealed", "unsealed"])
async def app(database, request):
    app = Stepfast(database, workflows=ALL, worker=PATIENT)
    app.signer = KeyedSigner(KEYS) if request.param else None
    async with app:
        yield app


async def ended(app: Stepfast) -> list[Run[Any]]:
    """Runs that have ended, some with children of theirs."""
    runs = [await app.start(say, "word") for _ in range(RUNS)] + [await app.start(pass_on, ["a", "b"])]
    await asyncio.gather(*(run.result(timeout="60s") for run in runs))
    if app.signer is not None:
        await app.audit.seal()
    return runs


async def attempt(run, command) -> None:
    """A command to a run that may be gone, or may not be changed as it has ended."""
    with suppress(StepfastError):
        await command(run)


async def left_over(app: Stepfast) -> list[str]:
    """Runs that were pruned and have events all the same."""
    return [run_id for run_id, has_events in await app._open_parts().store.pruned_runs("", 1_000) if has_events]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
async def test_what_meets_a_pruner_leaves_nothing_by_halves(app, database, command):
    runs = await ended(app)
    pruners = [app._open_parts().pruner() for _ in range(2)]
    await asyncio.gather(
        *(pruner.prune(PruneScope(least_ms=0)) for pruner in pruners),
        *(attempt(run, command) for run in runs),
        *(pruner.prune(PruneScope(least_ms=0)) for pruner in pruners),
    )
    there = [run for run in runs if await app._open_parts().store.run(None, run.id) is not None]
    await asyncio.gather(*(run.result(timeout="60s") for run in there))
    assert (await left_over(app), await fetch(database, ORPHANS)) == ([], [])
    if app.signer is not None:
        await app.audit.seal()
        assert (await app.audit.verify()).findings == ()


# On PostgreSQL, where transactions overlap: somebody has locked an ended run and writes its next event.

# pg_locks, as pg_stat_activity shows to a transaction only the sessions that were there when it first looked.
WAITING = """
select exists (select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid)))
"""
NEXT_EVENT = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, token)
select run_id, max(seq) + 1, tenant, 1, 'annotated', 1, 0 from stepfast.event where run_id = $1 group by run_id, tenant
"""


async def pruned_meanwhile(app: Stepfast, url: str) -> dict[str, int]:
    """Prune a run that somebody is writing an event of; what was held back."""
    run = await app.start(say, "word")
    await run.result(timeout="60s")
    async with asking(url) as connection, connection.transaction():
        await connection.fetchval("select stepfast.lock_runs($1)", [run.id])
        await connection.execute(NEXT_EVENT, run.id)
        pruning = asyncio.create_task(app.retention.prune(older_than="0s"))
        while not pruning.done() and not await connection.fetchval(WAITING):
            pass
    return (await pruning).held


@pytest.fixture
async def unsealed(migrated_postgres_url):
    async with Stepfast(migrated_postgres_url, workflows=ALL, worker=PATIENT) as app:
        yield app


async def test_a_pruner_waits_for_who_writes_to_an_ended_run_and_sees_what_that_wrote(unsealed, migrated_postgres_url):
    assert await pruned_meanwhile(unsealed, migrated_postgres_url) == {"changed": 1}


async def test_the_broken_twin_that_locks_nothing_leaves_an_event_behind(unsealed, migrated_postgres_url):
    await rewrite(migrated_postgres_url, "prune_runs", (" for update;", ";"))
    assert await pruned_meanwhile(unsealed, migrated_postgres_url) == {}
    assert len(await left_over(unsealed)) == 1
