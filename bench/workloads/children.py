"""One run with a thousand children, joined by one wait."""

from __future__ import annotations

import asyncio
import sys
import time

from bench.databases import Databases, check_stored
from bench.figures import Figures, emit
from bench.processes import run_child, run_loop
from bench.workflows import children, no_step
from stepfast import Stepfast
from stepfast.cli.collecting import collect_seldom

WARM_UP = 5
WIDTH = 1_000


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        figures = run_child("bench.workloads.children", url)
        asyncio.run(check_stored(url, "outcome", WARM_UP + WIDTH + 2))
        return figures


async def work(url: str) -> None:
    async with Stepfast(url, workflows=[children, no_step]) as app:
        await (await app.start(children, WARM_UP))
        # As `stepfast worker` does: of a thousand things under way nothing is garbage, however often one looks.
        collect_seldom()
        begun = time.perf_counter()
        run = await app.start(children, WIDTH)
        await run
        seconds = time.perf_counter() - begun
        claims = sum(event.type == "claimed" for event in await run.history())
        emit({"children_per_s": WIDTH / seconds, "children_parent_claims": claims})


if __name__ == "__main__":
    run_loop(work(sys.argv[1]))
