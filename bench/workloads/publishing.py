"""A sink that takes everything: how fast a long trail is published to it, and how late events come while runs go on."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from bench.databases import Databases, execute
from bench.figures import Figures, emit
from bench.processes import run_child
from bench.workflows import one_step
from bench.workloads.audit import EVENTS_PER_RUN, POSTGRES, SQLITE
from stepfast import Start, Stepfast
from stepfast.engine.clock import SystemClock
from stepfast.engine.publishing import Publisher
from stepfast.kernel.sinks import Backoff
from stepfast.kernel.views import EventView
from stepfast.sinks import CallbackSink

EVENTS = 100_000
# Each one-step run has six events or so: about 2,000 events a second.
RUNS_PER_S, SECONDS = 330, 6


def measure(databases: Databases) -> Figures:
    with databases.fresh() as url:
        text = SQLITE if url.startswith("sqlite") else POSTGRES
        asyncio.run(execute(url, text.format(first=0, last=EVENTS - 1, per_run=EVENTS_PER_RUN)))
        figures = run_child("bench.workloads.publishing", url, "rate")
    with databases.fresh() as url:
        return {**figures, **run_child("bench.workloads.publishing", url, "lag")}


async def rate(url: str) -> Figures:
    """Events a second from one publisher to a function that does nothing."""
    async with Stepfast(url, workflows=[], worker=False) as app:
        sink = CallbackSink("nothing", lambda event: None)
        publisher = Publisher(app._open_parts().store, SystemClock(), sink, "bench", Backoff(), from_start=True)
        begun, published = time.perf_counter(), 0
        while count := await publisher.make_pass():
            published += count
        seconds = time.perf_counter() - begun
        assert published == EVENTS
        return {"published_per_s": published / seconds}


async def lag(url: str) -> Figures:
    """Milliseconds from the moment of an event to its delivery, while some 2,000 are written a second."""
    lags: list[float] = []

    def note(event: EventView) -> None:
        lags.append(time.time() * 1_000 - event.at)

    async with Stepfast(url, workflows=[one_step], sinks=[CallbackSink("lags", note)]) as app:
        for _ in range(SECONDS * 10):
            begun = time.perf_counter()
            await app.start_many([Start(one_step, number) for number in range(RUNS_PER_S // 10)])
            await asyncio.sleep(max(0.1 - (time.perf_counter() - begun), 0))
    return {"sink_lag_p50_ms": statistics.median(lags), "sink_lag_p99_ms": statistics.quantiles(lags, n=100)[98]}


if __name__ == "__main__":
    emit(asyncio.run((rate if sys.argv[2] == "rate" else lag)(sys.argv[1])))
