"""Reruns of many long runs, or of one very long one, are carried out like any other."""

from __future__ import annotations

from stepfast.kernel.commands import Changed, Request, Rerun
from tests.stores.harness import decide, end, record


async def test_a_page_of_reruns_of_long_runs_is_carried_out(harness, store):
    """On PostgreSQL within the time that a statement has: it ended there when each run looked through all calls."""
    await harness.enrol()
    await harness.start_many(500)
    runs = await harness.claim(room=500, burst=500)
    charges = [record("charge", nth) for nth in range(20)]
    for page in range(0, 500, 100):
        await harness.save(*(decide(run, records=charges) for run in runs[page : page + 100]))
    await harness.save(*(end(run) for run in runs))
    answers = await store.change([Request(run.run_id, Rerun()) for run in runs])
    assert {type(answer) for answer in answers} == {Changed}
    assert await harness.sql("select superseded_by, count(*) from stepfast.step group by 1") == [(2, 10_000)]


async def test_a_run_of_ten_thousand_steps_is_rerun_from_its_middle(harness, store):
    """It took very long on SQLite when each call looked through all records."""
    run = await harness.held()
    await harness.save(decide(run, records=[record("charge", nth) for nth in range(10_000)]), end(run))
    await harness.change(run.run_id, Rerun(from_step="5001"))
    rows = await harness.sql("select superseded_by, count(*) from stepfast.step group by 1 order by 1 nulls first")
    assert rows == [(None, 5_000), (2, 5_000)]
