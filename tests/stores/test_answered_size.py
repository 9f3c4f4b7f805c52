"""A command for many that comes again: each page costs what it holds, however many runs were commanded."""

from __future__ import annotations

import json
from typing import Any

from stepfast.stores.statements import shared_statements, unprefixed
from tests.stores.harness import Harness
from tests.stores.test_sqlite_plans import effort

COMMANDED = 20_000
PAGE = 100
ASKED = {"tenant": None, "command": "cancel", "key": "k", "before": None, "limit": PAGE}
RUN = "'00000000-0000-7000-8000-' || substr('000000000000' || n, -12)"


async def fill(harness: Harness, run: str) -> None:
    """Keys of so many runs of three tenants, under which they were cancelled."""
    await harness.query(
        "with recursive counted (n) as (select 1 union all select n + 1 from counted where n < :most) "
        "insert into stepfast.idempotency (tenant, command, key, digest, run_id, at) "
        f"select 't' || n % 3, 'cancel', 'k/' || {run}, 'd', {run}, 1 from counted",
        {"most": COMMANDED},
    )


async def test_the_work_on_sqlite_follows_the_page_alone(sqlite_harness):
    await fill(sqlite_harness, RUN)
    text = unprefixed(shared_statements()["list_answered"])
    store: Any = sqlite_harness.store
    work = await store._views.run(
        lambda connection: effort(connection, lambda connection: connection.execute(text, ASKED).fetchall())
    )
    # Some fifty instructions for each of the rows that three tenants have to offer; all rows take a million.
    assert work < 3 * PAGE * 100


async def test_the_work_on_postgresql_follows_the_page_alone(postgres_harness):
    await fill(postgres_harness, "('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid")
    # For so few rows one look at all is no dearer.
    await postgres_harness.query("set enable_seqscan = off", {})
    explained = await postgres_harness.query(
        "explain (analyze, buffers, format json) " + shared_statements()["list_answered"], ASKED
    )
    (plan,) = json.loads(explained[0][0])
    # All rows fill 400 pages and more, and as many of the index.
    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 3 * PAGE
