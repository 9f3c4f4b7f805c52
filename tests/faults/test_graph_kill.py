"""kill -9 of the workers of a large graph: every step is done, none is lost, and none is done again without reason."""

from __future__ import annotations

import subprocess
from collections import Counter
from contextlib import AbstractContextManager
from typing import Any

from stepfast import RunState, Stepfast
from tests.faults.graph_victim import LAYERED, STEPS, expected
from tests.faults.victim import trace_of
from tests.support import victims
from tests.support.victims import died


def victim(**options: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A worker process."""
    return victims.victim("tests.faults.graph_victim", options)


async def test_a_graph_of_a_thousand_steps_survives_the_death_of_its_workers(database, tmp_path):
    trace, kills = tmp_path / "trace", (130, 250, 90, 310)
    for bodies in kills:
        with victim(database=database, trace=str(trace), start=True, die_after=bodies) as process:
            await died(process)
    with victim(database=database, trace=str(trace)):
        async with Stepfast(database, workflows=[LAYERED], worker=False) as client:
            run = await client.start(LAYERED, key="graph")
            assert await run.result(timeout="120s") == expected()
            records = await run.steps()
            assert (await run.info()).state is RunState.COMPLETED
    assert Counter(record.call.name for record in records) == Counter(f"s{number}" for number in range(STEPS))
    times = Counter(number for _, number in trace_of(trace))
    assert len(times) == STEPS
    assert max(times.values()) <= 1 + len(kills)
