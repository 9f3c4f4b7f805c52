"""`stepfast bench`: figures, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from stepfast.cli.bench_workflow import percentile
from tests.cli.office import checkout


async def tables_and_databases(database: str) -> object:
    """Everything that a measure could leave beside a database."""
    if database.startswith("sqlite"):
        folder = Path(database.removeprefix("sqlite:///")).parent
        return sorted(path.name for path in folder.iterdir() if path.suffix not in (".db-wal", ".db-shm"))
    connection = await asyncpg.connect(database)
    names = await connection.fetch("select datname from pg_database where datname like 'stepfast_bench_%'")
    await connection.close()
    return names


async def test_a_measure_gives_figures_and_leaves_nothing_behind(client, office):
    before = await tables_and_databases(client.database)
    figures = await office.json("bench", "--seconds", "0.2")
    assert [figures[name] > 0 for name in ("steps_per_s", "p50_ms", "p99_ms", "runs")] == [True] * 4
    assert await tables_and_databases(client.database) == before
    assert await client.runs() == []


async def test_a_measure_in_place_says_what_it_wrote(client, office):
    done = await office("bench", "--seconds", "0.2", "--in-place")
    runs = await client.runs(limit=10_000)
    assert {run.tenant for run in runs} == {"stepfast-bench"}
    assert f"{len(runs):,} runs of tenant stepfast-bench were written" in done.err


async def test_a_measure_in_place_takes_no_run_of_others(client, office):
    run = await client.start(checkout, "a")
    await office("bench", "--seconds", "0.2", "--in-place")
    assert (await run.info()).claims == 0


def test_a_percentile_is_one_of_the_spans():
    spans = [float(n) for n in range(1, 101)]
    assert (percentile(spans, 0.5), percentile(spans, 0.99), percentile([7.0], 0.99)) == (51.0, 100.0, 7.0)
