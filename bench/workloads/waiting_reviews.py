"""What ten thousand runs that wait for people cost an idle worker, and whether any of them is claimed too early."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from bench.databases import Ask, Databases, asking, table
from bench.figures import Figures, emit
from bench.processes import Child, Unmeasured, run_child, run_loop
from bench.worker import worker
from bench.workflows import reviewed
from bench.workloads.recovery import all_completed
from bench.workloads.reviews import SLOTS, decide
from stepfast import Stepfast

WAITING = 10_000
DECIDED = 100
SETTLE_S = 3.0
IDLE_S = 10.0
LONGEST_S = 300


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        before = idle(url)
        run_child("bench.workloads.enqueue", url, reviewed.workflow.name, WAITING)
        with worker(url, "--concurrency", SLOTS) as child:
            asyncio.run(all_waiting(url, child))
        after = idle(url)
        with worker(url, "--concurrency", SLOTS):
            run_child("bench.workloads.waiting_reviews", url)
            asyncio.run(all_completed(url, DECIDED, LONGEST_S))
            needless = asyncio.run(claims(url)) - WAITING - DECIDED
        figures = {f"idle_{name}_before": value for name, value in before.items()}
        figures |= {f"idle_{name}_waiting": value for name, value in after.items()}
        return {**figures, "waiting_needless_claims": needless}


def idle(url: str) -> Figures:
    """What a worker without work does: its share of a core, and on PostgreSQL its transactions."""
    with worker(url, "--concurrency", SLOTS) as child:
        time.sleep(SETTLE_S)
        seconds, statements = cpu_s(child.pid), asyncio.run(transactions(url))
        begun = time.perf_counter()
        time.sleep(IDLE_S)
        child.check_alive()
        span_s = time.perf_counter() - begun
        figures = {"cpu_percent": 100 * (cpu_s(child.pid) - seconds) / span_s}
        if statements is not None:
            # Less the look itself.
            done = (asyncio.run(transactions(url)) or 0) - statements - 1
            figures["transactions_per_s"] = max(done, 0) / span_s
        return figures


def cpu_s(pid: int) -> float:
    """The time that a process has had of all cores so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def transactions(url: str) -> int | None:
    """Transactions of a PostgreSQL database so far; what SQLite does nobody counts from outside."""
    if url.startswith("sqlite"):
        return None
    async with asking(url) as ask:
        return await ask("select xact_commit + xact_rollback from pg_stat_database where datname = current_database()")


async def claims(url: str) -> int:
    async with asking(url) as ask:
        return await ask(f"select count(*) from {table(url, 'event')} where type = 'claimed'")


async def all_waiting(url: str, child: Child) -> None:
    gives_up_at = time.perf_counter() + LONGEST_S
    async with asking(url) as ask:
        while (found := await waiting(url, ask)) < WAITING:
            child.check_alive()
            if time.perf_counter() > gives_up_at:
                raise Unmeasured(f"Only {found} of {WAITING} runs waited after {LONGEST_S} s.")
            await asyncio.sleep(0.1)


async def waiting(url: str, ask: Ask) -> int:
    return await ask(f"select count(*) from {table(url, 'task')} where state = 'waiting'")


async def work(url: str) -> None:
    """Decide some of them."""
    async with Stepfast(url, workflows=[reviewed], worker=False) as app:
        views = await app.reviews.list(limit=DECIDED)
        await decide(app, [view.run_id for view in views])
        emit({})


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
