"""Claims with a million ready tasks of ten thousand tenants, against claims with a thousand of ten."""

from __future__ import annotations

import statistics
import sys
import time
from typing import NamedTuple
from urllib.parse import urlsplit

from bench.databases import Databases, execute, table
from bench.figures import Figures, emit
from bench.processes import run_child, run_loop
from stepfast.engine.clock import SystemClock
from stepfast.kernel.exchange import Claim, Enrolment, QueueRoom
from stepfast.kernel.ids import WorkerId
from stepfast.kernel.ports import Store
from stepfast.stores.urls import store_for

PER_TENANT = 100
LONG, SHORT = 1_000_000, 1_000
CLAIM_SIZE = 100
BURST = 10
CLAIMS = 90
# A short line of a thousand has nine hundred tasks of ours: so many full claims.
SHORT_CLAIMS = 9
# One task in ten is for code that the worker does not have.
OURS, FOREIGN = "ours@1", "foreign@1"
WORKER = WorkerId("01980000-0000-7000-8000-ffffffffffff")

NUMBERS = {
    "sqlite": "(with recursive n(i) as (select 0 union all select i + 1 from n where i < {last}) select i from n)",
    "postgresql": "(select i from generate_series(0, {last}) i)",
}
RUN_ID = {
    "sqlite": "printf('01970000-0000-7000-8000-%012x', i)",
    "postgresql": "('01970000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid",
}
TENANT = {"sqlite": "printf('tenant-%05d', {tenant})", "postgresql": "'tenant-' || lpad(({tenant})::text, 5, '0')"}
CODE = f"case when i % 10 = 0 then '{FOREIGN}' else '{OURS}' end"

FILLING = (
    """
    insert into {run} (run_id, tenant, workflow, version, kind, queue, code, priority, input, queued_at)
    select {run_id}, {tenant}, 'bench', 1, 'workflow', 'default', {code}, 0, '{{}}', i
      from {numbers} numbers
    """,
    """
    insert into {task} (run_id, queue, tenant, code, place, state, since_at)
    select run_id, queue, tenant, code, queued_at, 'ready', queued_at
      from {run}
    """,
    """
    insert into {event} (run_id, seq, tenant, generation, type, at, token)
    select run_id, 1, tenant, 1, 'queued', queued_at, 0
      from {run}
    """,
)


def measure(databases: Databases) -> Figures:
    with databases.fresh() as short_url, databases.fresh() as long_url:
        return run_child("bench.workloads.backlog", short_url, long_url)


class Line(NamedTuple):
    """A line of ready tasks, and how fast it was claimed from."""

    url: str
    store: Store
    tasks: int

    async def fill(self) -> None:
        """Fill the tables in bulk; statistics stay as they were for empty ones, which is where plans go wrong."""
        await execute(self.url, *_emptying(self.url), *_filling(self.url, self.tasks), *_settling(self.url))

    async def seconds_of_claims(self) -> list[float]:
        """The seconds of each claim, for as many as a short line has."""
        seconds: list[float] = []
        after = ""
        while len(seconds) < SHORT_CLAIMS:
            begun = time.perf_counter()
            claimed = await self.store.claim(Claim(WORKER, [QueueRoom("default", CLAIM_SIZE, after)], [OURS], BURST))
            took = time.perf_counter() - begun
            if len(claimed.runs) < CLAIM_SIZE:
                break
            seconds.append(took)
            after = claimed.runs[-1].tenant
            await execute(self.url, self._ending_claimed())
        return seconds

    def _ending_claimed(self) -> str:
        """Claimed tasks go by the index of what is held, as they would in life.

        Looking through the whole line for them would leave the processor's caches cold for the next claim.
        """
        return f"delete from {table(self.url, 'task')} where worker_id = '{WORKER}' and state = 'leased'"


async def work(short_url: str, long_url: str) -> None:
    short, long = await _line(short_url, SHORT), await _line(long_url, LONG)
    await long.fill()
    seconds: dict[int, list[float]] = {SHORT: [], LONG: []}
    # In turns, so that whatever else the machine does slows both down.
    while len(seconds[LONG]) < CLAIMS:
        await short.fill()
        for line in (short, long):
            seconds[line.tasks] += await line.seconds_of_claims()
    for line in (short, long):
        await line.store.close()
    rates = {tasks: CLAIM_SIZE / statistics.median(each) for tasks, each in seconds.items()}
    emit(
        {
            "claims_short_per_s": rates[SHORT],
            "claims_long_per_s": rates[LONG],
            "backlog_ratio": rates[LONG] / rates[SHORT],
        }
    )


async def _line(url: str, tasks: int) -> Line:
    store = store_for(url, SystemClock())
    await store.open()
    await store.enrol(Enrolment(WORKER, "bench", "here", 1, ["default"], [OURS], 10**9))
    return Line(url, store, tasks)


def _emptying(url: str) -> list[str]:
    if urlsplit(url).scheme == "sqlite":
        # Nobody deletes events where runs matter.
        unguarded = "drop trigger if exists refuse_event_delete"
        return [unguarded, *(f"delete from {name}" for name in ("run", "task", "event")), "analyze"]
    unguarded = "alter table stepfast.event disable trigger user"
    return [unguarded, "truncate stepfast.run, stepfast.task, stepfast.event", "analyze"]


def _filling(url: str, tasks: int) -> list[str]:
    kind = urlsplit(url).scheme
    names = {name: table(url, name) for name in ("run", "task", "event")}
    tenant = TENANT[kind].format(tenant=f"i % {tasks // PER_TENANT}")
    own = {"numbers": NUMBERS[kind].format(last=tasks - 1), "run_id": RUN_ID[kind], "tenant": tenant, "code": CODE}
    return [statement.format(**names, **own) for statement in FILLING]


def _settling(url: str) -> list[str]:
    """Have the filling written out, so that claims do not pay for it."""
    return ["pragma wal_checkpoint(truncate)" if urlsplit(url).scheme == "sqlite" else "checkpoint"]


if __name__ == "__main__":
    run_loop(work(sys.argv[1], sys.argv[2]))
