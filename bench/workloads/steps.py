"""Durable steps: many runs of ten steps each at once, from the first start to the last result."""

from __future__ import annotations

import asyncio
import sys
import time

from bench.databases import Databases, check_stored
from bench.figures import Figures, emit, latencies, rss_mb
from bench.processes import run_child, run_loop
from bench.workflows import STEPS, step_seconds, ten_steps
from stepfast import Stepfast, WorkerSettings
from stepfast.cli.collecting import collect_seldom
from stepfast.engine.committer import Answered, Committer
from stepfast.kernel.decisions import Decision, HeldRun

RUNS = 200
# A round is over in a sixth of a second, in which a shared machine may do anything; peers take 30 times as long.
ROUNDS = 5


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        figures = run_child("bench.workloads.steps", url)
        asyncio.run(check_stored(url, "step", (1 + ROUNDS) * RUNS * STEPS))
        return figures


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[ten_steps], worker=WorkerSettings(concurrency=RUNS)) as app:
        # A worker lives long: the first round, in which everything is done for the first time, is not counted.
        await round_of_runs(app)
        # As `stepfast worker` does: a full collection takes 25 to 50 ms, and all runs wait for it.
        collect_seldom()
        time_commits()
        step_seconds.clear()
        seconds = [await round_of_runs(app) for _ in range(ROUNDS)]
        emit(
            {
                "steps_per_s": ROUNDS * RUNS * STEPS / sum(seconds),
                **latencies("step", step_seconds),
                **latencies("commit", commit_seconds),
                "steps_rss_mb": rss_mb(),
            }
        )


commit_seconds: list[float] = []


def time_commits() -> None:
    """From now on the time is taken from when a step is handed to the committer to when it is answered as saved."""
    save = Committer.save

    def timed(self: Committer, run: HeldRun, decision: Decision, answered: Answered) -> None:
        handed_over = time.perf_counter()

        def answered_now(error: BaseException | None) -> None:
            commit_seconds.append(time.perf_counter() - handed_over)
            answered(error)

        save(self, run, decision, answered_now if decision.records else answered)

    setattr(Committer, "save", timed)  # noqa: B010


async def round_of_runs(app: Stepfast) -> float:
    """The seconds that all runs take, from the first start to the last result."""
    begun = time.perf_counter()
    runs = await asyncio.gather(*(app.start(ten_steps, number) for number in range(RUNS)))
    await asyncio.gather(*(run.result() for run in runs))
    return time.perf_counter() - begun


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
