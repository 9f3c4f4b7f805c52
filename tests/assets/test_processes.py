"""Processes that put the same asset at the same time."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import Coroutine
from typing import Any

import asyncpg
import pytest

from stepfast import Stepfast
from stepfast.kernel.assets import AssetView, NewAsset
from stepfast.kernel.blobs import reference_to
from stepfast.stores import assets as rows
from stepfast.stores.postgres import assets as on_postgres
from tests.stores.harness import Harness
from tests.stores.postgres import asking, harness_on
from tests.stores.test_postgres_fence import until_blocked

PUTS = 20
TAKE = "select 1 from stepfast.task where run_id = $1 for no key update nowait"

PUTTER = """
import asyncio, json, sys
from stepfast import Stepfast

async def main():
    database, who, puts = sys.argv[1], sys.argv[2], int(sys.argv[3])
    async with Stepfast(database, workflows=[], worker=False) as app:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        put = [await app.assets.put(f"{who} {n}", "report") for n in range(puts)]
        same = [await app.assets.put("the same", "shared") for _ in range(puts)]
        fresh = [await app.assets.put("x", "new", fresh=True) for _ in range(puts)]
    print(json.dumps([[a.version for a in put], [a.version for a in same], [a.id for a in fresh]]))

asyncio.run(main())
"""


async def launched(database: str, who: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-c", PUTTER, database, who, str(PUTS)]
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def test_two_processes_at_once_count_versions_without_a_gap(database):
    async with Stepfast(database, workflows=[], worker=False) as app:
        processes = [await launched(database, who) for who in ("ann", "ben")]
        told = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
        answers = [json.loads(out) for out, _ in told]
        assert sorted(version for answer in answers for version in answer[0]) == list(range(1, 2 * PUTS + 1))
        assert {version for answer in answers for version in answer[1]} == {1}
        assert len({name for answer in answers for name in answer[2]}) == 2 * PUTS
        for who, answer in zip(("ann", "ben"), answers, strict=True):
            contents = [await app.assets.read("report", version) for version in answer[0]]
            assert contents == [f"{who} {number}".encode() for number in range(PUTS)]


async def tries_of_puts_at_once(harness: Harness, url: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often two puts look at an asset that both have looked at, if they can, before one of them has written."""
    look, looks = rows._held, itertools.count()

    def counted(new):
        next(looks)
        return (yield from look(new))

    def put(number: int) -> Coroutine[Any, Any, AssetView]:
        return harness.store.put_asset(NewAsset("acme", "report"), reference_to(bytes([number])))

    await put(0)
    monkeypatch.setattr(rows, "_held", counted)
    async with asking(url) as blocker, asking(url) as watcher:
        async with blocker.transaction():
            await blocker.execute("lock table stepfast.asset_version in exclusive mode")
            puts = [asyncio.create_task(put(number)) for number in (1, 2)]
            await until_blocked(watcher, 2)
        assert sorted(view.version for view in await asyncio.gather(*puts)) == [2, 3]
    return next(looks)


@pytest.fixture
async def postgres_store(migrated_postgres_url):
    async with harness_on(migrated_postgres_url) as harness:
        yield harness


async def test_puts_that_come_together_count_on_from_each_other(postgres_store, migrated_postgres_url, monkeypatch):
    assert await tries_of_puts_at_once(postgres_store, migrated_postgres_url, monkeypatch) == 2


async def test_the_broken_twin_that_counts_without_holding_the_asset_counts_twice(
    postgres_store, migrated_postgres_url, monkeypatch
):
    """One of the two is refused by the database, and tried again. On SQLite there is nothing to take out."""

    def not_held(new):
        found = yield from rows.get_asset(new.tenant, new.id, None)
        if found is None:
            yield "new_asset", {"tenant": new.tenant, "asset_id": new.id}
        return new.id, found

    monkeypatch.setattr(rows, "_held", not_held)
    assert await tries_of_puts_at_once(postgres_store, migrated_postgres_url, monkeypatch) == 3


async def is_free_while_its_holder_writes(url: str, harness: Harness) -> bool:
    """Whether a run can be taken between its holder's look at the fence and what the holder then writes."""
    run = await harness.held()
    look = on_postgres._statement("held_by", frozenset())
    async with asking(url) as holder, asking(url) as canceller, holder.transaction():
        fence = await holder.fetchrow("select run_id, token, worker_id from stepfast.task")
        assert await holder.fetch(look.text, *(fence[name] for name in look.names))
        try:
            await canceller.execute(TAKE, run.run_id)
        except asyncpg.LockNotAvailableError:
            return False
    return True


async def test_nobody_takes_a_run_while_its_holder_writes(postgres_store, migrated_postgres_url):
    assert not await is_free_while_its_holder_writes(migrated_postgres_url, postgres_store)


async def test_the_broken_twin_that_only_looks_lets_the_run_be_taken(
    postgres_store, migrated_postgres_url, monkeypatch
):
    monkeypatch.setattr(on_postgres, "LOCK", "")
    on_postgres._statement.cache_clear()
    try:
        assert await is_free_while_its_holder_writes(migrated_postgres_url, postgres_store)
    finally:
        on_postgres._statement.cache_clear()
