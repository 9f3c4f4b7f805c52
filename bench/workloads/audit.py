"""The audit trail of a long history: how fast it is sealed, and how fast it is proved, in how much memory."""

from __future__ import annotations

import asyncio
import resource
import sys
import time

from bench.databases import Databases, execute
from bench.figures import Figures, emit
from bench.processes import run_child
from stepfast import Stepfast
from stepfast.signing import KeyedSigner
from stepfast.tokens import fresh_keys

EVENTS = 1_000_000
EVENTS_PER_RUN = 10
PAGE = 100_000

SQLITE = """
with recursive n(i) as (select {first} union all select i + 1 from n where i < {last})
insert into event (run_id, seq, tenant, generation, type, at, step, attempt, token, data)
select printf('00000000-0000-7000-8000-%012x', i / {per_run}), 1 + i % {per_run}, 'default', 1, 'step_completed',
       1750000000000 + i, 'charge#1', 1, 1, '{{"worker": "0198f3c2"}}'
  from n
"""
POSTGRES = """
insert into stepfast.event (run_id, seq, tenant, generation, type, at, step, attempt, token, data)
select ('00000000-0000-7000-8000-' || lpad(to_hex(i / {per_run}), 12, '0'))::uuid, 1 + i % {per_run}, 'default', 1,
       'step_completed', 1750000000000 + i, 'charge#1', 1, 1, '{{"worker": "0198f3c2"}}'
  from generate_series({first}, {last}) i
"""


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        asyncio.run(fill(url))
        return run_child("bench.workloads.audit", url)


async def fill(url: str) -> None:
    text = SQLITE if url.startswith("sqlite") else POSTGRES
    for first in range(0, EVENTS, PAGE):
        await execute(url, text.format(first=first, last=first + PAGE - 1, per_run=EVENTS_PER_RUN))


async def sealed_and_verified(url: str) -> Figures:
    app = Stepfast(url, workflows=[], worker=False)
    app.signer = KeyedSigner(fresh_keys())
    async with app:
        begun = time.perf_counter()
        sealed = await app.audit.seal()
        seal_s = time.perf_counter() - begun
        begun = time.perf_counter()
        report = await app.audit.verify()
        verify_s = time.perf_counter() - begun
    assert (sealed, report.events, report.is_sound) == (EVENTS, EVENTS, True), report.findings[:3]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    return {"sealed_per_s": sealed / seal_s, "verify_s": verify_s, "verify_rss_mb": peak_mb}


if __name__ == "__main__":
    emit(asyncio.run(sealed_and_verified(sys.argv[1])))
