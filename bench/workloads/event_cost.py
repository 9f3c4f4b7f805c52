"""What the audit trail costs: durable steps as they are, and by a build that tells nothing of them.

That build leaves out the events of decisions, 22 of the 24 that a run of ten steps has; `queued` and `claimed` stay.
"""

from __future__ import annotations

import asyncio
import sys

from bench.databases import Databases, check_stored
from bench.figures import Figures, emit
from bench.processes import run_child, run_loop
from bench.workflows import STEPS, ten_steps
from bench.workloads.steps import RUNS, round_of_runs
from stepfast import Stepfast, WorkerSettings
from stepfast.engine.committer import Committer, Item
from stepfast.kernel.decisions import HeldRun
from stepfast.kernel.events import Event

TOLD, UNTOLD = "told", "untold"
ROUNDS = 4


def measure(databases: Databases) -> Figures:
    told, untold = (_steps_per_s(databases, build) for build in (TOLD, UNTOLD))
    return {"untold_steps_per_s": untold, "event_cost_percent": 100 * (1 - told / untold)}


def _steps_per_s(databases: Databases, build: str) -> float:
    with databases.fresh() as url:
        figures = run_child("bench.workloads.event_cost", url, build)
        asyncio.run(check_stored(url, "step", (1 + ROUNDS) * RUNS * STEPS))
        return figures["steps_per_s"]


async def work(url: str, build: str) -> None:
    if build == UNTOLD:
        _tell_nothing()
    async with Stepfast(url, workflows=[ten_steps], worker=WorkerSettings(concurrency=RUNS)) as app:
        await round_of_runs(app)
        seconds = min([await round_of_runs(app) for _ in range(ROUNDS)])
        emit({"steps_per_s": RUNS * STEPS / seconds})


def _tell_nothing() -> None:
    enter = Committer._enter

    def enter_untold(self: Committer, item: Item) -> None:
        item.decision.events = ()
        enter(self, item)

    def do_not_ride(self: Committer, run: HeldRun, event: Event) -> None:
        """Nobody is told."""

    Committer._enter = enter_untold  # type: ignore[method-assign]
    Committer.ride = do_not_ride  # type: ignore[method-assign]


if __name__ == "__main__":
    run_loop(work(*sys.argv[1:]))
