"""What goes, what stays, and what is left of what went."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from stepfast import NotFound
from stepfast.engine import pruning
from stepfast.kernel.blobs import BlobFilter
from stepfast.kernel.errors import BlobsFailed
from tests.retention.workflows import listen, pass_on, say, shout, tell, wail
from tests.support.sql import execute, fetch

# All tables that know runs, but for those that are meant to outlive them.
KEPT = {"asset_version", "derivation", "leaf", "lineage", "pruned", "pruned_rest"}
SQLITE_TABLES = """
select m.name from sqlite_schema m, pragma_table_info(m.name) c where m.type = 'table' and c.name = 'run_id'
"""
POSTGRES_TABLES = """
select c.table_name from information_schema.columns c
  join information_schema.tables t on t.table_schema = c.table_schema and t.table_name = c.table_name
 where c.table_schema = 'stepfast' and c.column_name = 'run_id' and t.table_type = 'BASE TABLE'
"""


async def ended(opened, workflow=say, *args, **options) -> str:
    run = await opened.start(workflow, *(args or ("word",)), **options)
    await opened.run_until_idle()
    return str(run.id)


async def left(opened) -> set[str]:
    return {view.run_id for view in await opened.app.runs(limit=1_000)}


async def prune(opened, **options):
    return await opened.app.retention.prune(**options)


async def test_without_a_policy_runs_are_kept_for_ever(opened):
    run_id = await ended(opened)
    opened.clock.advance("3650d")
    assert (await prune(opened)).counts == ()
    assert await left(opened) == {run_id}


async def test_a_run_goes_when_it_was_kept_as_long_as_its_policy_says(opened):
    await opened.app.retention.set("90d")
    run_id = await ended(opened)
    opened.clock.advance("89d")
    assert (await prune(opened)).runs == 0
    opened.clock.advance("1d")
    (count,) = (await prune(opened)).counts
    assert (count.tenant, count.workflow, count.families, count.runs) == ("default", "say", 1, 1)
    assert await left(opened) == set()
    with pytest.raises(NotFound, match="it was pruned on"):
        await opened.app.get(run_id).info()
    with pytest.raises(NotFound, match="List runs"):
        await opened.app.get(run_id, tenant="acme").info()


async def test_the_most_specific_policy_counts(opened):
    await opened.app.retention.set("10d")
    await opened.app.retention.set("forever", workflow="shout")
    await opened.app.retention.set("20d", tenant="acme")
    await opened.app.retention.set("30d", tenant="acme", workflow="shout")
    runs = {
        (tenant, workflow): await ended(opened, workflow, tenant=tenant)
        for tenant in ("default", "acme")
        for workflow in (say, shout)
    }
    gone: dict[int, set[str]] = {}
    before = set(runs.values())
    for days in (11, 21, 31):
        opened.clock.advance("11d" if days == 11 else "10d")
        await prune(opened)
        now = {run_id for run_id in before if await opened.app.parts.store.run(None, run_id) is not None}
        gone[days], before = before - now, now
    assert gone == {11: {runs["default", say]}, 21: {runs["acme", say]}, 31: {runs["acme", shout]}}
    assert before == {runs["default", shout]}


async def test_whatever_belongs_to_a_run_goes_with_it(opened, database):
    await opened.app.retention.set("1d")
    await ended(opened, say, "word", key="once", tags=["red"])
    await ended(opened, tell, ["one", "two"])
    failed = await ended(opened, wail)
    await opened.app.dead_letters.discard(failed)
    opened.clock.advance("2d")
    assert (await prune(opened)).runs == 5
    query = SQLITE_TABLES if database.startswith("sqlite") else POSTGRES_TABLES
    tables = {name for (name,) in await fetch(database, query)} - KEPT
    assert {"run", "event", "step", "outcome"} <= tables
    own = "where type not in ('pruned', 'retention_changed')"
    rows = {
        name: await fetch(database, f"select * from stepfast.{name} {own if name == 'event' else ''}")
        for name in tables
    }
    assert {name: found for name, found in rows.items() if found} == {}
    assert await opened.app.parts.store.unswept("", 10) == []


async def test_a_key_can_be_used_again_once_its_run_is_gone(opened):
    await opened.app.retention.set("1d")
    first = await ended(opened, say, "word", key="once")
    opened.clock.advance("2d")
    await prune(opened)
    assert await ended(opened, say, "word", key="once") != first


async def test_a_family_goes_whole_or_not_at_all(opened):
    await opened.app.retention.set("1d")
    parent = await opened.start(pass_on, ["one", "two"])
    await opened.run_until_idle()
    assert len(await left(opened)) == 4
    opened.clock.advance("2d")
    report = await prune(opened)
    assert [(count.workflow, count.families, count.runs) for count in report.counts] == [("pass_on", 1, 4)]
    assert parent.id not in await left(opened)


async def test_an_open_run_stays_however_old_it_is(opened):
    await opened.app.retention.set("1d")
    run_id = await ended(opened, listen)
    opened.clock.advance("100d")
    await prune(opened)
    assert await left(opened) == {run_id}


async def test_a_failed_run_stays_until_somebody_has_seen_to_it(opened):
    await opened.app.retention.set("1d")
    run_id = await ended(opened, wail)
    opened.clock.advance("2d")
    assert (await prune(opened)).held == {"dead_letter": 1}
    await opened.app.dead_letters.discard(run_id)
    assert (await prune(opened)).runs == 1


async def test_a_run_that_was_opened_again_counts_from_its_new_end(opened):
    await opened.app.retention.set("10d")
    run_id = await ended(opened)
    opened.clock.advance("8d")
    await opened.app.get(run_id).rerun()
    await opened.run_until_idle()
    opened.clock.advance("8d")
    await prune(opened)
    assert await left(opened) == {run_id}
    opened.clock.advance("2d")
    assert (await prune(opened)).runs == 1


@pytest.mark.parametrize("ways", [("cancel", "signal"), ("signal", "cancel"), ("signal", "signal")])
async def test_a_run_that_has_ended_twice_goes_once_with_those_that_ended_meanwhile(opened, monkeypatch, ways):
    monkeypatch.setattr(pruning, "PAGE", 1)
    run = opened.app.get(await ended(opened, listen))
    for number, way in enumerate(ways):
        if number:
            await run.rerun()
        await (run.cancel() if way == "cancel" else run.signal("word", "done"))
        await opened.run_until_idle()
        await ended(opened)
        opened.clock.advance("1m")
    for dry_run in (True, False):
        report = await prune(opened, older_than="1m", dry_run=dry_run)
        assert [(count.workflow, count.runs) for count in report.counts] == [("listen", 1), ("say", 2)]
    assert await left(opened) == set()


async def test_what_is_asked_for_never_shortens_what_a_policy_promises(opened):
    await opened.app.retention.set("90d", workflow="say")
    kept, loose = await ended(opened, say), await ended(opened, shout)
    opened.clock.advance("40d")
    await prune(opened, older_than="30d")
    assert await left(opened) == {kept}
    assert loose != kept


async def test_a_dry_run_tells_what_would_go_and_changes_nothing(opened):
    await opened.app.retention.set("1d")
    runs = {await ended(opened), await ended(opened, shout)}
    await ended(opened, wail)
    opened.clock.advance("2d")
    report = await prune(opened, dry_run=True)
    assert [(count.workflow, count.families) for count in report.counts] == [("say", 1), ("shout", 1)]
    assert report.held == {"dead_letter": 1}
    assert runs < await left(opened)


async def test_a_limit_is_a_number_of_families_and_the_next_call_goes_on(opened):
    await opened.app.retention.set("1d")
    for number in range(5):
        await ended(opened, say, str(number))
    opened.clock.advance("2d")
    assert [(await prune(opened, limit=2)).runs for _ in range(4)] == [2, 2, 1, 0]


async def test_tenants_and_workflows_can_be_chosen(opened):
    for tenant in ("default", "acme"):
        for workflow in (say, shout):
            await ended(opened, workflow, tenant=tenant)
    opened.clock.advance("2d")
    report = await prune(opened, older_than="1d", tenant="acme", workflow="say")
    assert [(count.tenant, count.workflow, count.runs) for count in report.counts] == [("acme", "say", 1)]


async def test_a_large_family_goes_in_several_transactions_children_first(opened, monkeypatch):
    monkeypatch.setattr(pruning, "MAX_RUNS", 3)
    monkeypatch.setattr(pruning, "PAGE", 2)
    await opened.app.retention.set("1d")
    await ended(opened, pass_on, [str(number) for number in range(10)])
    opened.clock.advance("2d")
    assert (await prune(opened)).runs == 12
    assert await left(opened) == set()
    told = await fetch_told(opened)
    assert [batch["count"] for batch in told] == [3, 3, 3, 3]


async def fetch_told(opened) -> list[dict[str, Any]]:
    found = await fetch(opened.app.database, "select data from stepfast.event where type = 'pruned' order by position")
    return [json.loads(data) for (data,) in found]


async def test_the_event_names_every_run_with_its_last_event(opened):
    await opened.app.retention.set("1d", reason="the law", actor="ann")
    run_id = await ended(opened)
    last = (await opened.events(run_id))[-1].seq
    opened.clock.advance("2d")
    await prune(opened, actor="bob")
    (told,) = await fetch_told(opened)
    assert told == {"count": 1, "policy": ["", "", 86_400_000], "older_than_ms": None, "runs": [[run_id, last]]}


async def test_two_that_prune_at_once_let_each_run_go_once(opened):
    await opened.app.retention.set("1d")
    for number in range(20):
        await ended(opened, tell, [str(number)])
    opened.clock.advance("2d")
    reports = await asyncio.gather(*(prune(opened) for _ in range(4)))
    assert sum(report.runs for report in reports) == 40
    assert sum(batch["count"] for batch in await fetch_told(opened)) == 40
    assert await left(opened) == set()


async def test_blobs_of_a_run_go_and_those_of_others_stay(opened):
    await opened.app.retention.set("1d")
    large = "x" * 200_000
    gone = await ended(opened, say, large)
    opened.clock.advance("2d")
    stays = await ended(opened, say, large)
    await prune(opened)
    blobs = await opened.app.parts.values.blobs.list(BlobFilter())
    assert ({blob.key.run_id for blob in blobs}, gone != stays) == ({stays}, True)


async def test_a_pass_of_a_worker_asks_once_whether_there_is_a_policy(opened):
    await ended(opened)
    opened.clock.advance("100d")
    pruner = opened.app.parts.pruner()
    assert (await pruner.make_pass()).runs == 0
    await opened.app.retention.set("1d")
    assert (await pruner.make_pass()).runs == 1


async def test_what_a_pass_has_seen_is_not_looked_at_again_within_the_hour(opened):
    await opened.app.retention.set("1d")
    failed = await ended(opened, wail)
    opened.clock.advance("2d")
    pruner = opened.app.parts.pruner()
    assert (await pruner.make_pass()).held == {"dead_letter": 1}
    await opened.app.dead_letters.discard(failed)
    await ended(opened, say)
    assert (await pruner.make_pass()).runs == 0
    opened.clock.advance("1h")
    assert (await pruner.make_pass()).runs == 1


async def test_what_becomes_old_enough_is_found_at_once(opened):
    await opened.app.retention.set("1d")
    pruner = opened.app.parts.pruner()
    for _ in range(3):
        await ended(opened)
        opened.clock.advance("1d")
        assert (await pruner.make_pass()).runs == 1


async def test_a_child_whose_parent_is_gone_goes_too(opened, database):
    await opened.app.retention.set("1d")
    parent = await ended(opened, tell, ["one"])
    await execute(database, f"delete from stepfast.run where run_id = '{parent}'")
    opened.clock.advance("2d")
    assert [(count.workflow, count.runs) for count in (await prune(opened)).counts] == [("say", 1)]


async def test_a_blob_that_cannot_be_removed_keeps_no_other(opened, monkeypatch):
    await opened.app.retention.set("1d")
    poison, other = sorted([await ended(opened), await ended(opened)])
    opened.clock.advance("2d")
    blobs = opened.app.parts.values.blobs
    list_blobs = blobs.list

    async def refuse(where: BlobFilter) -> Any:
        if where.run_id == poison:
            raise OSError("not this one")
        return await list_blobs(where)

    monkeypatch.setattr(blobs, "list", refuse)
    with pytest.raises(BlobsFailed):
        await prune(opened)
    assert await opened.app.parts.store.unswept("", 10) == [("default", poison)]
    monkeypatch.undo()
    await prune(opened)
    assert await opened.app.parts.store.unswept("", 10) == []
    assert other not in await left(opened)
