"""Starting many runs for others to execute: `python -m bench.workloads.enqueue URL WORKFLOW COUNT`."""

from __future__ import annotations

import sys
import time

from bench.figures import emit
from bench.processes import Unmeasured, run_loop
from bench.workflows import BY_NAME
from stepfast import Stepfast
from stepfast.starts import Start


async def work(url: str, name: str, count: int) -> None:
    workflow = BY_NAME[name]
    async with Stepfast(url, workflows=[workflow], worker=False) as app:
        begun = time.perf_counter()
        answers = await app.start_many(Start(workflow, number) for number in range(count))
        seconds = time.perf_counter() - begun
    if not all(answer.is_new for answer in answers):
        raise Unmeasured("Some starts were refused.")
    emit({"enqueue_per_s": count / seconds})


if __name__ == "__main__":
    run_loop(work(sys.argv[1], sys.argv[2], int(sys.argv[3])))
