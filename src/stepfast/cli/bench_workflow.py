"""The workflow that `stepfast bench` runs, and how it is timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from stepfast.app import Stepfast
from stepfast.workflows.functions import workflow
from stepfast.workflows.steps import step

AT_ONCE = 100
STEPS_A_RUN = 20
WARM_UP_RUNS = 10


@step
async def pass_on(number: int) -> int:
    return number


@workflow
async def passing(steps: int) -> int:
    for number in range(steps):
        await pass_on(number)
    return steps


class Figures(NamedTuple):
    """What was measured."""

    steps_per_s: float
    at_once: int
    p50_ms: float
    p99_ms: float
    runs: int


async def measure(app: Stepfast, tenant: str, queue: str, seconds: float) -> Figures:
    """Time one run after the other for half of the time, and many at once for the other half."""

    async def run(steps: int) -> float:
        begun = time.perf_counter()
        await (await app.start(passing, steps, tenant=tenant, queue=queue)).result()
        return (time.perf_counter() - begun) * 1_000

    for _ in range(WARM_UP_RUNS):
        await run(1)
    alone_ms: list[float] = []
    ends = time.perf_counter() + seconds / 2
    while time.perf_counter() < ends:
        alone_ms.append(await run(1))
    runs, lasted_s = await _many(run_one=lambda: run(STEPS_A_RUN), seconds=seconds / 2)
    p50_ms, p99_ms = percentile(alone_ms, 0.50), percentile(alone_ms, 0.99)
    total = WARM_UP_RUNS + len(alone_ms) + runs
    return Figures(runs * STEPS_A_RUN / lasted_s, AT_ONCE, p50_ms, p99_ms, total)


async def _many(run_one: Callable[[], Awaitable[float]], seconds: float) -> tuple[int, float]:
    """Keep many runs going until the time is over; how many ended, and how long that took with the last of them."""
    begun = time.perf_counter()

    async def keep_going() -> int:
        done = 0
        while time.perf_counter() - begun < seconds:
            await run_one()
            done += 1
        return done

    done = await asyncio.gather(*(keep_going() for _ in range(AT_ONCE)))
    return sum(done), time.perf_counter() - begun


def percentile(spans_ms: list[float], share: float) -> float:
    """The span that so large a share of all spans does not exceed."""
    ordered = sorted(spans_ms)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
