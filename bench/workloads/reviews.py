"""A thousand reviews, opened and decided from four processes, while one worker process has their runs."""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from bench.databases import Databases, asking, check_stored, table
from bench.figures import Figures, emit
from bench.processes import Unmeasured, run_child, run_loop
from bench.worker import worker
from bench.workflows import reviewed
from bench.workloads.recovery import all_completed
from stepfast import Stepfast
from stepfast.starts import Start

REVIEWS = 1_000
PROCESSES = 4
SLOTS = 200
AT_ONCE = 25
"""Answers that are under way in each process."""
LOOK_EVERY_S = 0.025
LONGEST_S = 120


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url, worker(url, "--concurrency", SLOTS), ThreadPoolExecutor(PROCESSES) as threads:
        clerks = list(threads.map(lambda _: run_child("bench.workloads.reviews", url), range(PROCESSES)))
        asyncio.run(all_completed(url, REVIEWS, LONGEST_S))
        all_ended_at = time.monotonic()
        asyncio.run(check_stored(url, "review", REVIEWS))
        return rates(clerks, all_ended_at)


def rates(clerks: list[Figures], all_ended_at: float) -> Figures:
    """Moments are those of one clock that all processes share, so the slowest process counts."""
    begun_at = min(clerk["begun_at"] for clerk in clerks)
    open_at = max(clerk["open_at"] for clerk in clerks)
    first_at = min(clerk["open_at"] for clerk in clerks)
    decided_at = max(clerk["decided_at"] for clerk in clerks)
    return {
        "reviews_opened_per_s": REVIEWS / (open_at - begun_at),
        "reviews_decided_per_s": REVIEWS / (decided_at - first_at),
        "reviews_completed_per_s": REVIEWS / (all_ended_at - first_at),
    }


async def work(url: str) -> None:
    share = REVIEWS // PROCESSES
    async with Stepfast(url, workflows=[reviewed], worker=False) as app:
        begun_at = time.monotonic()
        answers = await app.start_many(Start(reviewed, number) for number in range(share))
        await all_open(url)
        open_at = time.monotonic()
        await decide(app, [answer.run.id for answer in answers if answer.run is not None])
        emit({"begun_at": begun_at, "open_at": open_at, "decided_at": time.monotonic()})


async def all_open(url: str) -> None:
    """Wait until every process's reviews are there: all begin to decide together."""
    query, gives_up_at = f"select count(*) from {table(url, 'review')}", time.monotonic() + LONGEST_S
    async with asking(url) as ask:
        while (found := await ask(query)) < REVIEWS:
            if time.monotonic() > gives_up_at:
                raise Unmeasured(f"Only {found} of {REVIEWS} reviews were open after {LONGEST_S} s.")
            await asyncio.sleep(LOOK_EVERY_S)


async def decide(app: Stepfast, run_ids: list[str]) -> None:
    """Answer the review of each of these runs."""
    room = asyncio.Semaphore(AT_ONCE)

    async def answer(run_id: str) -> None:
        async with room:
            # A run's first call opens its review.
            await app.reviews.decide(f"{run_id}.1", "continue", actor="bench")

    await asyncio.gather(*(answer(run_id) for run_id in run_ids))


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
