"""What somebody gains who has the role of an engine on PostgreSQL: no run goes untold, and none before its time."""

from __future__ import annotations

import json

import asyncpg
import pytest

from stepfast.kernel.ids import RunId
from stepfast.kernel.retention import PolicyChange, PruneBatch
from stepfast.stores.grants import RoleKind
from stepfast.stores.postgres.retention import CHANGE_POLICY, PRUNE
from tests.retention.conftest import keeping
from tests.retention.test_pruning import ended, left, prune
from tests.retention.workflows import listen
from tests.stores.postgres import asking
from tests.support.roles import granted

DAY_MS = 86_400_000


@pytest.fixture
async def owner(migrated_postgres_url):
    """An engine that owns its schema, with one run that has ended."""
    async with keeping(migrated_postgres_url) as opened:
        yield opened


@pytest.fixture
async def hostile(migrated_postgres_url, owner):
    """A connection with the rights of an engine."""
    async with granted(migrated_postgres_url, RoleKind.ENGINE) as url, asking(url) as connection:
        yield connection


def fresh(owner) -> RunId:
    return RunId(owner.app.retention._id_for(None))


async def batch_of(owner, run_id: str, **changes) -> PruneBatch:
    last = (await owner.app.parts.store.events(run_id))[-1].seq
    return PruneBatch(fresh(owner), "default", None, 0, ((RunId(run_id), last),), False)._replace(**changes)


async def let_go(hostile, batch: PruneBatch, told: str) -> object:
    given = [batch.batch_id, batch.tenant, batch.least_ms, batch.is_sealing, batch.actor, told]
    return await hostile.fetchval(PRUNE, *given, [run for run, _ in batch.runs], [last for _, last in batch.runs])


UNTOLD = {
    "names nothing": lambda facts: {},
    "names another run": lambda facts: {**facts, "runs": [["00000000-0000-7000-8000-00000000000b", 3]]},
    "names fewer events": lambda facts: {**facts, "runs": [[run, last - 1] for run, last in facts["runs"]]},
    "names another age": lambda facts: {**facts, "older_than_ms": DAY_MS},
}


@pytest.mark.parametrize("lie", UNTOLD.values(), ids=UNTOLD)
async def test_no_run_goes_that_the_event_does_not_name(owner, hostile, lie):
    run_id = await ended(owner)
    batch = await batch_of(owner, run_id)
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await let_go(hostile, batch, json.dumps(lie(batch.facts)))
    assert await left(owner) == {run_id}
    assert await let_go(hostile, batch, batch.told(None)) is None


async def test_a_policy_is_changed_by_the_function_that_tells_of_it_alone(owner, hostile):
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await hostile.execute("insert into stepfast.retention values ('', '', 1, null, null, 0)")
    change = PolicyChange(fresh(owner), "", "", 1)
    with pytest.raises(asyncpg.InvalidParameterValueError):
        await hostile.fetchval(CHANGE_POLICY, *change, change._replace(keep_ms=DAY_MS).told)
    assert await owner.app.retention.list() == []
    assert await hostile.fetchval(CHANGE_POLICY, *change, change.told) is None


async def test_an_end_that_was_moved_back_makes_no_run_older(owner, hostile):
    await owner.app.retention.set("10d")
    run_id = await ended(owner)
    owner.clock.advance("1d")
    await hostile.execute("update stepfast.outcome set ended_at = 0")
    assert (await prune(owner)).runs == 0
    batch = await batch_of(owner, run_id)
    assert await let_go(hostile, batch, batch.told(None)) == "young"


async def test_a_run_that_was_made_to_look_ended_stays(owner, hostile):
    await owner.app.retention.set("1d")
    run_id = await ended(owner, listen)
    owner.clock.advance("2d")
    await hostile.execute(
        "insert into stepfast.outcome (run_id, generation, tenant, state, seq, token, ended_at) "
        "select run_id, generation, tenant, 'completed', 1, token, 0 from stepfast.task"
    )
    await hostile.execute("delete from stepfast.task")
    assert ((await prune(owner)).held, await left(owner)) == ({"damaged": 1}, {run_id})


async def test_who_looks_at_the_past_lets_nothing_go(owner, hostile):
    """A snapshot from before a run was annotated would leave that event behind."""
    batch = await batch_of(owner, await ended(owner))
    async with hostile.transaction(isolation="repeatable_read"):
        with pytest.raises(asyncpg.InvalidTransactionStateError):
            async with hostile.transaction():
                await let_go(hostile, batch, batch.told(None))
