"""The trail is only ever added to, whoever asks: the database itself refuses the rest."""

from __future__ import annotations

import apsw
import asyncpg
import pytest

from tests.retention.test_pruning import ended
from tests.support.sql import execute, fetch, tamper

CHANGES = {
    "an event is changed": "update stepfast.event set actor = 'eve'",
    "an event is deleted": "delete from stepfast.event",
    "a seal is changed": "update stepfast.seal set root = ''",
    "a seal is deleted": "delete from stepfast.seal",
    "a leaf is changed": "update stepfast.leaf set digest = ''",
    "a leaf is deleted": "delete from stepfast.leaf",
    "what tells of a pruned run is changed": "update stepfast.pruned set last_seq = 0",
    "what tells of a pruned run is deleted": "delete from stepfast.pruned",
}


@pytest.fixture
async def rows(sealing):
    """A row in each of these tables."""
    await sealing.app.retention.set("1d")
    await ended(sealing)
    await sealing.app.audit.seal()
    sealing.clock.advance("2d")
    await sealing.app.retention.prune()
    return sealing


@pytest.mark.parametrize("statement", CHANGES.values(), ids=CHANGES)
async def test_the_database_refuses_that(rows, database, statement):
    before = await fetch(database, "select count(*) from stepfast.event")
    with pytest.raises((apsw.ConstraintError, asyncpg.RestrictViolationError), match="E-STORE-004"):
        await execute(database, statement)
    assert await fetch(database, "select count(*) from stepfast.event") == before


@pytest.mark.parametrize("table", ["event", "seal", "leaf", "pruned"])
async def test_a_table_of_the_trail_cannot_be_emptied_at_once(sealing, migrated_postgres_url, table):
    with pytest.raises(asyncpg.RestrictViolationError, match="E-STORE-004"):
        await execute(migrated_postgres_url, f"truncate stepfast.{table}")


async def test_the_broken_twin_without_guards_lets_events_be_deleted(rows, database):
    await tamper(database, "delete from stepfast.event")
    assert await fetch(database, "select count(*) from stepfast.event") == [(0,)]
